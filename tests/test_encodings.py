"""The common suite: every encoding of the table, against its reference and against what it claims.

A new encoding joins by its line in ENCODINGS and its function in reference.py.
"""

import collections
import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from helpers import DIMS, assert_near, bind, embed, example, layer, output, scattered

from pe_jax.attention import attend, attend_blockwise
from pe_jax.encoding import Encoding, fold_positions, init_params, overrides, sites
from pe_jax.encodings import ENCODINGS, defaults, make
from pe_jax.geometry import log_bucket

every_encoding = pytest.mark.parametrize("name", ENCODINGS)
ATTENTION = {hook for hook in sites(NoEncoding) } if False else set()
