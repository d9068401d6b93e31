"""Measurements on one device within minutes, the command of scripts/gpu.

__main__   the command: cases, their processes, the record
report     tables of a record
serve      a process that measures cases, with its sizes and its clock
cases      the cases in JAX: the kernel's numbers, attention, training steps, evaluation
attention  attention by our forms and by JAX's own
peers      the cases in PyTorch: FlexAttention, and a training step of nanoGPT's model
"""
