"""Programs compiled for accelerators that are not there: whether they fit, and what they need.

__main__  the command of scripts/accelerators
grid      which programs are compiled, and the file of what they need
programs  a run's training step and evaluation, from shapes alone, and what one needs
table     the report of these programs
kernels   the gradient of attention by our kernel and by JAX's splash attention, with its report
"""
