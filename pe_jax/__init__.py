"""pe_jax: how positional encodings extrapolate in length.

The names that a notebook needs. Each is imported when it is first used, since importing JAX takes
seconds.

    make, ENCODINGS       encodings from a spec such as "randomized+rope", and the table of them
    Encoding, Dims        the contract, for an encoding of your own, and the model it may know of
    LM, LmConfig          the language model
    Run, execute          a checked config, and the function that trains and evaluates it
    Trained               the trained model of a finished run, from its folder
    frame, curves         the results in a folder as a pandas DataFrame, and their figure
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pe_jax.encoding import Dims, Encoding
    from pe_jax.encodings import ENCODINGS
    from pe_jax.model.config import LmConfig
    from pe_jax.model.lm import LM
    from pe_jax.report.study import curves, frame
    from pe_jax.runs.execute import execute
    from pe_jax.runs.run import Run
    from pe_jax.runs.trained import Trained
    from pe_jax.spec.parse import make

_HOME = {
    "make": "spec.parse",
    "ENCODINGS": "encodings",
    "Encoding": "encoding",
    "Dims": "encoding",
    "LM": "model.lm",
    "LmConfig": "model.config",
    "Run": "runs.run",
    "execute": "runs.execute",
    "Trained": "runs.trained",
    "frame": "report.study",
    "curves": "report.study",
}

__all__ = [
    "ENCODINGS",
    "LM",
    "Dims",
    "Encoding",
    "LmConfig",
    "Run",
    "Trained",
    "curves",
    "execute",
    "frame",
    "make",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pe_jax' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pe_jax.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
