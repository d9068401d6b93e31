"""Texts and verdicts of single studies of configs/."""
