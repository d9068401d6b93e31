"""Names of encodings, tasks, metrics, configs and config fields, with a sentence on each.

    pe-jax list encodings
    pe-jax list metrics ruler

A second word keeps the entries that contain it, metrics then with what they measure. Without a name
it says what can be listed.
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
LISTS = {
    "encodings": "The members of a spec, as in --config=base.py:pe=randomized+rope.",
    "tasks": "Tasks to train on, as in --config=base.py:task=reverse_string,pe=rope.",
    "metrics": 'Scores, as in --config.eval.metrics=\'("same_targets","mine.py:first")\'.',
    "configs": "Config files that are found from any folder, as in --config=quickstart.py.",
    "fields": "The fields of the config with their defaults, as in --config.train.steps=200.",
}


def main(what: str = "", word: str = "") -> int:
    if what not in ("", *LISTS):
        return cli.fail(f"no list of {what!r}{nearest(what, LISTS)} Known: {', '.join(LISTS)}.")
    every = listed(what, word) if what else LISTS
    about = {n: text for n, text in every.items() if word.lower() in f"{n} {text}".lower()}
    if not about:
        return cli.fail(f"no entry of {what} contains {word!r}{nearest(word, every)}")
    titles = {}
    if what == "encodings":
        from pe_jax.encodings import FAMILIES

        for family, names in FAMILIES.items():  # above the first of them that is listed
            titles[next(filter(about.get, names.split()), "")] = f"{family}:\n"
    width = max(map(len, about)) if what != "fields" else 0
    columns = shutil.get_terminal_size((1000, 24)).columns
    for name, text in about.items():
        print(titles.get(name, ""), end="")
        print(cli.filled(f"{name:{width}}  {text}", " " * (width + 2), columns))
    return 0


def listed(what: str, word: str = "") -> dict[str, str]:
    """{name: sentence} of one of LISTS; of metrics without a word the unit alone."""
    if what == "configs":
        paths = sorted(config_file.known().items())
        return {n: sentence(ast.get_docstring(ast.parse(path.read_text()))) for n, path in paths}
    if what == "fields":
        return {flag: text for _, _, fields in sections() for flag, text in fields.items()}
    if what == "metrics":
        from pe_jax.metrics import METRICS

        usual = {"reference": "L tokens", "last": "L/2", "split": "test", "rate": "30 %"}
        usual["alike"] = "for all models and seeds"
        texts = {name: metric.sentence.format(**usual) for name, metric in METRICS.items()}
        units = {name: f"{m.unit} ({m.better} is better)" for name, m in METRICS.items()}
        return {n: units[n] + f": {text}" * bool(word) for n, text in texts.items()}
    from pe_jax.encodings import ENCODINGS
    from pe_jax.tasks import TASKS

    table: Mapping[str, type] = ENCODINGS if what == "encodings" else TASKS
    # The docstring of a class's file names the paper
    return {name: sentence(sys.modules[cls.__module__].__doc__) for name, cls in table.items()}


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
