"""From text to batches of tokens.

load       the corpus that data.source names; from files and the standard library
tfds_text  a corpus from and to a TFDS dataset
corpus     documents of bytes, how they are split, how much test text is in the training text
tokenizer  a corpus in tokens: bytes, or a byte-level BPE
batches    windows of tokens, by step
"""
