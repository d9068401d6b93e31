"""The language model under encodings.

config      its shape
cache       what a model keeps of earlier tokens, and the key/value cache
memory      the segment memory, which keeps the inputs of layers instead
lm          the model and its layers: `logits, cache = model(tokens, cache)`
logits      losses, computed for some tokens at a time where logits are large
generate    decoding, token by token; a model with its tokens
"""
