"""Sweeps whose processes are killed, and what must come out of them nevertheless."""
