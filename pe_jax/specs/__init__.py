"""From a spec such as "randomized+rope[::2]" to encodings.

parse.py reads a spec, with pe_jax/terms.py (its text). swap.py puts encodings into a trained model.
"""
