"""From text to batches of tokens.

load       the corpus that data.source names; from files and the standard library
tfds_text  the corpus of a TFDS dataset
corpus     documents of bytes, how they are split, and the store of large text
documents  documents as one array and their bounds, in memory or mapped
overlap    how much test text is in the training text
tokenizer  a corpus in tokens: bytes, or a byte-level BPE
batches    windows of tokens, by step
"""
