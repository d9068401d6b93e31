"""The table of tasks, by the names that section `task` of a config gives them: one file each.

The docstring of a file defines the samples of length n, with the paper and a worked example, and
says where the definition differs from the paper or its code. A new one needs its file and its line
in TASKS; its methods in plain Python, `oracle` or `bayes`, and `guess`, check its samples in the
tests.
"""

from __future__ import annotations

from pe_jax.task import Task
from pe_jax.tasks.addition import Addition
from pe_jax.tasks.binary_addition import BinaryAddition
from pe_jax.tasks.binary_multiplication import BinaryMultiplication
from pe_jax.tasks.bucket_sort import BucketSort
from pe_jax.tasks.compute_sqrt import ComputeSqrt
from pe_jax.tasks.copy import Copy
from pe_jax.tasks.counting import Counting
from pe_jax.tasks.cycle_navigation import CycleNavigation
from pe_jax.tasks.duplicate_string import DuplicateString
from pe_jax.tasks.dyck import Dyck
from pe_jax.tasks.even_pairs import EvenPairs
from pe_jax.tasks.flip_flop import FlipFlop
from pe_jax.tasks.grid_navigation import GridNavigation
from pe_jax.tasks.indirect_indexing import IndirectIndexing
from pe_jax.tasks.induction import Induction
from pe_jax.tasks.markov import Markov
from pe_jax.tasks.missing_duplicate_string import MissingDuplicateString
from pe_jax.tasks.modular_arithmetic import ModularArithmetic
from pe_jax.tasks.modular_arithmetic_brackets import ModularArithmeticBrackets
from pe_jax.tasks.mqar import Mqar
from pe_jax.tasks.odds_first import OddsFirst
from pe_jax.tasks.parity import Parity
from pe_jax.tasks.parity_check import ParityCheck
from pe_jax.tasks.passkey import Passkey
from pe_jax.tasks.query_kernel import QueryKernel
from pe_jax.tasks.reverse import Reverse
from pe_jax.tasks.reverse_string import ReverseString
from pe_jax.tasks.selective_copy import SelectiveCopy
from pe_jax.tasks.solve_equation import SolveEquation
from pe_jax.tasks.sort import Sort
from pe_jax.tasks.stack_manipulation import StackManipulation
from pe_jax.tasks.summation import Summation
from pe_jax.tasks.text import Text

TASKS: dict[str, type[Task]] = {
    "text": Text,
    "even_pairs": EvenPairs,
    "parity_check": ParityCheck,
    "cycle_navigation": CycleNavigation,
    "modular_arithmetic": ModularArithmetic,
    "modular_arithmetic_brackets": ModularArithmeticBrackets,
    "solve_equation": SolveEquation,
    "stack_manipulation": StackManipulation,
    "reverse_string": ReverseString,
    "duplicate_string": DuplicateString,
    "odds_first": OddsFirst,
    "missing_duplicate_string": MissingDuplicateString,
    "bucket_sort": BucketSort,
    "binary_addition": BinaryAddition,
    "binary_multiplication": BinaryMultiplication,
    "compute_sqrt": ComputeSqrt,
    "mqar": Mqar,
    "induction": Induction,
    "selective_copy": SelectiveCopy,
    "passkey": Passkey,
    "flip_flop": FlipFlop,
    "dyck": Dyck,
    "markov": Markov,
    "counting": Counting,
    "indirect_indexing": IndirectIndexing,
    "grid_navigation": GridNavigation,
    "query_kernel": QueryKernel,
    "copy": Copy,
    "reverse": Reverse,
    "addition": Addition,
    "summation": Summation,
    "sort": Sort,
    "parity": Parity,
}
