"""From text to batches of tokens.

load               the corpus that data.source names
corpus             documents of bytes, and how they are split
files, tfds_text   read a corpus: from files and the standard library, from TFDS datasets
overlap            how much held-out text stands in the training text, too
prepare            makes TFDS datasets without TensorFlow
tokenizer, bpe     a corpus in tokens; bpe is the one place that calls the library `tokenizers`
batches            windows of tokens, by step
"""
