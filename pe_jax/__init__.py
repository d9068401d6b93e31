"""pe_jax: how positional encodings extrapolate in length.

The names that a notebook needs. Each is imported when it is first used, since importing JAX takes
seconds.

    make, ENCODINGS       encodings from a spec such as "randomized+rope", and the table of them
    Encoding, Dims        the contract, for an encoding of your own, and the model it may know of
    Task, Metric          the contracts of a task and a metric
    LM, LmConfig          the language model
    Run, execute          a checked config, and the function that trains and evaluates it
    load                  a model: the trained one of a run's folder, or hf:DIR or gguf:PATH
    Trained               the trained model of a run, as `load` gives it
    frame, curves         the results in a folder as a pandas DataFrame, and their figure
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pe_jax.encoding import Dims as Dims
    from pe_jax.encoding import Encoding as Encoding
    from pe_jax.encodings import ENCODINGS as ENCODINGS
    from pe_jax.metric import Metric as Metric
    from pe_jax.model.config import LmConfig as LmConfig
    from pe_jax.model.lm import LM as LM
    from pe_jax.report.frame import curves as curves
    from pe_jax.report.frame import frame as frame
    from pe_jax.runs.execute import execute as execute
    from pe_jax.runs.run import Run as Run
    from pe_jax.runs.trained import Trained as Trained
    from pe_jax.runs.trained import load as load
    from pe_jax.specs.parse import make as make
    from pe_jax.task import Task as Task

_HOME = {
    "make": "specs.parse",
    "ENCODINGS": "encodings",
    "Encoding": "encoding",
    "Dims": "encoding",
    "Task": "task",
    "Metric": "metric",
    "LM": "model.lm",
    "LmConfig": "model.config",
    "Run": "runs.run",
    "execute": "runs.execute",
    "load": "runs.trained",
    "Trained": "runs.trained",
    "frame": "report.frame",
    "curves": "report.frame",
}
__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pe_jax' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pe_jax.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
