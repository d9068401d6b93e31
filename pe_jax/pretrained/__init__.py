"""Pretrained models of other libraries, read into this package's language model."""
