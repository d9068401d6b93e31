"""Benchmarks, the commands of scripts/benchmark.

compared   a training step, and a model's forward pass, beside other libraries
sides      the processes that are compared
encodings  the cost of every encoding against nope
turns      taking turns, medians of paired ratios, and tables
"""
