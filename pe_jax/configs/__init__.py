"""Configs that others build on: every knob of a run, and a run again from its record."""
