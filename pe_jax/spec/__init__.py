"""From a spec such as "randomized+rope[::2]" to encodings: parsing, own classes, swaps, advice."""
