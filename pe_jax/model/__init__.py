"""The language model under encodings.

config      its shape
parameters  the parameters of an encoding, drawn for a model
cache       what a model keeps of earlier tokens, and the key/value cache
memory      the segment memory, which keeps the inputs of layers instead
layer       one layer: attention and an MLP
lm          the model: `logits, cache = model(tokens, cache)`
generate    decoding, token by token
"""
