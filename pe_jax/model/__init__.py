"""The language model: its layers, its cache, its segment memory, and decoding from it."""
