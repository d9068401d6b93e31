"""The table of tasks, by the names that section `task` of a config gives them: one class a file.

The docstring of a file defines the samples of length n, with the paper and a worked example, and
says where the definition differs from the paper or its code. A new one needs its file and its name
in NAMES; its methods in plain Python, `oracle` or `bayes`, and `guess`, check its samples in the
tests.
"""

from __future__ import annotations

from pe_jax import contract
from pe_jax.task import Task

NAMES = """
text masked_text even_pairs parity_check cycle_navigation modular_arithmetic
modular_arithmetic_brackets solve_equation stack_manipulation reverse_string duplicate_string
odds_first missing_duplicate_string bucket_sort binary_addition binary_multiplication compute_sqrt
mqar induction selective_copy passkey flip_flop dyck markov counting indirect_indexing
grid_navigation query_kernel copy reverse addition summation sort parity
"""
"""In the order of tables; each is a file of this folder."""

TASKS: dict[str, type[Task]] = contract.table(__name__, NAMES)
