"""From text to batches of tokens: sources, splits, tokenizers."""
