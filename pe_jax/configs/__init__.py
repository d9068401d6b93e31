"""The package's configs: base.py has the defaults of a run, quickstart.py a first sweep; replay.py
runs a record again.
"""
