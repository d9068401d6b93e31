"""Compilation of programs for accelerators that need not be present: do they fit, and what do they
need?

__main__  the command of scripts/accelerators
grid      the programs to compile, and the file of their requirements
programs  a run's training step and evaluation, from shapes alone, and their requirements
table     the report of these programs
kernels   the gradient of attention by our kernel and by JAX's splash attention, with its report
"""
