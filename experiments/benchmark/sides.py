"""The sides that paired.py compares: each makes the same training step, in a process of its own.

A worker process builds its side, warms it up and writes facts about it as one line of JSON. Then it
answers each line `step N` with the seconds that N training steps took: wall time and CPU time. A
step is a forward and a backward pass, clipping and AdamW, on batches [B, T + 1] of random tokens
that are in main memory already.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from flax import nnx

from experiments.benchmark.plain import PlainLM
from pe_jax.compose.parse import make
from pe_jax.encoding import Encoding
from pe_jax.model.config import LmConfig
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import init, make_steps, structure

CALL = 8  # training steps in one jitted call of pe_jax; the other sides make one step a call


@dataclasses.dataclass(frozen=True)
class Workload:
    """The model and the training that are timed, with the same numbers on every side."""

    lm: LmConfig = LmConfig(vocab=256, layers=4, model=128, heads=4, mlp=512)
    train: TrainConfig = TrainConfig(length=128, batch=32, steps_per_call=CALL)

    def sized(self, **changes: int) -> Workload:
        """The same with another `length` or `batch`."""
        return dataclasses.replace(self, train=dataclasses.replace(self.train, **changes))

    def encodings(self, spec: str) -> tuple[Encoding, ...]:
        """The encodings of a spec for this model, trained at this length."""
        return make(spec, self.lm.dims(self.train.length))

    def batches(self, count: int = CALL) -> np.ndarray:
        """Random tokens, int32 [count, B, T + 1]."""
        size = (count, self.train.batch, self.train.length + 1)
        return np.random.default_rng(0).integers(0, self.lm.vocab, size).astype(np.int32)

    def sizes(self) -> dict[str, Any]:
        """The sizes of model and batch, which a record keeps as "shape"."""
        model = {k: getattr(self.lm, k) for k in ("layers", "model", "heads", "mlp", "vocab")}
        return model | {"length": self.train.length, "batch": self.train.batch}


Step = Callable[[int], float]
"""Makes that many training steps, waits for them and returns the loss of the last."""


def pe_jax_side(work: Workload, spec: str) -> tuple[dict[str, Any], Step]:
    """This package as a run uses it: one seed, CALL steps in one jitted scan."""
    encodings = work.encodings(spec)
    graphdef, params = structure(work.lm, encodings)
    state = init(work.lm, encodings, work.train, (0,))
    steps = make_steps(graphdef, work.train, (0,))
    batches = work.batches()[:, None]

    def step(count: int) -> float:
        nonlocal state
        metrics: Any = None
        for _ in range(0, count, CALL):
            state, metrics = jax.block_until_ready(steps(state, batches))
        return float(metrics["loss"][-1, 0])

    return _jax_facts(params) | {"form": f"{CALL} steps a jitted call"}, step


def plain_jax_side(work: Workload) -> tuple[dict[str, Any], Step]:
    """The same model with dense layers on [B, T, D], and one step a jitted call."""
    graphdef, split = nnx.split(PlainLM(work.lm, rngs=nnx.Rngs(0)))
    params = nnx.to_pure_dict(split)
    optimizer = work.train.optimizer()
    state = params, optimizer.init(params)

    @jax.jit(donate_argnums=0)
    def train(state, batch):
        params, opt = state

        def loss(params):
            logits = nnx.merge(graphdef, params, copy=True)(batch[:, :-1])
            nats = optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:])
            return nats.mean()

        value, grads = jax.value_and_grad(loss)(params)
        updates, opt = optimizer.update(grads, opt, params)
        return (optax.apply_updates(params, updates), opt), value

    batches = work.batches()

    def step(count: int) -> float:
        nonlocal state
        value: Any = None
        for i in range(count):
            state, value = train(state, batches[i % CALL])
        jax.block_until_ready(state)
        return float(value)

    return _jax_facts(params) | {"form": "one step a jitted call"}, step


def x_transformers_side(work: Workload, flash: bool) -> tuple[dict[str, Any], Step]:
    """x-transformers on PyTorch, eager, as its README uses it."""
    import torch  # pyright: ignore[reportMissingImports]

    model, train = _x_transformers_model(work, flash), work.train
    betas = train.beta1, train.beta2
    optimizer = torch.optim.AdamW(model.parameters(), train.rate, betas, weight_decay=train.decay)
    batches = torch.from_numpy(work.batches().astype(np.int64))

    def step(count: int) -> float:
        loss: Any = None
        for i in range(count):
            loss = model(batches[i % CALL])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), train.clip)
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    facts = {
        "versions": _versions("x-transformers", "torch"),
        "parameters": sum(p.numel() for p in model.parameters()),
        "threads": torch.get_num_threads(),
        "form": "eager, " + ("attn_flash=True" if flash else "attention as by default"),
    }
    return facts, step


def _x_transformers_model(work: Workload, flash: bool) -> Any:
    from x_transformers import (  # pyright: ignore[reportMissingImports]
        AutoregressiveWrapper,
        Decoder,
        TransformerWrapper,
    )

    lm = work.lm
    layers = Decoder(
        dim=lm.model,
        depth=lm.layers,
        heads=lm.heads,
        attn_dim_head=lm.model // lm.heads,
        ff_mult=(lm.mlp or 4 * lm.model) // lm.model,
        rotary_pos_emb=True,
        attn_flash=flash,
    )
    net = TransformerWrapper(num_tokens=lm.vocab, max_seq_len=work.train.length, attn_layers=layers)
    return AutoregressiveWrapper(net)


OURS = "pe_jax, rope"
SIDES: dict[str, Callable[[Workload], tuple[dict[str, Any], Step]]] = {
    OURS: lambda work: pe_jax_side(work, "rope"),
    "pe_jax, nope": lambda work: pe_jax_side(work, "nope"),
    "plain JAX, rope": plain_jax_side,
    "x-transformers, rope": lambda work: x_transformers_side(work, flash=False),
    "x-transformers, rope, flash": lambda work: x_transformers_side(work, flash=True),
}


def _jax_facts(params: Any) -> dict[str, Any]:
    return {
        "versions": _versions("jax", "flax", "optax"),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
        "threads": len(os.sched_getaffinity(0)),  # XLA's pool: one for each core it may use
    }


def _versions(*packages: str) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in packages}


def allocator() -> str:
    """The name of this process's malloc, judged by the libraries that it has mapped."""
    maps = Path("/proc/self/maps")
    text = maps.read_text() if maps.exists() else ""
    known = [name for name in ("tcmalloc", "jemalloc", "mimalloc") if name in text]
    return known[0] if known else "malloc of " + (" ".join(platform.libc_ver()) or "the system")


def main(name: str) -> None:
    """Serves one side on standard input and output, until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print must not mix with answers
    facts, step = SIDES[name](Workload())
    step(CALL)
    step(CALL)
    print(json.dumps(facts | {"allocator": allocator()}), file=answers, flush=True)
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        step(int(line.removeprefix("step ")))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(wall, cpu, file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
