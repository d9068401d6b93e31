"""Benchmarks, the commands of scripts/benchmark.

compared   a training step and a forward pass, compared with other libraries
sides      the processes that are compared
profile    the time of pe_jax's training step by part
encodings  the cost of every encoding relative to nope
data       memory and time of text that is larger than memory
turns      alternating measurements, medians of paired ratios, and tables
"""
