"""The language model under encodings.

config      the shape of a model
cache       the past of a model, and the key/value cache
memory      segment memory
lm          the model and its layers: `logits, cache = model(tokens, cache)`; losses of logits
generate    a model with its tokenizer; decoding
"""
