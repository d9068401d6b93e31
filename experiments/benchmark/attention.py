"""Attention on an accelerator: the deviation of each form from dense attention in float32, and the
time of its forward and of its forward and backward pass.

The forms are those of attention/choose.py; cuDNN by `jax.nn.dot_product_attention`, which takes
rotated queries and keys and explicit biases; and PyTorch's FlexAttention (Dong et al., 2024;
arXiv:2412.05496) if torch is installed with CUDA. FlexAttention's time excludes the rotation of
queries and keys. Inputs are bfloat16, tables of biases float32. The error of an array is its
largest deviation relative to its largest entry; gradients are with respect to q, k and v.

Axes: B sequences, T tokens, H heads, K head size.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmark import turns
from experiments.benchmark.sides import timed
from pe_jax.attention.blockwise import attend_blockwise
from pe_jax.attention.bound import Bound
from pe_jax.attention.dense import attend
from pe_jax.attention.fused import attend_fused
from pe_jax.attention.rows import Rows
from pe_jax.encoding import Dims
from pe_jax.model.lm import init_params
from pe_jax.runs import environment
from pe_jax.specs.parse import make

SPECS = "rope", "alibi", "t5", "rope+window(window=512)"
BLOCK = 512
"""Tokens of a block of the blockwise form."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """B, T, H and K."""

    batch: int = 4
    length: int = 4096
    heads: int = 8
    head: int = 64

    def dims(self) -> Dims:
        """The sizes of a model of one layer, trained at T."""
        return Dims(self.heads * self.head, self.heads, self.head, 1, self.length, 256)


class Inputs(NamedTuple):
    """Inputs of attention, and the weights of its outputs in the sum that is differentiated."""

    params: Any
    q: Any
    k: Any
    v: Any
    weights: Any


class Side(NamedTuple):
    """One form, compiled."""

    forward: Callable[[], Any]
    """Computes the output and waits for it."""
    both: Callable[[], Any]
    """The same with the backward pass."""
    values: Callable[[], tuple[Any, tuple[Any, Any, Any]]]
    """(output, gradients of q, k and v), as JAX or NumPy arrays."""
    temporaries: int
    """Bytes that `both` needs in addition to its arguments and results."""


def run(count: int, out: Path) -> None:
    """Measures every spec in every available form, prints the table and writes it with its record.
    ValueError on a CPU.
    """
    device = jax.devices()[0]
    if device.platform == "cpu":
        raise ValueError("attention is timed on a GPU or a TPU, and JAX sees none: see its setup")
    sizes = Sizes()
    rows = [row for spec in SPECS for row in measure(spec, sizes, sides(spec, sizes), count)]
    record = turns.machine() | {
        "device": device.device_kind,
        "commit": environment.commit(),
        "jax": jax.__version__,
        "sizes": dataclasses.asdict(sizes),
        "rows": rows,
    }
    turns.report(record, markdown(record), out / "attention")


def sides(spec: str, sizes: Sizes) -> dict[str, Callable[[], Side]]:
    """How to compile each form that is available here."""
    backend, given = jax.default_backend(), inputs(spec, sizes)
    fused = functools.partial(
        attend_fused,
        target="gpu" if backend == "gpu" else "tpu",
        interpret=backend == "cpu",
    )
    ours = {
        "dense": attend,
        "blockwise": functools.partial(attend_blockwise, block=BLOCK),
        "fused": fused,
    }
    found = {
        name: functools.partial(compiled, functools.partial(ours_of, spec, sizes, form), given)
        for name, form in ours.items()
    }
    if backend == "gpu":
        found["cuDNN"] = functools.partial(compiled, functools.partial(cudnn, spec, sizes), given)
        if importlib.util.find_spec("torch"):
            found["FlexAttention"] = functools.partial(flex, spec, sizes, given)
    return found


def measure(
    spec: str, sizes: Sizes, sides: Mapping[str, Callable[[], Side]], count: int
) -> list[dict[str, Any]]:
    """A row for each form: its errors, the milliseconds of its passes in each of `count` turns, and
    its temporaries; or the library's error message if it refuses the form.
    """
    turns.say(f"{spec}: compiling and warming up")
    one = dataclasses.replace(sizes, batch=1)
    given = inputs(spec, sizes)
    first = Inputs(given.params, *(a[:1] for a in given[1:]))
    wide = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), first)
    with jax.default_matmul_precision("highest"):  # else products are rounded on a TPU or GPU
        truth = compiled(functools.partial(ours_of, spec, one, attend), wide).values()
    rows, there = [], {}
    for name, compile in sides.items():
        row: dict[str, Any] = {"spec": spec, "form": name}
        rows.append(row)
        try:
            there[name] = side = compile()
            side.forward()
            output, slopes = side.values()
        except Exception as refusal:  # of a library, for these sizes or this card
            row["refused"] = str(refusal).partition("\n")[0][:120]
            continue
        row["output"] = error(output[:1], truth[0])
        row["gradients"] = max(
            error(ours[:1], exact) for ours, exact in zip(slopes, truth[1], strict=True)
        )
        row |= {"temporaries": side.temporaries, "forward": [], "both": []}
    for _ in range(count):
        for row in rows:
            if "refused" not in row:
                for name in ("forward", "both"):
                    row[name].append(timed(getattr(there[row["form"]], name))[1]["ms"])
    return rows


def markdown(record: Mapping[str, Any]) -> str:
    """A row for each spec and form: median times, and the fused form's time as a ratio to them."""
    rows = []
    fused = {row["spec"]: row for row in record["rows"] if row["form"] == "fused"}
    for row in record["rows"]:
        if "refused" in row:
            rows.append([row["spec"], row["form"], f"n/a: {row['refused']}"])
            continue
        cells = [row["spec"], row["form"], f"{row['output']:.1e}", f"{row['gradients']:.1e}"]
        base = fused[row["spec"]]
        for name in ("forward", "both"):
            cells.append(f"{statistics.median(row[name]):.2f}")
            own = row is base or "refused" in base
            cells.append("" if own else str(turns.ratio(base[name], row[name])))
        rows.append([*cells, f"{row['temporaries'] / 2**20:,.0f}"])
    head = ["encoding", "form", "error", "of gradients"]
    head += ["forward, ms", "fused / it", "with backward, ms", "fused / it", "temporaries, MiB"]
    sizes = record["sizes"]
    return (
        f"Attention of {sizes['batch']} sequences of {sizes['length']} tokens, {sizes['heads']} "
        f"heads of {sizes['head']}, bfloat16, on one {record['device']}; jax {record['jax']}, "
        f"commit {record['commit'][:12]}.\n\n" + turns.table(head, rows)
    )


def inputs(spec: str, sizes: Sizes) -> Inputs:
    """Inputs and parameters of the encodings, all normally distributed."""
    shape = sizes.batch, sizes.length, sizes.heads, sizes.head
    keys = jax.random.split(jax.random.key(0), 4)
    q, k, v, weights = (jax.random.normal(key, shape, jnp.bfloat16) for key in keys)
    shared = [init_params(e, jax.random.key(1))[0] for e in make(spec, sizes.dims())]
    leaves, tree = jax.tree.flatten(tuple(shared))
    drawn = [jax.random.normal(jax.random.key(i), a.shape) for i, a in enumerate(leaves)]
    return Inputs(jax.tree.unflatten(tree, drawn), q, k, v, weights)


def bound(spec: str, sizes: Sizes, params: Any) -> tuple[Bound, Rows]:
    """The encodings with these parameters, and the T tokens."""
    pe, tokens = Bound(params, make(spec, sizes.dims())), jnp.arange(sizes.length)
    rows = Rows(tokens, tokens, (tokens,) * len(pe.encodings))
    return pe.tabulated(sizes.length, sizes.length), rows


def compiled(form: Callable, given: Inputs) -> Side:
    """A form in JAX, compiled for these inputs."""

    def total(*leaves):
        output = form(*leaves)
        wide = output.astype(jnp.float32) * given.weights.astype(jnp.float32)
        return wide.sum(), output

    leaves = given[:4]
    slopes = jax.value_and_grad(total, argnums=(0, 1, 2, 3), has_aux=True)
    forward, both = (jax.jit(f).lower(*leaves).compile() for f in (form, slopes))

    def values():
        (_, output), (_, *of_vectors) = both(*leaves)
        return output, tuple(of_vectors)

    return Side(
        lambda: jax.block_until_ready(forward(*leaves)),
        lambda: jax.block_until_ready(both(*leaves)),
        values,
        getattr(both.memory_analysis(), "temp_size_in_bytes", 0),
    )


def error(array: Any, exact: Any) -> float:
    """The largest deviation relative to the largest entry of the exact array."""
    array, exact = (np.asarray(a, np.float32) for a in (array, exact))
    return float(np.abs(array - exact).max() / np.abs(exact).max())


def ours_of(spec: str, sizes: Sizes, form: Callable, params: Any, q, k, v) -> Any:
    """One of our forms, for a batch."""
    pe, rows = bound(spec, sizes, params)
    return jax.vmap(lambda q, k, v: form(pe, q, k, v, rows, rows))(q, k, v)


def biases(pe: Bound, sizes: Sizes) -> Any:
    """The bias at each distance 0 .. T - 1, [H, T]; None if there is no bias."""
    if not pe.has("relative_bias"):
        return None
    table = pe.relative("relative_bias", jnp.arange(sizes.length))
    return jnp.broadcast_to(table, (sizes.heads, sizes.length))


def cudnn(spec: str, sizes: Sizes, params: Any, q, k, v, implementation: Any = "cudnn") -> Any:
    """JAX's own attention, with the rotation, the bias and the window of the encodings."""
    pe, rows = bound(spec, sizes, params)
    q, k = jax.vmap(lambda q, k: pe.qk(q, k, rows.coords, rows.coords))(q, k)
    table = biases(pe, sizes)
    distances = jnp.maximum(rows.pos[:, None] - rows.pos[None], 0)
    window = min((window for window, _ in pe.reach), default=None)
    return jax.nn.dot_product_attention(
        q,
        k,
        v,
        bias=None if table is None else table[None, :, distances].astype(q.dtype),
        is_causal=True,
        local_window_size=None if window is None else (window - 1, 0),
        implementation=implementation,
    )


def flex(spec: str, sizes: Sizes, given: Inputs) -> Side:
    """FlexAttention on this GPU."""
    import torch  # pyright: ignore[reportMissingImports]

    form, learned, rotate = flex_form(spec, sizes, given, "cuda")
    weights = torch.tensor(np.asarray(given.weights, np.float32), device="cuda")

    def forward():
        with torch.no_grad():
            form()
        torch.cuda.synchronize()

    def both():
        output = form()
        slopes = torch.autograd.grad((output.float() * weights).sum(), learned)
        torch.cuda.synchronize()
        return output.detach(), slopes

    def values():
        output, slopes = both()
        q, k, v = (a.float().cpu().transpose(1, 2).numpy() for a in slopes[:3])
        turned = jnp.asarray(q, jnp.bfloat16), jnp.asarray(k, jnp.bfloat16)
        return output.float().cpu().numpy(), (*jax.vjp(rotate, given.q, given.k)[1](turned), v)

    both()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    both()
    return Side(forward, both, values, torch.cuda.max_memory_allocated() - before)


def flex_form(
    spec: str, sizes: Sizes, given: Inputs, device: str
) -> tuple[Callable[[], Any], list[Any], Callable]:
    """(FlexAttention's output [B, T, H, K] of these inputs, as a function; q, k, v and the table of
    biases, which have no gradient on a CPU; the rotation of q and k). The bias of a pair is read
    from a table of all distances. Causality and a window are a block mask.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from torch.nn.attention import flex_attention as library  # pyright: ignore

    pe, rows = bound(spec, sizes, given.params)
    rotate = jax.vmap(lambda q, k: pe.qk(q, k, rows.coords, rows.coords))
    window = min((window for window, _ in pe.reach), default=sizes.length)

    def tensor(a, dtype):
        wide = torch.tensor(np.asarray(a, np.float32), device=device)
        return wide.to(dtype).requires_grad_(device != "cpu")

    vectors = *rotate(given.q, given.k), given.v
    leaves = [tensor(jnp.swapaxes(a, 1, 2), torch.bfloat16) for a in vectors]
    at_distances = biases(pe, sizes)
    table = [] if at_distances is None else [tensor(at_distances, torch.float32)]

    def score(s, b, h, i, j):
        return s + table[0][h, torch.clamp(i - j, min=0)]

    def seen(b, h, i, j):
        return (j <= i) & (i - j < window)

    mask = library.create_block_mask(seen, None, None, sizes.length, sizes.length, device=device)
    attend = library.flex_attention if device == "cpu" else torch.compile(library.flex_attention)

    def form():
        return attend(*leaves, score_mod=score if table else None, block_mask=mask).transpose(1, 2)

    return form, [*leaves, *table], rotate
