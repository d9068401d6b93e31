"""Makes the vectors of pe_jax/conformance from the formulas of tests/reference, NumPy in float64:

    PYTHONPATH=. python tests/reference/conformance_vectors.py

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


LONG, SHORT = (tuple(1 + most * c / 15 for c in range(16)) for most in (3, 0.5))
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
T, X = "transformers 5.23.0", "x-transformers 2.31.10"
STRETCHED = f"base={10000 * 4 ** (32 / 30)}"  # NTK's base at a factor of 4, heads of size 32
ROPE = {"base doubled": "rope(base=20000.0)", "exponents i / K for 2i / K": "rope(base=100.0)"}


def scaling(name: str, settings: str = "factor=4.0") -> dict[str, str | Measure]:
    """The faults of any scaling of RoPE by a factor of 4."""
    return {
        "no scaling": "rope",
        "positions divided instead of frequencies": "pi(factor=4.0)",
        "base doubled": f"{name}({settings},base=20000.0)",
        "factor doubled": f"{name}({settings.replace('4.0', '8.0')})",
    }


def by_parts(name: str, settings: str = "factor=4.0") -> dict[str, str | Measure]:
    return scaling(name, settings) | {"upon NTK's base": f"{name}({settings},{STRETCHED})"}


def window_off(spec: str, value: int) -> dict[str, str | Measure]:
    """The faults of a remapping; `spec` has {} for its window, whose right value is `value`."""
    return {
        "no remapping: RoPE's distances": plain_distances,
        "window one shorter": spec.format(value - 1),
        "window one longer": spec.format(value + 1),
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


OFF_BY_ONE = "off by one: distances i - j + 1"
POSITIONS_FROM_1 = "off by one: positions begin with 1"
SU, PENG = "Su et al. (2021), arXiv:2104.09864", "Peng et al. (2023), arXiv:2309.00071"
PRESS = "Press et al. (2022), arXiv:2108.12409, section 3"
KERPLE = "Chi et al. (2022), arXiv:2205.09921"
RAFFEL = "Raffel et al. (2020), arXiv:1910.10683, section 2.1"
SLOPES = "bias = -m_h |i - j|, m_h = 2^(-8h / H), h = 1 .. H"
BUCKETS = "bias = table[h, bucket(i - j)], max_distance 128"
ENTRIES = {
    "rope": Entry("rotation", "rope", f"{SU}, eq. 14-16", "w_c = base^(-2c / K)", ROPE, (T, X)),
    "partial_rope": Entry(
        "rotation",
        "partial_rope(rotary_pct=0.5)",
        "Black et al. (2022), arXiv:2204.06745 (GPT-NeoX)",
        "w_c = base^(-2c / R) on the first R = K / 2 components",
        {
            "exponents by K for R": lambda entry, e, case: {
                "frequencies": e.base ** (-2 * np.arange(8) / e.dims.head)
            },
            "base doubled": "partial_rope(rotary_pct=0.5,base=20000.0)",
        },
        (T,),
    ),
    "p_rope": Entry(
        "rotation",
        "p_rope(p=0.75)",
        "Barbero et al. (2025), arXiv:2410.06205",
        "RoPE's w_c for c < floor(p K / 2), 0 for slower pairs",
        {"no pair at rest: RoPE": "rope", "base doubled": "p_rope(p=0.75,base=20000.0)"},
    ),
    "xpos": Entry(
        "rotation",
        "xpos(scale_base=2048.0,middle=0.0)",
        "Sun et al. (2023), arXiv:2212.10554",
        "RoPE, queries times zeta_c^(i / B), keys times zeta_c^(-j / B), "
        "zeta_c = (2c / K + 0.4) / 1.4, B = 2048; `decay` is zeta_c^(1 / B)",
        {
            "decay forgotten": lambda entry, e, case: {"decay": np.ones(16)},
            "decay on the wrong side": lambda entry, e, case: {
                "decay": 1 / rotation(entry, e, case)["decay"]
            },
            "base doubled": "xpos(scale_base=2048.0,middle=0.0,base=20000.0)",
        },
        (X,),
    ),
    "resonance": Entry(
        "rotation",
        "resonance",
        "Wang et al. (2024), arXiv:2403.00071, algorithm 1",
        "w_c = 2 pi / round(2 pi base^(2c / K))",
        {"wavelengths not rounded: RoPE": "rope", "base doubled": "resonance(base=20000.0)"},
    ),
    "mobius": Entry(
        "rotation",
        "mobius(part=0.5)",
        "Bae (2026), arXiv:2607.21405, by summaries of the paper",
        "the first head: w_c = pi (2c + 1) / 1024; the second: RoPE's",
        {
            "even turns: 2c for 2c + 1": lambda entry, e, case: {
                "frequencies": np.stack(
                    [math.pi * 2 * np.arange(16) / 1024, e.base ** (-np.arange(16) / 16)]
                )
            }
        },
        heads=2,
    ),
    "evq_cosh": Entry(
        "rotation",
        "evq_cosh(tau=2.0)",
        "code and formula of misaya-yang/hybrid-rope (2026)",
        "w_c = base^-phi, phi = 1 - asinh((1 - u) sinh tau) / tau, u = (c + 1/2) / (K / 2)",
        {"RoPE": "rope", "base doubled": "evq_cosh(tau=2.0,base=20000.0)"},
    ),
    "pi": Entry(
        "rotation",
        "pi(factor=4.0)",
        "Chen et al. (2023), arXiv:2306.15595, section 3.2",
        "w_c = base^(-2c / K) / s, s = 4: the same as positions divided by s",
        {
            "no scaling": "rope",
            "multiplied by the factor": lambda entry, e, case: {
                "frequencies": 16 * rotation(entry, e, case)["frequencies"]
            },
            "base doubled": "pi(factor=4.0,base=20000.0)",
            "NTK's base for divided frequencies": "ntk(factor=4.0)",
        },
        (T,),
    ),
    "ntk": Entry(
        "rotation",
        "ntk(factor=4.0)",
        f"{PENG}, definition 1",
        "base' = base s^(K / (K - 2)), s = 4",
        scaling("ntk") | {"base times the factor": "rope(base=40000.0)"},
    ),
    "dynamic_ntk": Entry(
        "rotation",
        "dynamic_ntk(factor=2.0,length=1024,served=4096)",
        f"Hugging Face's code; {PENG}",
        "base' = base (f l / L - (f - 1))^(K / (K - 2)), f = 2, l = 4096, L = 1024",
        {
            "no scaling": "rope",
            "positions divided instead of frequencies": "pi(factor=4.0)",
            "base doubled": "dynamic_ntk(factor=2.0,length=1024,served=4096,base=20000.0)",
            "the base of the factor alone: NTK": "ntk(factor=2.0)",
            "the base of l / L: NTK": "ntk(factor=4.0)",
        },
        (T,),
    ),
    "yarn": Entry(
        "rotation",
        "yarn(factor=4.0,length=1024)",
        f"{PENG}, definitions 2 and 3, the ramp of the authors' code",
        "w'_c = g w_c + (1 - g) w_c / s; g falls linearly in c from 1 at the pair that turns "
        "beta = 32 times within L = 1024, rounded down, to 0 at the pair that turns once, rounded "
        "up; attention_factor = 0.1 ln s + 1",
        by_parts("yarn")
        | {"ramp of the paper: linear in turns": "yarn(factor=4.0,variant='paper')"},
        (T,),
    ),
    "yarn_paper": Entry(
        "rotation",
        "yarn(factor=4.0,length=1024,variant='paper')",
        f"{PENG}, definitions 2 and 3",
        "w'_c = g w_c + (1 - g) w_c / s; g rises linearly in the turns L w_c / (2 pi) from 0 at 1 "
        "to 1 at 32, L = 1024; attention_factor = 0.1 ln s + 1",
        by_parts("yarn", "factor=4.0,variant='paper'")
        | {"ramp of the authors' code: linear in c": "yarn(factor=4.0)"},
    ),
    "mrrope": Entry(
        "rotation",
        "mrrope(factor=4.0,length=1024)",
        "Tian et al. (2026), arXiv:2601.22181, by their code",
        "w_c / s^p, p = q (q + 1) / (n (n + 1)) at the q-th of the n pairs between YaRN's ends; "
        "attention_factor = 0.1 ln s + 1",
        by_parts("mrrope") | {"YaRN": "yarn(factor=4.0)"},
    ),
    "llama3": Entry(
        "rotation",
        "llama3(factor=4.0,length=1024)",
        "Meta's code of Llama 3.1 (Grattafiori et al., 2024, arXiv:2407.21783, has no formula)",
        "w'_c = g w_c + (1 - g) w_c / s, g = (L w_c / (2 pi) - 1) / 3 within 0 .. 1, L = 1024",
        by_parts("llama3") | {"YaRN": "yarn(factor=4.0)"},
        (T,),
    ),
    "longrope": Entry(
        "rotation",
        f"longrope(factor=4.0,length=1024,served=4096,long={LONG},short={SHORT})",
        "Ding et al. (2024), arXiv:2402.13753, eq. 2; temperature of Hugging Face's code",
        "w_c / long_c beyond L = 1024; attention_factor = sqrt(1 + ln s / ln L)",
        {
            "no scaling": "rope",
            "positions divided instead of frequencies": "pi(factor=4.0)",
            "short factors for long ones": f"longrope(factor=4.0,served=1024,short={SHORT})",
        },
        (T,),
    ),
    "clipped_rope": Entry(
        "rotation",
        "clipped_rope(pairs=6)",
        "Li et al. (2026), arXiv:2602.05258, by their code",
        "the slowest n = 6 pairs times (1 + cos theta) / 2, theta from 0 to pi in n steps",
        {
            "RoPE": "rope",
            "clipped at once: p-RoPE": "p_rope(p=0.625)",
            "one pair more": "clipped_rope(pairs=7)",
            "base doubled": "clipped_rope(pairs=6,base=20000.0)",
        },
    ),
    "rerope": Entry(
        "distances",
        "rerope(window=6)",
        "Su (2023), kexue.fm/archives/9708",
        "distance min(i - j, 6)",
        window_off("rerope(window={})", 6),
    ),
    "leaky_rerope": Entry(
        "distances",
        "leaky_rerope(window=6,factor=4.0)",
        "Su (2023), kexue.fm/archives/9708",
        "distance n = i - j up to w = 6, then w + (n - w) / 4",
        window_off("leaky_rerope(window={},factor=4.0)", 6)
        | {"distances divided from 0 on": "leaky_rerope(window=1,factor=4.0)"},
    ),
    "self_extend": Entry(
        "distances",
        "self_extend(window=6,group=4)",
        "Jin et al. (2024), arXiv:2401.01325, algorithm 1",
        "distance n = i - j below W = 6, then i // G - j // G + W - W // G, G = 4",
        window_off("self_extend(window={},group=4)", 6)
        | {
            "difference before the division: (i - j) // G": lambda entry, e, case: {
                "distances": np.where(
                    np.subtract.outer(case.pos, case.pos) < 6,
                    plain_distances(entry, e, case)["distances"],
                    plain_distances(entry, e, case)["distances"] // 4 + 6 - 6 // 4,
                )
            }
        },
    ),
    "lm_infinite": Entry(
        "distances",
        "lm_infinite(window=6,sinks=2)",
        "Han et al. (2023), arXiv:2308.16137, section 4.1",
        "distance min(i - j, 6); keys less than 6 away and the first 2",
        window_off("lm_infinite(window={},sinks=2)", 6)
        | {"first keys forgotten": "lm_infinite(window=6,sinks=0)"},
    ),
    "streaming": Entry(
        "distances",
        "streaming(window=6,sinks=2)",
        "Xiao et al. (2023), arXiv:2309.17453, section 3.2",
        "distances of places in a cache of the first 2 and the last 6 keys",
        window_off("streaming(window={},sinks=2)", 6)
        | {"first keys forgotten": "streaming(window=6,sinks=0)"},
    ),
    "string": Entry(
        "distances",
        "string(shift=6,window=2)",
        "An et al. (2024), arXiv:2410.18745",
        "distance n = i - j below S = 6, then n - S + W, W = 2",
        window_off("string(shift=6,window={})", 2)
        | {"shift one longer": "string(shift=7,window=2)"},
    ),
    "chunk": Entry(
        "distances",
        "chunk(chunk=6,local=2)",
        "An et al. (2024), arXiv:2402.17463, section 3",
        "keys at j mod s, s = 6, c = 8; queries at i mod s to keys of their chunk, "
        "min(s + i mod s, c - 1) to the chunk before, c - 1 to earlier chunks",
        {
            "no remapping: RoPE's distances": plain_distances,
            "chunk one shorter": "chunk(chunk=5,local=2)",
            "local window one longer": "chunk(chunk=6,local=3)",
        },
    ),
    "alibi": Entry(
        "bias",
        "alibi",
        PRESS,
        SLOPES,
        {OFF_BY_ONE: off_by_one, "heads counted from 0": heads_from_0},
        (f"{T} (up to a constant for each query)", X),
        heads=4,
    ),
    "alibi_12_heads": Entry(
        "bias",
        "alibi",
        f"{PRESS}; the slopes of the authors' code, as H is no power of two",
        "bias = -m_h |i - j|: the slopes of 8 heads, then every other one of 16",
        {
            OFF_BY_ONE: off_by_one,
            "slopes of the paper's formula at any H": "alibi(variant='paper')",
        },
        (f"{T} (up to a constant for each query)", X),
        heads=12,
    ),
    "t5": Entry(
        "bias",
        "t5(max_distance=128)",
        RAFFEL,
        f"{BUCKETS}, all 32 buckets for keys before the query",
        {OFF_BY_ONE: off_by_one, "max_distance doubled": "t5(max_distance=256)"},
        (T,),
        heads=2,
        learned={"table": (2, 32)},
    ),
    "t5_bidirectional": Entry(
        "bias",
        "t5(max_distance=128)",
        RAFFEL,
        f"{BUCKETS}, 16 buckets for i - j >= 0 and 16 for keys after the query",
        {OFF_BY_ONE: off_by_one, "max_distance doubled": "t5(max_distance=256)"},
        (T,),
        heads=2,
        causal=False,
        learned={"table": (2, 32)},
    ),
    "kerple_log": Entry(
        "bias",
        "kerple_log",
        f"{KERPLE}, the logarithmic kernel",
        "bias = -p_h ln(1 + a_h |i - j|)",
        {OFF_BY_ONE: off_by_one},
        heads=2,
        learned={"p": (2,), "a": (2,)},
    ),
    "kerple_power": Entry(
        "bias",
        "kerple_power",
        f"{KERPLE}, the power kernel",
        "bias = -a_h |i - j|^p_h",
        {OFF_BY_ONE: off_by_one},
        heads=2,
        learned={"p": (2,), "a": (2,)},
    ),
    "sandwich": Entry(
        "bias",
        "sandwich",
        "Chi et al. (2023), arXiv:2212.10356",
        "bias = H / (8h) [sum_{c=1}^{D/2} cos((i - j) / 10000^(2c / D)) - D / 2], D = 128",
        {OFF_BY_ONE: off_by_one, "base doubled": "sandwich(base=20000.0)"},
        heads=2,
    ),
    "log_n": Entry(
        "scale",
        "log_n(length=8)",
        "Su (2021), kexue.fm/archives/8823",
        "query_scale = max(1, ln n / ln 8), n = position + 1 keys",
        {
            "off by one: positions for numbers of keys": off_by_one,
            "not held at 1 or more": not_held,
            "scale forgotten": unscaled,
        },
    ),
    "ssmax": Entry(
        "scale",
        "ssmax",
        "Nakanishi (2025), arXiv:2501.19399",
        "query_scale = s_h ln n, n = position + 1 keys",
        {"off by one: positions for numbers of keys": off_by_one, "scale forgotten": unscaled},
        heads=2,
        learned={"s": (2,)},
    ),
    "drope": Entry(
        "scale",
        "drope(factor=4.0)",
        "Gelberg et al. (2025), arXiv:2512.12167",
        "no rotation; query_scale = 1 + 0.412 ln s, s = 4",
        {"scale forgotten": unscaled, "factor doubled": "drope(factor=8.0)"},
    ),
    "window": Entry(
        "seen",
        "window(window=6,sinks=2)",
        "Beltagy et al. (2020), arXiv:2004.05150; sinks: Xiao et al. (2023), arXiv:2309.17453",
        "keys less than 6 away and the first 2",
        {
            "window one shorter": "window(window=5,sinks=2)",
            "window one longer": "window(window=7,sinks=2)",
            "first keys forgotten": "window(window=6,sinks=0)",
        },
    ),
    "sinusoidal": Entry(
        "embedding",
        "sinusoidal",
        "Vaswani et al. (2017), arXiv:1706.03762, section 3.5",
        "embedding[2c] = sin(position / 10000^(2c / D)), embedding[2c + 1] the cosine",
        {
            "halves for interleaved: all sines, then all cosines": sines_first,
            POSITIONS_FROM_1: off_by_one,
            "base doubled": "sinusoidal(base=20000.0)",
            "exponents of tensor2tensor: c / (D / 2 - 1)": "sinusoidal(variant='t2t')",
        },
    ),
    "nezha": Entry(
        "logits",
        "nezha(clip=4)",
        "Wei et al. (2019), arXiv:1909.00204, section 3.1",
        "r_n[2c] = sin(m / base^(2c / K)), r_n[2c + 1] the cosine, m = -n within -4 .. 4; "
        "values get the same vectors",
        {
            "rows of the table for distances, as in their code": "nezha(clip=4,variant='code')",
            "clip one longer": "nezha(clip=5)",
            "base doubled": "nezha(clip=4,base=20000.0)",
        },
    ),
    "stick_breaking": Entry(
        "weights",
        "stick_breaking",
        "Tan et al. (2025), arXiv:2410.17980, eq. 1",
        "weight_ij = beta_ij prod_{j < t < i} (1 - beta_it) for j < i, beta = sigmoid(logits)",
        {"the query's own key takes part": with_its_own_key},
    ),
    "abacus": Entry(
        "tokens",
        "abacus",
        "McLeish et al. (2024), arXiv:2405.17399, section 3.1",
        "the place of a digit in its run of digits, from 1; 0 for other tokens",
        {"off by one: digits counted from 0": counted_from_0},
    ),
    "position_coupling": Entry(
        "tokens",
        "position_coupling",
        "Cho et al. (2024), arXiv:2405.20671, section 3.1",
        "1 for separators (above 10), 1 + the distance to one for others, 0 for the end (10)",
        {"before = the last separator counts": "position_coupling(backwards=False)"},
    ),
}


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
