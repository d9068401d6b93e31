"""Makes the vectors of pe_jax/conformance from the formulas of tests/reference, NumPy in float64:

    PYTHONPATH=. python tests/reference/conformance_vectors.py

The cases are in conformance.json.

Classes of pe_jax only hold the settings of an encoding. Frequencies, the attention factor and the
distances of a rotation are measured: two unit vectors whose pair turns by an angle have its cosine
and sine as logits. A fault is the same formula with the wrong setting, or a wrong value.
"""

import dataclasses
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import reference
from reference_case import Case

from pe_jax.encoding import Dims, Encoding
from pe_jax.specs.parse import make

FOLDER = Path(reference.__file__).parents[2] / "pe_jax" / "conformance"
Measure = Callable[["Entry", Encoding, Case], dict[str, Any]]
"""Arrays by the names that the files give them."""


class Kind(NamedTuple):
    """What the cases of one kind share."""

    train_len: int
    head: int
    positions: tuple[int, ...]
    outputs: Measure
    conventions: str


class Entry(NamedTuple):
    """A case; each of its faults is the spec that has the fault, or a function that makes the wrong
    arrays.
    """

    kind: str
    spec: str
    source: str
    formula: str
    faults: dict[str, str | Measure]
    agrees_with: tuple[str, ...] = ()
    heads: int = 1
    causal: bool = True
    learned: dict[str, tuple[int, ...]] = {}
    """The shapes of learned parameters, whose values are drawn."""


def dims_of(entry: Entry) -> Dims:
    kind, H = KINDS[entry.kind], entry.heads
    return Dims(kind.head * H, H, kind.head, 1, kind.train_len, causal=entry.causal)


def case_of(entry: Entry) -> Case:
    """The inputs, with three decimals; logits of it are returned, since it has no values."""
    kind, rng = KINDS[entry.kind], np.random.default_rng(0)
    L = len(kind.positions)
    q, k = rng.normal(size=(2, L, entry.heads, kind.head)).round(3)
    x = np.zeros((L, kind.head * entry.heads))
    return Case(x, TOKENS, np.array(kind.positions), q, k, None, entry.causal)


def learned_of(entry: Entry) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {n: rng.uniform(0.1, 1.5, shape).round(3) for n, shape in entry.learned.items()}


def name_of(e: Encoding) -> str:
    return type(e).__module__.rpartition(".")[2]


def formula(entry: Entry, e: Encoding, case: Case, site: str = "attend"):
    return reference.REFERENCES[name_of(e)](e, learned_of(entry), case)[site]


def units(case: Case, first: int, second: int) -> Case:
    """All queries the unit vector `first`, all keys the unit vector `second`."""
    rows = np.eye(case.q.shape[-1])
    return case._replace(q=0 * case.q + rows[first], k=0 * case.k + rows[second])


def turn(entry: Entry, e: Encoding, case: Case, pair: int, half: int) -> np.ndarray:
    """m^2 e^{i angle} of a pair, [H, L, L]."""
    cos, sin = (formula(entry, e, units(case, pair, other)) for other in (pair, pair + half))
    return (cos + 1j * sin) * math.sqrt(case.q.shape[-1])


def rotation(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    half = int(getattr(e, "rotary_pct", 1) * e.dims.head) // 2
    two = Case(*(a[:2] for a in case[:5]), None)._replace(pos=np.array([0, 1]))
    turns = np.array([turn(entry, e, two, c, half)[:, 1, 0] for c in range(half)]).T
    w, size = np.angle(turns), np.abs(turns)
    w[np.abs(w) < 1e-12] = 0
    out: dict[str, Any] = {"frequencies": w if entry.heads > 1 else w[0], "attention_factor": 1.0}
    if name_of(e) == "xpos":
        out["decay"] = size[0]
    else:
        out["attention_factor"] = math.sqrt(size[0, 0])
    return out


def remapped_distances(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    half = e.dims.head // 2
    slowest = e.base ** (-2 * (half - 1) / e.dims.head)
    logits = formula(entry, e, case)
    distances = (np.angle(turn(entry, e, case, half - 1, half)[0]) / slowest).round(6)
    w = e.base ** (-2 * np.arange(half) / e.dims.head)
    return {"frequencies": w, "distances": distances, "seen": 1 - np.isnan(logits[0])}


def bias(entry: Entry, e: Encoding, case: Case, later: int = 0) -> dict[str, Any]:
    """At distances i - j + later."""
    L, H = len(case.pos), entry.heads
    out = np.full((H, L, L), np.nan)
    two = Case(*(0 * a[:2] for a in case[:5]), None, entry.causal)
    for (i, p), (j, r) in itertools.product(enumerate(case.pos), repeat=2):
        if i >= j or not entry.causal:
            out[:, i, j] = formula(entry, e, two._replace(pos=np.array([r, p + later])))[:, 1, 0]
    return {"bias": out}


def query_scale(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    logits = formula(entry, e, units(case, 0, 0))
    return {"query_scale": logits[:, :, 0].T * math.sqrt(case.q.shape[-1])}


def seen(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"seen": 1 - np.isnan(formula(entry, e, case)[0])}


def embedding(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"embedding": formula(entry, e, case, "embed")}


def weights(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    values = np.repeat(np.eye(len(case.pos))[:, None], entry.heads, 1)
    return {"weights": formula(entry, e, case._replace(v=values)).swapaxes(0, 1)}


def logits(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"logits": formula(entry, e, case)}


def placed(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    (outcome,) = formula(entry, e, case, "positions")(False)
    return {"token_positions": np.array(outcome)}


# Digits, 11 for + and 12 for =, 10 for the end.
TOKENS = np.array([3, 1, 7, 11, 4, 5, 12, 7, 6, 1, 10])
FAR = (0, 1, 2, 3, 17, 100, 1023, 4095)
SPARSE = (0, 1, 2, 3, 9, 20, 70, 300)
NEAR = tuple(range(20))
ROTATION = (
    "Pair c is (x_c, x_{c + n}) for the n pairs of `frequencies` (halves; the checker also takes "
    "interleaved pairs); further components stay. z = x_c + i x_{c + n} becomes "
    "z attention_factor e^{i position frequency}, on queries and on keys. logits = q . k / sqrt(K)."
)
KINDS = {
    "rotation": Kind(1024, 32, FAR, rotation, ROTATION),
    "distances": Kind(
        8,
        16,
        NEAR,
        remapped_distances,
        "RoPE at `distances` in place of i - j: logits = Re sum_c q_c conj(k_c) e^{i distance w_c} "
        "/ sqrt(K), pairs (x_c, x_{c + K/2}). null: a key that the query does not see.",
    ),
    "bias": Kind(
        128,
        8,
        SPARSE,
        bias,
        "logits = q . k / sqrt(K) + bias; bias [H, L, L], queries before keys, at distances "
        "position_i - position_j. null: a later key.",
    ),
    "scale": Kind(
        8,
        8,
        SPARSE[1:],
        query_scale,
        "logits = query_scale q . k / sqrt(K): queries are scaled [L, H], keys are not.",
    ),
    "seen": Kind(8, 8, NEAR, seen, "seen [L, L]: 1 where query i sees key j."),
    "embedding": Kind(
        128, 16, FAR, embedding, "embedding [L, D] is added to the input, which is not scaled."
    ),
    "weights": Kind(
        8, 8, NEAR[:8], weights, "logits = q . k / sqrt(K); weights [H, L, L] sum to 1 or less."
    ),
    "logits": Kind(8, 8, NEAR[:12], logits, "q . (k_j + r_{i - j}) / sqrt(K). null: a later key."),
    "tokens": Kind(8, 8, NEAR[:11], placed, "token_positions: the positions in evaluation."),
}


def plain_distances(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    hidden = np.where(np.isnan(formula(entry, e, case)[0]), np.nan, 0)
    return {"distances": np.subtract.outer(case.pos, case.pos) + hidden}


def off_by_one(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    if entry.kind == "bias":
        return bias(entry, e, case, later=1)
    shift = -1 if entry.kind == "scale" else 1  # n is the position, not one more
    return KINDS[entry.kind].outputs(entry, e, case._replace(pos=case.pos + shift))


def heads_from_0(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"bias": bias(entry, e, case)["bias"] * 2 ** (8 / entry.heads)}


def sines_first(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    rows = embedding(entry, e, case)["embedding"]
    return {"embedding": np.concatenate([rows[:, ::2], rows[:, 1::2]], 1)}


def not_held(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"query_scale": np.log(case.pos + 1)[:, None] / math.log(8)}


def unscaled(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"query_scale": np.ones((len(case.pos), entry.heads))}


def with_its_own_key(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    beta = np.nan_to_num(1 / (1 + np.exp(-reference.nope(e, {}, case)["attend"])))
    left = np.cumprod((1 - beta)[..., ::-1], -1)[..., ::-1]
    return {"weights": beta * np.append(left[..., 1:], np.ones((*beta.shape[:2], 1)), -1)}


def counted_from_0(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"token_positions": np.maximum(placed(entry, e, case)["token_positions"] - 1, 0)}


def exponents_by_head(entry: Entry, e: Any, case: Case) -> dict[str, Any]:
    return {"frequencies": e.base ** (-2 * np.arange(8) / e.dims.head)}


def without_decay(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"decay": np.ones(16)}


def inverse_decay(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"decay": 1 / rotation(entry, e, case)["decay"]}


def even_turns(entry: Entry, e: Any, case: Case) -> dict[str, Any]:
    turns = math.pi * 2 * np.arange(16) / 1024
    return {"frequencies": np.stack([turns, e.base ** (-np.arange(16) / 16)])}


def multiplied(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    return {"frequencies": 16 * rotation(entry, e, case)["frequencies"]}


def divided_late(entry: Entry, e: Encoding, case: Case) -> dict[str, Any]:
    plain, near = plain_distances(entry, e, case)["distances"], 6
    far = np.subtract.outer(case.pos, case.pos) >= near
    return {"distances": np.where(far, plain // 4 + near - near // 4, plain)}


def entry_of(fields: dict[str, Any]) -> Entry:
    """An entry of conformance.json; a fault is a spec, or after "=" the name of a function here."""
    faults = {n: globals()[f[1:]] if f[0] == "=" else f for n, f in fields["faults"].items()}
    return Entry(**fields | {"faults": faults})


CASES = json.loads(Path(__file__).with_name("conformance.json").read_text())
ENTRIES = {name: entry_of(fields) for name, fields in CASES.items()}


def made(entry: Entry, spec: str) -> Encoding:
    (e,) = make(spec, dims_of(entry))
    return e


def file_of(name: str) -> dict[str, Any]:
    """The case as it is written, arrays not rounded yet."""
    entry = ENTRIES[name]
    kind, e, case = KINDS[entry.kind], made(entry, entry.spec), case_of(entry)
    right = kind.outputs(entry, e, case)
    settings = {field.name: getattr(e, field.name) for field in dataclasses.fields(e)}
    general = {field.name for field in dataclasses.fields(Encoding)}
    parameters = {n: v for n, v in settings.items() if n not in general and v not in (None, ())}
    dims = {n: getattr(e.dims, n) for n in ("heads", "head", "model", "train_len", "causal")}
    out: dict[str, Any] = {
        "name": name,
        "spec": entry.spec,
        "source": entry.source,
        "formula": entry.formula,
        "conventions": kind.conventions,
        "agrees_with": entry.agrees_with,
        "parameters": parameters | learned_of(entry),
        "dims": dims,
        "positions": case.pos,
    }
    if entry.kind == "tokens":
        out["tokens"] = case.tokens
    elif entry.kind not in ("embedding", "seen"):
        out |= {"q": case.q, "k": case.k}
        right = {"logits": formula_logits(entry, e, case)} | right
    if entry.kind == "rotation":
        right |= rotated(right, case)
    faults = {}
    for fault, wrong in entry.faults.items():
        if isinstance(wrong, str):
            other = made(entry, wrong)
            arrays = kind.outputs(entry, other, case)
            if type(other) is not type(e):  # the temperature is a fault of its own
                arrays.pop("attention_factor", None)
        else:
            arrays = wrong(entry, e, case)
        faults[fault] = {n: a for n, a in arrays.items() if not same(a, right[n])}
        assert faults[fault], f"{name}: {fault} changes nothing"
    return out | right | {"faults": faults}


def formula_logits(entry: Entry, e: Encoding, case: Case) -> np.ndarray:
    """stick_breaking's formula gives weights of plain logits."""
    return (
        reference.nope(e, {}, case)["attend"]
        if entry.kind == "weights"
        else formula(entry, e, case)
    )


def same(a: Any, b: Any) -> bool:
    return np.allclose(a, b, 1e-9, 0, equal_nan=True)


def rotated(right: dict[str, Any], case: Case) -> dict[str, Any]:
    """Queries and keys turned by the measured frequencies."""
    w, m, decay = np.atleast_2d(right["frequencies"]), right["attention_factor"], right.get("decay")
    half, out = w.shape[1], {}
    for key, x, side in (("rotated_q", case.q, 1), ("rotated_k", case.k, -1)):
        turned = x.copy()
        z = (x[..., :half] + 1j * x[..., half : 2 * half]) * m
        z = z * np.exp(1j * case.pos[:, None, None] * w)
        if decay is not None:
            z = z * decay ** (side * case.pos[:, None, None])
        turned[..., :half], turned[..., half : 2 * half] = z.real, z.imag
        out[key] = turned
    return out


def written(value: Any, level: int = 0) -> str:
    """JSON with a line for each key; numbers with 12 digits, null for NaN."""
    if isinstance(value, dict):
        indent = "\n" + " " * (level + 1)
        pairs = (f"{json.dumps(k)}: {written(v, level + 1)}" for k, v in value.items())
        return "{" + indent + f",{indent}".join(pairs) + "\n" + " " * level + "}"
    if isinstance(value, np.ndarray):
        return "[" + ",".join(written(v) for v in value) + "]"
    if isinstance(value, np.integer):
        return str(value)
    if isinstance(value, np.floating):
        return "null" if np.isnan(value) else f"{value:.12g}"
    return json.dumps(value)


def main():
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name in ENTRIES:
        (FOLDER / f"{name}.json").write_text(written(file_of(name)) + "\n")
    size = sum(path.stat().st_size for path in FOLDER.glob("*.json"))
    print(f"{len(ENTRIES)} files, {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
