"""The package's configs: base.py has every knob of a run, quickstart.py a first sweep; replay.py
runs a record again.
"""
