"""Compares your implementation of a positional encoding with the vectors in the files NAME.json.

    case = load("yarn")
    print(diagnose(case, rotated_q=my_q, rotated_k=my_k))

`diagnose` prints "agrees", or the faults with which the formula of the case gives your outputs.
Outputs are arrays, CPU tensors or lists; axes of size 1 may be left out. Only NumPy is needed: copy
this file and the vectors into your own tests.
"""

import itertools
import json
from pathlib import Path

import numpy as np

OUTPUTS = ("frequencies", "attention_factor", "rotated_q", "rotated_k", "distances", "bias")
OUTPUTS += ("embedding", "query_scale", "seen", "weights", "token_positions", "logits")
ARRAYS = (*OUTPUTS, "positions", "axes", "q", "k", "decay")
TOLERANCE = 1e-3  # float32 angles at position 4095 are off by 2.5e-4


FOLDER = Path(__file__).parent


def load(name, folder=FOLDER):
    """The case of NAME.json, its lists as float64 arrays with NaN for null."""
    case = json.loads((Path(folder) / f"{name}.json").read_text())
    for part in (case, *case["faults"].values()):
        part.update({key: np.array(part[key], float) for key in ARRAYS if key in part})
    return case


def diagnose(case, pairs="halves", **outputs):
    """Says "agrees", the faults that explain the outputs, or how far off they are.

    `pairs` says which components your code rotates together: "halves", x_i and x_{i + K/2}, as in
    the files, or "interleaved", x_2i and x_{2i + 1}. ValueError for an output that the case lacks
    or that has another shape.
    """
    right = values(case, pairs=pairs)
    if not outputs or not {*outputs} <= {*right}:
        raise ValueError(f"{case['name']} has {[*right]}: give some of them, got {[*outputs]}")
    got = {key: np.squeeze(np.asarray(output, float)) for key, output in outputs.items()}
    for key, output in got.items():
        if output.shape != np.squeeze(right[key]).shape:
            raise ValueError(f"{key} has shape {np.shape(right[key])}, got {output.shape}")

    def off(want):
        return max(error(key, output, want[key]) for key, output in got.items())

    for faults, changes in forms(case, pairs):
        if off(values(case, **changes)) < TOLERANCE:
            return " and ".join(faults) or "agrees"
    return f"no known fault: off by {off(right):.2g} of the largest value"


def error(key, got, want):
    """The largest error, relative to the largest value, and to each value of frequencies."""
    want = np.squeeze(want)
    counted = np.isfinite(want)
    size = np.abs(want[counted])
    scale = np.where(size > 0, size, 1) if key == "frequencies" else max(size.max(), 1e-9)
    return np.nan_to_num(np.abs(got[counted] - want[counted]) / scale, nan=np.inf).max()


def forms(case, pairs):
    """(names of faults, arguments of `values`): the right form, each fault, then two at a time."""
    other = "interleaved" if pairs == "halves" else "halves"
    code = {}
    if "frequencies" in case:
        code[f"{other} for {pairs}"] = {"pairs": other}
        code["rotation the other way"] = {"sign": -1}
    if "rotated_q" in case:
        for rounds in itertools.product(("float16", "bfloat16"), ("angles", "positions", "w")):
            code["{1} in {0}".format(*rounds).replace("w ", "frequencies ")] = {"rounds": rounds}
        code["off by one: positions begin with 1"] = {"shift": (1, 1)}
        code["off by one: queries one position later"] = {"shift": (1, 0)}
        code["off by one: keys one position later"] = {"shift": (0, 1)}
        m = case["attention_factor"]
        if m != 1:
            code["temperature forgotten"] = {"factors": (1, 1)}
            code["agrees, with the temperature on queries alone"] = {"factors": (m * m, 1)}
            code["temperature once, not on queries and keys"] = {"factors": (m, 1)}
            code["temperature squared"] = {"factors": (m * m, m * m)}
            if 2 * case["frequencies"].shape[-1] < case["q"].shape[-1]:
                code["temperature on components that do not turn, too"] = {"every": True}
    if "bias" in case:
        code["bias has the wrong sign"] = {"turn": lambda b: -b}
        code["bias divided by sqrt(K)"] = {"turn": lambda b: b / case["q"].shape[-1] ** 0.5}
        code["heads in reverse order"] = {"turn": lambda b: b[::-1]}
        code["queries and keys swapped"] = {"turn": lambda b: b.swapaxes(1, 2)}
    first = [((), {}), *(((name,), {"changed": part}) for name, part in case["faults"].items())]
    second = [((), {}), *(((name,), changes) for name, changes in code.items())]
    both = itertools.product(first, second)
    every = [(a + b, {"pairs": pairs, **change, **more}) for (a, change), (b, more) in both]
    return sorted(every, key=lambda form: len(form[0]))


def values(
    case,
    changed=None,
    pairs="halves",
    sign=1,
    rounds=(),
    shift=(0, 0),
    factors=(),
    every=False,
    turn=np.array,
):
    """The outputs of the case in its right form, or with arrays changed and a fault of the code."""
    case = case | (changed or {})
    out = {key: case[key] for key in OUTPUTS if key in case}
    if factors and "attention_factor" in out:
        out["attention_factor"] = np.prod(factors) ** 0.5
    if "bias" in case:
        out["bias"] = turn(case["bias"])
    if not {"rotated_q", "distances", "bias", "query_scale"} & {*case}:
        return out
    q, k, size = case["q"], case["k"], case["q"].shape[-1]
    if "frequencies" in case:
        w = sign * np.atleast_2d(case["frequencies"])
        q, k = (as_complex(x, w.shape[1], pairs) for x in (q, k))
    if "rotated_q" in case:
        m = case["attention_factor"]
        for x, by, side, later in zip((q, k), factors or (m, m), (1, -1), shift, strict=True):
            at = case["positions"] + later
            if "axes" in case:  # positions [L, A], of which pair c counts axes[c]
                at = at[:, None, case["axes"].astype(int)]
            else:
                at = at[:, None, None]
            if "decay" in case:
                by = by * np.power(case["decay"], side * at)
            x[..., : w.shape[1]] *= by * np.exp(1j * angles(at, w, rounds))
            x[..., w.shape[1] :] *= m if every else 1
        out["rotated_q"], out["rotated_k"] = (as_real(x, w.shape[1], pairs) for x in (q, k))
    if "distances" in case:
        distances = np.nan_to_num(case["distances"])[..., None, None]
        turns = np.exp(1j * angles(distances, w, rounds))
        dot = np.einsum("ihc,jhc,ijhc->hij", q, k.conj(), turns).real
    else:
        dot = np.einsum("ihc,jhc->hij", q, k.conj()).real
    scale = np.transpose(case.get("query_scale", [[1.0]]))[:, :, None] / size**0.5
    hidden = np.isnan(case.get("distances", case["logits"]))
    out["logits"] = np.where(hidden, np.nan, scale * dot + out.get("bias", 0.0))
    return out


def angles(positions, w, rounds):
    """positions [.., 1 or pairs] times w [heads, pairs]; `rounds` are a half precision and what is
    rounded to it.
    """
    dtype, part = rounds or ("", "")
    positions = rounded(positions, dtype) if part in ("positions", "angles") else positions
    w = rounded(w, dtype) if part in ("w", "angles") else w
    angle = np.asarray(positions) * w
    return rounded(angle, dtype) if part == "angles" else angle


def rounded(x, dtype):
    if dtype == "float16":
        return np.asarray(x, np.float16).astype(float)
    bits = np.asarray(x, np.float32).view(np.uint32)  # NumPy has no bfloat16: the upper 16 bits
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.astype(np.uint32).view(np.float32).astype(float)


def columns(half, pairs):
    """The first and the second component of each of `half` pairs."""
    first = np.arange(half) if pairs == "halves" else 2 * np.arange(half)
    return first, first + (half if pairs == "halves" else 1)


def as_complex(x, half, pairs):
    """One complex number for each of `half` pairs, then the components that are not rotated."""
    first, second = columns(half, pairs)
    return np.concatenate([x[..., first] + 1j * x[..., second], x[..., 2 * half :]], -1)


def as_real(z, half, pairs):
    x = np.real(np.concatenate([z[..., :half], z[..., :half], z[..., half:]], -1))
    x[..., columns(half, pairs)[0]] = z[..., :half].real
    x[..., columns(half, pairs)[1]] = z[..., :half].imag
    return x
