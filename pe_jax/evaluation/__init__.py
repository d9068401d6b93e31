"""Evaluation of trained models: windows of text, their scores, and the passes over them."""
