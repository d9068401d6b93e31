"""Benchmarks: time and memory of a training step, of every encoding, and of long sequences."""
