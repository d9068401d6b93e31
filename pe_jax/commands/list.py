"""What there is to choose from by name, with a sentence on each.

pe-jax list encodings
pe-jax list tasks | grep arithmetic
pe-jax list                        # what can be listed
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from absl import flags

from pe_jax.commands import cli
from pe_jax.commands.docstrings import of_file, sentence
from pe_jax.errors import nearest

OPTIONS = flags.FlagValues()
OPERANDS = "[WHAT]"


def main(what: str = "") -> int:
    if what not in ("", *LISTS):
        return cli.fail(f"no list of {what!r}{nearest(what, LISTS)} Known: {', '.join(LISTS)}.")
    about = (
        LISTS[what]() if what else {name: sentence(lists.__doc__) for name, lists in LISTS.items()}
    )
    width = max(map(len, about))
    for name, text in about.items():
        print(cli.filled(f"{name:{width}}  {text}", " " * (width + 2), cli.columns(1000)))
    return 0


def _encodings() -> dict[str, str]:
    """The members of a spec, as in --config=base.py:pe=randomized+rope."""
    from pe_jax.encodings import ENCODINGS

    return _docstrings(ENCODINGS)


def _tasks() -> dict[str, str]:
    """What a model learns, as in --config=base.py:task=reverse_string,pe=rope."""
    from pe_jax.tasks import TASKS

    return _docstrings(TASKS)


def _metrics() -> dict[str, str]:
    """How a model is scored, as in --config.eval.metrics='("same_targets","mine.py:first")'."""
    from pe_jax.metrics import METRICS

    usual = {"last": "L/2", "split": "test", "alike": "for all models and seeds"}
    told = {name: metric.sentence.format(**usual) for name, metric in METRICS.items()}
    return {name: text[:1].upper() + text[1:] for name, text in told.items()}


def _configs() -> dict[str, str]:
    """The config files that are found from any folder, as in --config=quickstart.py."""
    return {name: of_file(path) for name, path in sorted(cli.known_configs().items())}


def _swaps() -> dict[str, str]:
    """What a trained rope can be evaluated with, as in --config.eval.swaps='("yarn+log_n",)'."""
    from pe_jax.encodings import ENCODINGS

    return _docstrings({name: cls for name, cls in ENCODINGS.items() if _swapped_in(name)})


def _swapped_in(name: str) -> bool:
    """Whether an encoding takes the place of a trained rope; or stands beside it without a notion
    of position of its own: it changes no more than the reach or the scale of attention.
    """
    from pe_jax.encoding import sites
    from pe_jax.model.config import LmConfig
    from pe_jax.specs.parse import make
    from pe_jax.specs.swap import swap

    rope = make("rope", LmConfig().dims(64))
    try:
        *_, new = swapped = swap(rope, name)
    except ValueError:  # it learns something
        return False
    return swapped != rope and (len(swapped) == 1 or sites(new) in (("reach",), ("scale",)))


LISTS = {
    "encodings": _encodings,
    "tasks": _tasks,
    "metrics": _metrics,
    "configs": _configs,
    "swaps": _swaps,
}


def _docstrings(table: Mapping[str, type]) -> dict[str, str]:
    """The first sentence of each class's file, which names the paper."""
    return {name: sentence(sys.modules[cls.__module__].__doc__) for name, cls in table.items()}
