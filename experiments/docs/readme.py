"""Writes the generated parts of README.md and docs/: the figure and table of README.md, the
benchmark ratios and the marked numbers from results/; the tables of encodings and tasks from the
code.

Numbers of prose with a mark (`numbers`) are recomputed from the results that the mark names, and
the verdicts on a study's predictions by experiments.studies.verdicts.

python -m experiments.docs.readme [--check]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from experiments.docs import claims, numbers, picture
from experiments.studies import verdicts
from pe_jax.report.phrases import plusminus
from pe_jax.report.study import Study, load

ROOT = Path(__file__).resolve().parents[2]
FAST_COMPILATION = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


def quickstart() -> str:
    """The scores in the figure at the training length and at the longest length, sorted by the
    score on the longest text, with the share of the headroom on Markov chains.
    """
    text = {line.label: line for line in picture.lines("quickstart", "same_targets")}
    shares = {line.label: line for line in picture.lines("markov", "headroom")}
    head = ["encoding", *(f"bits per byte at {text['rope'].x[i]:g}" for i in (0, -1))]
    head.append(f"Markov: % of bits gained at {text['rope'].x[-1]:g}")
    rows = [head, ["---", "--:", "--:", "--:"]]
    for name, line in sorted(text.items(), key=lambda pair: pair[1].mean[-1]):
        share = "n/a"
        if used := shares.get(name):
            at = used.x.tolist().index(line.x[-1])
            mean, high = used.mean.tolist()[at], used.high.tolist()[at]
            share = plusminus(mean, high - mean, digits=0)
        rows.append([f"`{name}`", line.values[0], line.values[-1], share])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def speed() -> str:
    """The time of a training step of pe_jax relative to the other sides of scripts/benchmark."""
    record = json.loads((ROOT / "results/benchmark/step.json").read_text("utf-8"))
    shape, host = record["shape"], record["machine"]

    def against(side: str) -> str:
        low, high = record["ratios"][side]["interval"]
        return f"{record['ratios'][side]['median']:.2f} ({low:.2f} to {high:.2f})"

    return (
        f"A training step ({shape['layers']} layers, D={shape['model']}, T={shape['length']}, "
        f"batch {shape['batch']}, float32, {host['cores']} cores of an {host['processor']}) takes "
        f"{against('x-transformers, rope')} of the time of x-transformers in eager PyTorch, "
        f"{against('x-transformers, rope, flash')} with its fused attention, and "
        f"{against('plain JAX, rope')} of the time of the same model in plain JAX. These are "
        f"medians of {record['pairs']} turns with 95 % intervals, by `scripts/benchmark`. Threads, "
        "allocators and versions are in [results/benchmark](../results/benchmark/step.md).\n\n"
        + _profile()
    )


def _profile() -> str:
    """The time of that step by part."""
    record = json.loads((ROOT / "results/benchmark/profile.json").read_text("utf-8"))

    def taken(cores: str) -> tuple[float, float, float]:
        asked = record["cores"][cores]
        dense, attention = (
            statistics.median(one["parts"][f"products of {what}"] for one in asked)
            for what in ("dense layers", "attention")
        )
        return dense, attention, statistics.median(one["ms"] for one in asked)

    (dense, attention, whole), (_, again, both) = map(taken, record["cores"])
    return (
        f"On one core the step takes {whole:.0f} ms: {100 * dense / whole:.0f} % for the matrix "
        f"products of dense layers and {100 * attention / whole:.0f} % for the products of "
        f"attention. On {[*record['cores']][1]} cores it takes {both:.0f} ms; attention's products "
        f"take {attention:.0f} ms on one core and {again:.0f} on these. [results/benchmark]"
        "(../results/benchmark/profile.md) has all parts; `scripts/benchmark profile` measures "
        "them for any encoding."
    )


def encodings() -> str:
    """The table of all encodings."""
    from pe_jax.encodings import ENCODINGS

    ratios = {
        measured["name"]: {f"{part['length']:,}": part["ratio"] for part in measured["training"]}
        for measured in benchmarked()
    }
    head = ["name", "paper", "sites", "learned numbers", "absolute or relative", "shift-invariant"]
    head += ["limit", "encoders", "attention on a TPU or GPU"]
    head += ["cost at T=" + ", ".join(ratios["nope"])]
    rows = [head, *(_encoding(name, ratios.get(name, {})) for name in ENCODINGS)]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    lines.insert(1, "|---|---|---|--:|---|---|--:|---|---|---|")
    return "\n".join(lines)


def _encoding(name: str, ratios: Mapping[str, float]) -> list[str]:
    """The cells of one encoding; the cost is n/a if there are no ratios."""
    from configs import base
    from pe_jax.atlas.properties import kind
    from pe_jax.encoding import sites
    from pe_jax.runs.run import Run

    run, probed = Run.of(base.get_config(f"pe={name}").to_dict()), kind(name)
    encoding = run.encodings[0]
    module = sys.modules[type(encoding).__module__]
    used = ", ".join(f"`{site}`" for site in sites(encoding) if site not in ("at", "limit"))
    limit = encoding.limit()
    return [
        f"[`{name}`](../{Path(module.__file__ or '').relative_to(ROOT)})",
        paper(module.__doc__ or ""),
        used or "none",
        f"{run.parameters().encoding:,}",
        probed.reads,
        {True: "yes", False: "no", None: "as theirs"}[probed.shift_invariant],
        f"{limit:,}" if limit else "none",
        f"no: {encoding.causal_only}" if encoding.causal_only else "yes",
        _forms(encoding),
        ", ".join(f"{ratio:.2f}" for ratio in ratios.values()) or "n/a",
    ]


def _forms(encoding: Any) -> str:
    """The forms of attention chosen on accelerators; nothing is computed."""
    import jax
    import jax.numpy as jnp

    from pe_jax.attention.bound import Bound
    from pe_jax.attention.fused import refusal
    from pe_jax.attention.rows import Rows
    from pe_jax.encoding import mixes, overrides
    from pe_jax.model.lm import init_params

    if mixes(encoding):
        return "none"
    dims, why = encoding.dims, []

    def ask():
        shared, owned = init_params(encoding, jax.random.key(0))
        consecutive = not overrides(encoding, "positions")
        pe = Bound((shared | owned.get(0, {}),), (encoding,), contiguous=consecutive)
        place = jnp.arange(dims.train_len)
        x = jnp.zeros((dims.train_len, dims.model))
        rows = Rows(place, place, pe.locate(x, place))
        why.append(refusal(pe, rows, rows, dims.heads))

    jax.eval_shape(ask)
    return "dense, blockwise" if why[0] else "fused"


def paper(docstring: str) -> str:
    """A link to the first paper in the docstring of an encoding or a task, or a dash."""
    by = r"(?P<by>[A-Z][\w-]+(?: (?:et al\.|and [A-Z]\w+))?, \d{4})"
    place = r"(?:arXiv:(?P<id>\d{4}\.\d{5})|(?P<page>kexue\.fm/archives/\d+))"
    cited = re.search(rf"{by}[^;()]*?[;,(] ?\(?{place}", " ".join(docstring.split()))
    if not cited:
        return "–"
    url = f"arxiv.org/abs/{cited['id']}" if cited["id"] else cited["page"]
    return f"[{cited['by']}](https://{url})"


def costs() -> str:
    """How many encodings meet the aim in time, and which clearly miss it, the costliest first."""
    from experiments.benchmark.encodings import AIM, AIMS, misses

    measurements = benchmarked()
    over = [
        (max(part["ratio"] for part in measured["training"]), measured["name"])
        for measured in measurements
        if any(miss.startswith("time") for miss in misses(measured))
    ]
    dear = ", ".join(f"`{name}` ({ratio:.2f})" for ratio, name in sorted(over, reverse=True))
    kept = len(measurements) - len(over)
    return (
        f"For {kept} of {len(measurements)} encodings a step takes at most {AIM} times as long as "
        f"for `nope` ({AIMS['content']} times if logits depend on content), by the lower end of "
        f"the interval. The others, at the length where they cost most: {dear}."
    )


def inert() -> str:
    """Which swaps into a model of RoPE leave its logits as they are up to the training length, with
    the factor that the length needs and with a fixed one.
    """
    from flax import nnx

    from pe_jax.encoding import Encoding
    from pe_jax.encodings import ENCODINGS
    from pe_jax.encodings.scaled import Scaled
    from pe_jax.model.config import LmConfig
    from pe_jax.specs.parse import make
    from pe_jax.specs.swap import swap
    from pe_jax.training.step import build

    lm = LmConfig(vocab=32, layers=1, model=32, heads=2)
    rope = make("rope", lm.dims(64))
    model, tokens = build(lm, rope, 0), jax.random.randint(jax.random.key(0), (1, 64), 0, 32)
    graphdef, params = nnx.split(model)

    def changes(spec: str) -> bool:
        def logits(encodings):
            made = tuple(e.at(64) for e in encodings)
            return jax.jit(lambda own: nnx.merge(graphdef, own)(tokens, encodings=made)[0])(params)

        return bool(np.abs(logits(swap(rope, spec)) - logits(rope)).max() > 1e-4)

    same, other, fixed = [], [], []
    for name, cls in ENCODINGS.items():
        try:
            swap(rope, name)
        except ValueError:
            continue
        if name in ("rope", "nope") or cls.positions is not Encoding.positions:
            continue
        (other if changes(name) else same).append(f"`{name}`")
        if issubclass(cls, Scaled) and changes(f"{name}(factor=2.0)"):
            fixed.append(f"`{name}`")
    return (
        f"Swapped into a model trained with `rope`, {', '.join(same)} change nothing up to the "
        f"training length, and {', '.join(other)} do. With one factor at every length, as programs "
        f"serve it and as in `yarn(factor=2.0)`, {', '.join(fixed)} change it there, too."
    )


def benchmarked() -> list[dict[str, Any]]:
    """The measurements of scripts/benchmark encodings."""
    path = ROOT / "results/benchmark_encodings/encodings.json"
    return json.loads(path.read_text("utf-8"))["found"]


def tasks() -> str:
    """The table of all tasks."""
    from pe_jax.tasks import TASKS

    rows = [
        ["name", "paper", "models", "vocabulary", "fields"],
        ["---", "---", "---", "--:", "---"],
    ]
    for name, cls in TASKS.items():
        task, module = cls(), sys.modules[cls.__module__]
        fields = [f for f in dataclasses.fields(cls) if f.name != "causal"]
        rows.append(
            [
                f"[`{name}`](../{Path(module.__file__ or '').relative_to(ROOT)})",
                paper(module.__doc__ or ""),
                _models(task),
                f"{task.vocab()}",
                ", ".join(f"`{field.name}={field.default!r}`" for field in fields) or "none",
            ]
        )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _models(task: Any) -> str:
    """The models that a task has a form for."""
    either = task.bidirectional or hasattr(task, "masked")
    return "encoders" if task.masks() else "decoders, encoders" if either else "decoders"


def verdict_of(study: str) -> Callable[[], str]:
    """The part of a study's notes that says what its rules find of its predictions."""

    def verdict() -> str:
        of = Study.of(load(ROOT / "results" / study))
        return "\n".join(["```text", *verdicts.VERDICTS[study](of), "```"])

    return verdict


def studies() -> str:
    """A line for each study with notes: the sentence that they begin with."""
    lines = ["| study | what was found |", "|---|---|"]
    for path in sorted(ROOT.glob("results/*/NOTES.md")):
        found = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"| [{path.parent.name}]({path.parent.name}/NOTES.md) | {found} |")
    return "\n".join(lines)


PARTS = {
    "README.md": (claims.count, quickstart),
    "docs/claims.md": (claims.family, claims.table),
    "docs/encodings.md": (encodings, inert, costs),
    "docs/tasks.md": (tasks,),
    "docs/training.md": (speed,),
    "results/README.md": (studies,),
}


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="scripts/readme", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if a file is out of date"
    )
    arguments = parser.parse_args()
    # The probes of atlas/properties.py are small: what takes time is compiling them.
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("XLA_FLAGS", FAST_COMPILATION)
    stale = False
    notes = [str(path.relative_to(ROOT)) for path in ROOT.glob("results/*/NOTES.md")]
    judged = {f"results/{name}/NOTES.md": (verdict_of(name),) for name in verdicts.VERDICTS}
    judged = {path: judged.get(path, ()) for path in ["NOTES.md", *notes]}
    for file, parts in (PARTS | judged).items():
        text = old = (ROOT / file).read_text("utf-8")
        for part in parts:
            begin, end = f"<!-- begin {part.__name__} -->", f"<!-- end {part.__name__} -->"
            block = f"{begin}\n{part()}\n{end}"
            text = re.sub(f"{begin}.*?{end}", lambda _, b=block: b, text, flags=re.S)
        text = numbers.written(text)
        stale |= text != old
        if not arguments.check:
            (ROOT / file).write_text(text, "utf-8")
    if unsupported := claims.unsupported():
        print(*unsupported, sep="\n", file=sys.stderr)
    if not arguments.check:
        picture.write()
    return int(bool(unsupported) or (arguments.check and stale))


if __name__ == "__main__":
    sys.exit(main())
