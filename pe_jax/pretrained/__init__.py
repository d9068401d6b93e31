"""Pretrained models of other libraries, read into this package's language model.

source.py reads the description of a model at "hf:DIR" or "gguf:PATH", which config.py understands;
load.py reads its weights, too. What is not understood is refused, since a
field that is ignored silently is another model.
"""
