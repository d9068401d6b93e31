"""Generated pages of the site, as a hook of mkdocs (see mkdocs.yml).

The site has the tree of the repository, so relative links of Markdown files work in both. A link to
a code file leads to a page with its source, and a link to a folder of results to the page of the
study. Pages in reference/ are generated from docstrings, configs and results: one for each public
name, command, encoding and task, and one each for metrics and knobs.
"""

from __future__ import annotations

import ast
import csv
import dataclasses
import functools
import importlib
import json
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import pe_jax

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)\s#]+)")
ORDER = ("NOTES", "README", "overview", "table", "published", "baseline")
"""Order of the Markdown files of a study on its page; others follow."""
NOTEBOOKS = "quickstart", "positions"
"""The notebooks of docs/."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """All files of the site, and the navigation."""
    config.site_name = f"pe_jax {pe_jax.__version__}"
    pages = markdown() | reference() | studies()
    pages |= sources(pages)
    assets = [path for kind in ("css", "js", "png") for path in (ROOT / "docs").glob(f"*.{kind}")]
    assets += [path for path in (ROOT / "results").rglob("*") if path.is_file()]
    made = Files([])
    for path in map(relative, assets):
        if path not in moved() and path not in pages:
            made.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for path, text in pages.items():
        made.append(File.generated(config, path, content=linked(text, path, pages)))
    config.nav = navigation(pages)
    for file in files:
        if file.src_dir != config.docs_dir:  # of the theme
            made.append(file)
    return made


def on_page_content(html: str, **_: object) -> str:
    """Gives table cells with sentences a class; only these may be wrapped."""

    def marked(cell: re.Match[str]) -> str:
        sentence = len(re.sub("<.*?>", "", cell[2])) > 45
        return f'<td class="sentence"{cell[1]}>{cell[2]}</td>' if sentence else cell[0]

    return re.sub(r"<td([^>]*)>((?:(?!</td>).)*)</td>", marked, html, flags=re.S)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def linked(text: str, page: str, pages: Mapping[str, str]) -> str:
    """The text of a page, with links to code and results redirected to their pages."""

    def led(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), match[1]))
        for known in (moved().get(target, ""), f"{target}.md", f"{target}/index.md"):
            if known in pages:
                return posixpath.relpath(known, posixpath.dirname(page) or ".")
        return match[1]

    return LINK.sub(led, text)


@functools.cache
def moved() -> dict[str, str]:
    """{file of the repository: the page that shows it}, if the page has another path."""
    from pe_jax.encodings import ENCODINGS
    from pe_jax.tasks import TASKS

    shown = {file_of(cls): f"reference/encodings/{name}.md" for name, cls in ENCODINGS.items()}
    shown |= {file_of(cls): f"reference/tasks/{name}.md" for name, cls in TASKS.items()}
    for path in (ROOT / "results").rglob("*.md"):
        shown[relative(path)] = f"{relative(path.parent)}/index.md"
    return shown | {f"docs/{name}.ipynb": f"docs/{name}.md" for name in NOTEBOOKS}


def file_of(cls: type) -> str:
    return relative(Path(sys.modules[cls.__module__].__file__ or ""))


def markdown() -> dict[str, str]:
    """{path: text} of the Markdown files and the notebooks."""
    names = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "NOTES.md")
    paths = [*(ROOT / name for name in names), *(ROOT / "docs").rglob("*.md")]
    pages = {relative(path): path.read_text("utf-8") for path in paths}
    return pages | {f"docs/{name}.md": notebook(ROOT / f"docs/{name}.ipynb") for name in NOTEBOOKS}


def notebook(path: Path) -> str:
    """The Markdown of a notebook with its outputs."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {"text/plain": output.get("text", "")})
            kind = next(k for k in ("image/png", "text/html", "text/plain") if k in data)
            shown = "".join(data[kind])
            if kind == "image/png":
                shown = f"![output](data:image/png;base64,{''.join(shown.split())})"
            elif kind == "text/plain":
                shown = f"```text\n{shown}\n```"
            parts.append(shown)
    return "\n\n".join(parts)


def sources(pages: Mapping[str, str]) -> dict[str, str]:
    """Pages of the code files that others link to."""
    made = {}
    for page, text in pages.items():
        for link in LINK.findall(text):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
            path, kind = ROOT / target, "python" if target.endswith(".py") else "text"
            code = path.suffix in (".py", ".txt", ".yml", ".cff", "") and target not in moved()
            if code and path.is_file():
                source = path.read_text("utf-8").strip()
                made[f"{target}.md"] = f"# {target}\n\n````{kind}\n{source}\n````\n"
            elif path.is_dir() and f"{target}/index.md" not in pages:
                names = sorted(one.name for one in path.iterdir() if one.is_file())
                made[f"{target}/index.md"] = f"# {target}\n\n" + "\n".join(f"- {n}" for n in names)
    return made


def prose(text: str) -> str:
    """A docstring as Markdown: formula characters are escaped, and papers are links."""
    parts = re.split(r"(`[^`]*`|^ {4}.*$)", text.strip("\n").rstrip(), flags=re.M)
    escaped = (re.sub(r"([\\*_\[\]])", r"\\\1", part.replace("<", "&lt;")) for part in parts)
    plain = "".join(parts[i] if i % 2 else part for i, part in enumerate(escaped))
    plain = re.sub(r"arXiv:(\d{4}\.\d{5})", r"[\g<0>](https://arxiv.org/abs/\1)", plain)
    return re.sub(r"kexue\.fm/archives/\d+", r"[\g<0>](https://\g<0>)", plain)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(c.replace('|', '&#124;') for c in cells)} |" for cells in lines
    )


# The reference.


def reference() -> dict[str, str]:
    """{path: text} of all pages of the reference."""
    from pe_jax.commands.cli import COMMANDS
    from pe_jax.encodings import ENCODINGS
    from pe_jax.tasks import TASKS

    pages = {f"names/{name}": public(name) for name in pe_jax.__all__}
    pages["names/index"] = f"# Python\n\n{prose(pe_jax.__doc__ or '')}\n\n" + listed(
        {name: "" for name in pe_jax.__all__}
    )
    pages |= {f"commands/{name}": command(name) for name in COMMANDS}
    pages["commands/index"] = f"# Commands\n\n{listed(COMMANDS)}"
    pages |= {f"encodings/{name}": encoding(name, cls) for name, cls in ENCODINGS.items()}
    pages |= {f"tasks/{name}": described(name, cls) for name, cls in TASKS.items()}
    return {f"reference/{path}.md": text for path, text in (pages | one_page()).items()}


def listed(about: Mapping[str, str]) -> str:
    """A list of links to pages, each with one sentence."""
    return "\n".join(
        f"- [`{posixpath.basename(page)}`]({page}.md)" + f": {prose(text)}" * bool(text)
        for page, text in about.items()
    )


def public(name: str) -> str:

    shown = f"::: pe_jax.{pe_jax._HOME[name]}.{name}\n    options:\n      heading_level: 1\n"
    return f"---\ntitle: {name}\n---\n\n{shown}"


def command(name: str) -> str:
    module = importlib.import_module(f"pe_jax.commands.{name}")
    first, _, more = (module.__doc__ or "").strip().partition("\n\n")
    options = module.OPTIONS
    rows = [
        [f"`--{flag}`", prose(options[flag].help), shown(options[flag].default)]
        for flag in sorted(options)
    ]
    knobs = "Every config field is also an option: [config fields](../knobs.md).\n" * (
        "config" in options
    )
    parts = [f"# pe-jax {name}", prose(first), prose(more)]
    parts += ["## Options", table(("option", "meaning", "default"), rows), knobs]
    return "\n\n".join(filter(None, parts))


def shown(default: object) -> str:
    return "" if default in (None, "", False) else f"`{json.dumps(default)}`"


def one_page() -> dict[str, str]:
    """Pages of metrics, and of the config fields."""
    from pe_jax.commands import list as lists
    from pe_jax.metrics import METRICS

    metrics = ["# Metrics", "Select metrics by `--config.eval.metrics`; your own metric is a file."]
    for name, sentence in lists.listed("metrics").items():
        metric = METRICS[name]
        metrics += [f"## {name}", prose(sentence), f"{metric.unit}; {metric.better} is better."]
    knobs = ["# Config", "Fields and defaults. Set a field by `--config.lm.layers=4`."]
    for section, about, fields in lists.sections():
        named = ((flag.rpartition(f".{section}.")[2], t) for flag, t in fields.items())
        rows = [
            [*(f"`{part}`" for part in flag.split("=", 1)), prose(text)] for flag, text in named
        ]
        knobs += [f"## {section}", prose(about)]
        knobs.append(table(("field", "default", "meaning"), rows))
    return {"metrics": "\n\n".join(metrics), "knobs": "\n\n".join(knobs)}


def described(name: str, cls: type, more: Sequence[str] = ()) -> str:
    """The page of an encoding or a task: docstring, `more` sections, fields and source."""
    doc = sys.modules[cls.__module__].__doc__ or ""
    fields = {field.name: field.default for field in dataclasses.fields(cls)}
    rows = [[f"`{k}`", f"`{v!r}`"] for k, v in fields.items() if v is not dataclasses.MISSING]
    shown = f"::: {cls.__module__}.{cls.__qualname__}\n    options:\n      heading_level: 3\n"
    parts = [f"# {name}", prose(doc), *more, "## Fields and source"]
    return "\n\n".join([*parts, table(("field", "default"), rows), shown])


def encoding(name: str, cls: type) -> str:
    use = f"    pe-jax run --config=base.py:pe={name} --workdir=runs/mine"
    return described(name, cls, [use, *facts(name), *cost(name), *results(name)])


IDEALS = {
    "own value": "each position has its own value",
    "same at any length": "the difference between two places does not depend on the length",
    "bounded": "values are bounded",
}
"""The properties of an ideal encoding, by column of the atlas."""


def facts(name: str) -> Iterator[str]:
    """The properties and the figure of an encoding, as computed by `pe-jax atlas`."""
    if found := properties().get(name):
        asked = [f"- {text}: **{found[column]}**" for column, text in IDEALS.items()]
        yield "## Properties of an ideal encoding\n\n" + "\n".join(asked)
        cells = [[k, v] for k, v in found.items() if k not in ("encoding", "group", *IDEALS)]
        yield "## Properties\n\n" + table(("property", "value"), cells)
        yield "Definitions: [the atlas](../../docs/atlas.md#the-properties)."
    for figure in ("distance", "logits", "positions"):
        path = f"results/atlas/figures/{name}.{figure}.png"
        if (ROOT / path).exists():
            yield f"## Effect on attention\n\n![{figure}](../../{path})\n\n" + (
                "How to read the figures and how they are made: [atlas](../../docs/atlas.md)."
            )
            return


def cost(name: str) -> Iterator[str]:
    from experiments.docs.readme import benchmarked

    for one in benchmarked():
        if one["name"] == name:
            cells = [
                [f"{part['length']:,}", f"{part['ratio']:.2f}", f"{low:.2f} to {high:.2f}"]
                for part in one["training"]
                for low, high in [part["interval"]]
            ]
            yield "## Cost\n\nTime of a training step relative to no encoding.\n\n" + table(
                ("tokens", "ratio", "95 % interval"), cells
            )


def results(name: str) -> Iterator[str]:
    """The rows of results/encodings with this encoding, and the studies that name it."""
    tables = {path.parent: labels(path) for path in sorted((ROOT / "results").glob("*/table.md"))}
    of_all = tables.pop(ROOT / "results/encodings")
    lines = [line for label, line in of_all if name in label.partition(",")[0].split("+")]
    others = [
        folder.name
        for folder, rows in tables.items()
        if re.search(rf"\b{name}\b", "\n".join(label for label, _ in rows))
    ]
    if lines or others:
        yield "## Results"
    if lines:
        yield "Bits per byte by length ([all encodings](../../results/encodings/table.md))."
        yield "\n".join([*(line for _, line in of_all[:2]), *lines])
    if others:
        links = (f"[{folder}](../../results/{folder}/table.md)" for folder in others)
        yield f"Other studies: {', '.join(links)}."


def labels(path: Path) -> list[tuple[str, str]]:
    """(label without fields and marks, line) of the first table of a file, its head first."""
    table = path.read_text("utf-8").partition("\n\n**")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    labels = [re.sub(r"\(.*?\)|\[.*?\]|[*|]", "", line.split("|")[1]).strip() for line in lines]
    return list(zip(labels, lines, strict=True))


@functools.cache
def properties() -> dict[str, dict[str, str]]:
    """{encoding: its row} from the table of the atlas."""
    with (ROOT / "results/atlas/properties.csv").open(encoding="utf-8") as file:
        return {row["encoding"]: row for row in csv.DictReader(file)}


# The results.


def studies() -> dict[str, str]:
    """{path: text} of the page of each folder of results: its notes, figures and tables."""
    folders = {path.parent for path in (ROOT / "results").rglob("*.md")}
    return {f"{relative(folder)}/index.md": study(folder) for folder in sorted(folders)}


def study(folder: Path) -> str:
    texts = {path.stem: path.read_text("utf-8") for path in folder.glob("*.md")}
    names = sorted(texts, key=lambda name: (*ORDER, name).index(name))
    parts = [texts[name] for name in names if name in ("NOTES", "README")]
    if not parts:
        title = relative(folder).removeprefix("results/").replace("_", " ").capitalize()
        parts = [f"# {title}", *made_by(folder)]
    figures = [path.name for path in sorted(folder.glob("*.png"))]
    new = [name for name in figures if f"({name})" not in parts[0]]
    if new:
        parts += ["## Figures", *(f"![{name}]({name})" for name in new)]
    for name in names:
        if name not in ("NOTES", "README"):
            text = re.sub(r"^#+ ", "### ", texts[name], flags=re.M)
            parts += [f"## {name.capitalize()}", text]
    others = sorted(p.name for p in folder.iterdir() if p.suffix not in (".md", ".png", ""))
    parts += ["## Files", "\n".join(f"- [{name}]({name})" for name in others)]
    return "\n\n".join(parts)


def made_by(folder: Path) -> Iterator[str]:
    """The config of the study, which has the same name as its folder in results/."""
    name = folder.relative_to(ROOT / "results").parts[0]
    for config in (f"pe_jax/configs/{name}.py", f"configs/{name}.py"):
        if (ROOT / config).exists():
            doc = ast.get_docstring(ast.parse((ROOT / config).read_text("utf-8"))) or ""
            yield f"{prose(doc)}\n\nBy [{config}]({posixpath.relpath(config, relative(folder))})."
            return


# The navigation.


def navigation(pages: Mapping[str, str]) -> list:
    def below(folder: str) -> list[str]:
        found = [path for path in pages if path.startswith(f"{folder}/")]
        return sorted(found, key=lambda path: (not path.endswith("index.md"), path))

    guides = ("runs", "data", "training", "pretrained", "atlas", "conformance")
    tutorials = ("study", "encoding", "scaling", "task", "metric", "cluster")
    reference = {
        "Encodings": ["docs/encodings.md", *below("reference/encodings")],
        "Tasks": ["docs/tasks.md", *below("reference/tasks")],
        "Commands": below("reference/commands"),
        "Python": below("reference/names"),
    }
    single = [f"reference/{name}.md" for name in ("knobs", "metrics")]
    tutorials = [f"docs/tutorials/{name}.md" for name in tutorials]
    tutorials += [f"docs/{name}.md" for name in NOTEBOOKS]
    project = ["docs/design.md", "docs/numbers.md", "CHANGELOG.md", "CONTRIBUTING.md"]
    return [
        {"Start": "README.md"},
        {"Claims": "docs/claims.md"},
        {"Tutorials": tutorials},
        {"Guides": [f"docs/{name}.md" for name in guides]},
        {"Reference": [*({title: section} for title, section in reference.items()), *single]},
        {"Results": ["NOTES.md", *below("results")]},
        {"Project": project},
    ]
