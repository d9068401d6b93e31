"""Benchmarks: time and memory of a training step, of every encoding, and of long sequences.

__main__   the commands of scripts/benchmark, which measure by
    paired, worker, sides, plain         a training step against other implementations
    encodings, encodings_table           the cost of every encoding against nope
long       the command of scripts/long_context, which measures by
    long_runs, long_worker, long_report  one long sequence by trained runs
"""
