"""From a spec such as "randomized+rope[::2]" to encodings.

parse.py reads a spec, with terms.py (its text), layers.py (its slices) and own_class.py (classes of
the user's own files). swap.py puts encodings into a trained
model, and advice.py warns of doubtful compositions.
"""
