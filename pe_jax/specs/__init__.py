"""From a spec such as "randomized+rope[::2]" to encodings.

parse.py reads a spec, with pe_jax/terms.py (its text). swap.py puts encodings into a trained model,
hooks.py checks those of a user's own class, and advice.py warns of doubtful compositions.
"""
