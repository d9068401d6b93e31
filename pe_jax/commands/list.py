"""Names of encodings, tasks, metrics, configs, config fields and swaps, with a sentence on each.

    pe-jax list encodings
    pe-jax list tasks | grep arithmetic

Without a name it says what can be listed.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pe_jax.commands import cli, config_file
from pe_jax.errors import nearest

OPTIONS = cli.Options()


def main(what: str = "") -> int:
    if what not in ("", *LISTS):
        return cli.fail(f"no list of {what!r}{nearest(what, LISTS)} Known: {', '.join(LISTS)}.")
    about = LISTS[what]() if what else {name: sentence(of.__doc__) for name, of in LISTS.items()}
    width = max(map(len, about)) if what != "fields" else 0
    columns = shutil.get_terminal_size((1000, 24)).columns
    for name, text in about.items():
        print(cli.filled(f"{name:{width}}  {text}", " " * (width + 2), columns))
    return 0


def _encodings() -> dict[str, str]:
    """The members of a spec, as in --config=base.py:pe=randomized+rope."""
    from pe_jax.encodings import ENCODINGS

    return _docstrings(ENCODINGS)


def _tasks() -> dict[str, str]:
    """Tasks to train on, as in --config=base.py:task=reverse_string,pe=rope."""
    from pe_jax.tasks import TASKS

    return _docstrings(TASKS)


def _metrics() -> dict[str, str]:
    """Scores of a model, as in --config.eval.metrics='("same_targets","mine.py:first")'."""
    from pe_jax.metrics import METRICS

    usual = {"last": "L/2", "split": "test", "alike": "for all models and seeds"}
    texts = {name: metric.sentence.format(**usual) for name, metric in METRICS.items()}
    return {name: text[:1].upper() + text[1:] for name, text in texts.items()}


def _configs() -> dict[str, str]:
    """Config files that are found from any folder, as in --config=quickstart.py."""
    paths = sorted(config_file.known().items())
    return {name: sentence(ast.get_docstring(ast.parse(path.read_text()))) for name, path in paths}


def _fields() -> dict[str, str]:
    """The fields of the config with their defaults, as in --config.train.steps=200."""
    return {flag: text for _, _, fields in sections() for flag, text in fields.items()}


def _swaps() -> dict[str, str]:
    """Encodings for a trained rope, as in --config.eval.swaps='("yarn+log_n",)'."""
    from pe_jax.encodings import ENCODINGS

    return _docstrings({name: cls for name, cls in ENCODINGS.items() if _swapped_in(name)})


LISTS = {
    "encodings": _encodings,
    "tasks": _tasks,
    "metrics": _metrics,
    "configs": _configs,
    "fields": _fields,
    "swaps": _swaps,
}


def sections() -> Iterator[tuple[str, str, dict[str, str]]]:
    """(name, sentence, {"--config.train.steps=350": sentence of the field}) of each section of
    the config. The sentence of a field is the string below it.
    """
    from pe_jax.runs.config import SECTIONS

    for section, kind in SECTIONS.items():
        (tree,) = ast.parse(inspect.getsource(kind)).body
        assert isinstance(tree, ast.ClassDef)
        fields = {}
        for field, below in itertools.pairwise(tree.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(text)):
                    default = shlex.quote(str(getattr(kind, name)).replace("'", '"'))
                    fields[f"--config.{section}.{name}={default}"] = sentence(text)
        yield section, sentence(kind.__doc__), fields


def sentence(text: Any) -> str:
    """The first sentence of a docstring, or its first paragraph where that ends otherwise."""
    first = " ".join((text or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.)(?<!al\.) ", first)[0]  # "et al." ends no sentence


def _swapped_in(name: str) -> bool:
    """Whether an encoding takes the place of a trained rope, or changes no more than the reach or
    the scale of its attention.
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


def _docstrings(table: Mapping[str, type]) -> dict[str, str]:
    """The first sentence of each class's file, which names the paper."""
    return {name: sentence(sys.modules[cls.__module__].__doc__) for name, cls in table.items()}
