"""Benchmarks, the commands of scripts/benchmark.

compared   a training step, and a model's forward pass, beside other libraries
sides      the processes that are compared
profile    where the time of pe_jax's training step goes
encodings  the cost of every encoding against nope
attention  each form of attention on one GPU or TPU
turns      taking turns, medians of paired ratios, and tables
"""
