"""The package's configs: base.py has every knob of a run; replay.py runs a record again."""
