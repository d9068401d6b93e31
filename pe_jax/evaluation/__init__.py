"""Evaluation of a checkpoint: windows of text, scores, and the passes over them."""
