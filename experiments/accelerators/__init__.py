"""Programs compiled for accelerators that are not there: whether they fit, and what they need.

__main__  the command of scripts/accelerators
grid      which programs are compiled, and the file of what they need
compiled  one program compiled for a TPU v5e: its memory, operations and bytes
programs  the training step and the evaluation of a run, from shapes alone
table     the report
"""
