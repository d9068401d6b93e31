"""The cases in JAX.

    python -m experiments.device.cases full|tiny CASE ...

kernel/SPEC                   numbers of fused attention
attention/LENGTH/SPEC/FORM    time of attention, FORM being fused or JAX
step/CONFIG/SPEC              time of a training step of all seeds
evaluation/CONFIG/SPEC        time of a pass over the windows that an evaluation takes at once
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.accelerators import programs
from experiments.device.attention import Sizes, inputs, of_jax, ours_of
from experiments.device.serve import SIZES, milliseconds, serve
from pe_jax.attention.bound import Bound, fold_positions
from pe_jax.attention.dense import attend
from pe_jax.attention.fused import attend_fused, refusal
from pe_jax.attention.rows import Rows
from pe_jax.encoding import mixes, overrides
from pe_jax.model.lm import init_params
from pe_jax.specs.parse import make
from pe_jax.training.step import init

THREADS = 6


def fused() -> Any:
    """Our kernel, interpreted on a CPU."""
    backend = jax.default_backend()
    target = "tpu" if backend == "tpu" else "gpu"
    return functools.partial(attend_fused, target=target, interpret=backend == "cpu")


def shapes(tree: Any) -> Any:
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


def memory(program: Any) -> dict[str, int]:
    """Bytes of a program, its arguments included."""
    of = program.memory_analysis()
    return {"memory": of.argument_size_in_bytes + of.temp_size_in_bytes}


class Kernel:
    """Output and gradients of fused attention, of one sequence. An error is the largest deviation
    of an array from dense attention in float32, relative to its largest entry; the gradients are of
    the parameters of the encodings, of q, k and v, and of the input that `locate` reads.
    """

    def __init__(self, scale: str, spec: str):
        H, K, T = (2, 16, 40) if scale == "tiny" else (4, 64, 300)
        sizes, rng = Sizes(1, T, H, K), np.random.default_rng(0)
        members = make(spec, sizes.dims())
        moved = any(overrides(e, "positions") for e in members)
        drawn = [init_params(e, jax.random.key(1)) for e in members]
        params = tuple(shared | owned.get(0, {}) for shared, owned in drawn)
        params = jax.tree.map(lambda a: a + 0.3 * rng.normal(size=a.shape).astype("f4"), params)
        tokens, place = jnp.asarray(rng.integers(0, 256, (1, T))), jnp.arange(T)
        x, q, k, v, weights = (
            jnp.asarray(rng.normal(size=shape), jnp.bfloat16)
            for shape in ((T, H * K), *[(T, H, K)] * 4)
        )

        def bound(params, x) -> tuple[Bound, Rows]:
            pos = fold_positions(members, tokens, place, jax.random.key(3), True)
            pos = pos.reshape(-1, T)[0]
            pe = Bound(params, members, contiguous=not moved)
            return pe, Rows(place, pos, pe.locate(x, pos))

        def of(form, dtype):
            def total(params, vectors):
                x, q, k, v = vectors
                pe, rows = bound(params, x)
                out = form(pe, q, k, v, rows, rows).astype(jnp.float32)
                return (out * weights.astype(jnp.float32)).sum(), out

            vectors = tuple(a.astype(dtype) for a in (x, q, k, v))
            slopes = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)
            (_, out), gradients = slopes(params, vectors)
            return [out, *jax.tree.leaves(gradients)]

        def errors():
            with jax.default_matmul_precision("highest"):  # else products are rounded
                exact, here = of(attend, jnp.float32), of(fused(), jnp.float32)
            found = {"fused float32": here}
            found["fused bfloat16"] = of(fused(), jnp.bfloat16)
            found["dense bfloat16"] = of(attend, jnp.bfloat16)
            return {
                name: jnp.stack(list(map(_error, arrays, exact))) for name, arrays in found.items()
            }

        self.why, self.errors = "takes the place of attention", None
        if any(map(mixes, members)):
            return
        pe, rows = bound(params, x)
        self.why = refusal(pe, rows, rows, H)
        if not self.why:
            self.errors = jax.jit(errors).lower().compile()

    def row(self) -> dict[str, Any]:
        if self.errors is None:
            return {"unclaimed": self.why}
        found = {name: np.asarray(each) for name, each in self.errors().items()}
        return {
            "output": {name: float(each[0]) for name, each in found.items()},
            "gradients": {name: float(each[1:].max()) for name, each in found.items()},
        }


def _error(array: Any, exact: Any) -> Any:
    exact = exact.astype(jnp.float32)
    return jnp.abs(array.astype(jnp.float32) - exact).max() / (jnp.abs(exact).max() + 1e-30)


class Attention:
    """Forward pass, and forward and backward pass, of a batch in bfloat16."""

    def __init__(self, scale: str, length: str, spec: str, form: str):
        T, of = int(length), SIZES[scale]
        self.scale, self.spec = scale, spec
        self.sizes = Sizes(max(1, of.tokens // T), T, of.heads, of.head)
        library = "cudnn" if jax.default_backend() == "gpu" else "xla"
        ours = functools.partial(ours_of, spec, self.sizes, fused())
        self.form = (
            ours if form == "fused" else functools.partial(of_jax, library, spec, self.sizes)
        )

        def both(params, q, k, v, weights):
            out, back = jax.vjp(self.form, params, q, k, v)
            return out, back(weights.astype(out.dtype))

        params, vectors = shapes(jax.eval_shape(functools.partial(inputs, spec, self.sizes)))
        self.forward = jax.jit(self.form).lower(params, *vectors[:3]).compile()
        self.both = jax.jit(both).lower(params, *vectors).compile()

    def row(self) -> dict[str, Any]:
        params, vectors = inputs(self.spec, self.sizes)
        calls = {
            "forward": functools.partial(self.forward, params, *vectors[:3]),
            "both": functools.partial(self.both, params, *vectors),
        }
        row: dict[str, Any] = {
            name: milliseconds(call, jax.block_until_ready, self.scale)
            for name, call in calls.items()
        }
        if self.sizes.length <= 4096:
            first = [a[:1].astype(jnp.float32) for a in vectors[:3]]
            with jax.default_matmul_precision("highest"):
                exact = jax.jit(functools.partial(ours_of, self.spec, self.sizes, attend))(
                    params, *first
                )
            row["error"] = float(_error(calls["forward"]()[:1], exact))
        return row | memory(self.both)


def changes(scale: str) -> dict[str, Any]:
    """The changed values of a config."""
    if scale == "full":
        return {}
    of = SIZES[scale]
    return {
        "lm.layers": of.layers,
        "lm.heads": of.heads,
        "lm.model": of.heads * of.head,
        "lm.vocab": of.vocab,
        "train.length": of.length,
        "train.batch": of.batch,
        "eval.batch_tokens": of.evaluated,
        "eval.last": 8,
        "run.seeds": (0,),
    }


class Step:
    """A training step of all seeds of a config, on random tokens."""

    def __init__(self, scale: str, config: str, spec: str):
        case = programs.Case(spec, "training", tuple(changes(scale).items()), config)
        self.scale, self.run = scale, case.run()
        steps, inputs = programs.training(self.run)
        self.program = steps.lower(*inputs).compile()
        self.tokens = inputs[1]
        self.state: Any = None

    def __call__(self) -> Any:
        self.state, measured = self.program(self.state, self.batches)
        return measured["loss"]

    def row(self) -> dict[str, Any]:
        run, learned = self.run, self.run.parameters()
        self.state = init(run.lm, run.encodings, run.train, run.run.seeds)
        self.batches = jax.random.randint(jax.random.key(0), self.tokens.shape, 0, run.lm.vocab)
        times = milliseconds(self, jax.block_until_ready, self.scale)
        loss = float(self().mean())
        self.state = None
        lm, seen = run.lm, len(run.run.seeds) * run.train.batch * run.train.length
        looked_up = 0 if lm.tie_embeddings else lm.vocab * lm.model
        matrices = learned.total - learned.encoding - looked_up
        operations = 6 * matrices + 12 * lm.layers * lm.model * run.train.length  # of a token
        counted = {"tokens": seen, "operations": operations * seen}
        return {"ms": times, "loss": loss} | counted | memory(self.program)


class Evaluation:
    """A pass of one seed over as many windows as an evaluation takes at once."""

    def __init__(self, scale: str, config: str, spec: str):
        self.scale, length = scale, SIZES[scale].evaluated
        case = programs.Case(spec, "evaluation", tuple(changes(scale).items()), config)
        self.run = case.run()
        program, self.inputs, static = programs.evaluation(self.run, length)
        self.program = program.lower(*self.inputs, **static).compile()

    def row(self) -> dict[str, Any]:
        run = self.run
        state = init(run.lm, run.encodings, run.train, (0,))
        params = jax.tree.map(lambda a: a[0], state["params"])
        tokens = jax.random.randint(jax.random.key(0), self.inputs[1].shape, 0, run.lm.vocab)
        call = functools.partial(self.program, params, tokens, jnp.int32(0))
        times = milliseconds(call, jax.block_until_ready, self.scale)
        seen = tokens.shape[0] * (tokens.shape[1] - 1)
        return {"ms": times, "nats": float(call().mean()), "tokens": seen} | memory(self.program)


PARTS = {"kernel": Kernel, "attention": Attention, "step": Step, "evaluation": Evaluation}

if __name__ == "__main__":
    kind, versions = jax.devices()[0].device_kind, {"jax": jax.__version__}
    serve(PARTS, {"device": kind, "versions": versions}, THREADS, sys.argv[1:])
