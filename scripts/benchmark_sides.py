"""The sides of scripts/benchmark: what each does a step, in a process of its own.

A worker builds its side, warms it up, writes one JSON line of facts, and then answers every line
`step N` with the seconds that N training steps took, `wall cpu`: forward, backward, clipping and
AdamW, on batches [B, T + 1] of random tokens that lie ready in main memory.
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

import numpy as np

CALL = 8  # steps that pe_jax makes a call; the others make one


@dataclasses.dataclass(frozen=True)
class Shape:
    """The model and the batch that every side trains, in float32."""

    layers: int = 4
    model: int = 128
    heads: int = 4
    mlp: int = 512
    vocab: int = 256
    length: int = 128
    batch: int = 32

    def batches(self, count: int = CALL) -> np.ndarray:
        """Batches of tokens: [count, B, T + 1]."""
        size = (count, self.batch, self.length + 1)
        return np.random.default_rng(0).integers(0, self.vocab, size).astype(np.int32)


Step = Callable[[int], float]  # makes that many training steps; the last one's loss, waited for


def pe_jax(shape: Shape, spec: str) -> tuple[dict, Step]:
    """This package as experiments.run uses it: one seed, CALL steps in one jitted scan."""
    import jax

    from pe_jax.step import init, make_steps, structure

    model, encodings, train = parts(shape, spec)
    graphdef, params = structure(model, encodings)
    state = init(model, encodings, train, (0,))
    steps = make_steps(graphdef, train, (0,))
    batches = shape.batches()[:, None]

    def step(count: int) -> float:
        nonlocal state
        for _ in range(0, count, CALL):
            state, metrics = jax.block_until_ready(steps(state, batches))
        return float(metrics["loss"][-1, 0])

    return _jax_facts(params) | {"form": f"{CALL} steps a jitted call"}, step


def plain_jax(shape: Shape) -> tuple[dict, Step]:
    """The same model with dense layers on [B, T, D], and one step a jitted call."""
    import jax
    import optax
    from flax import nnx

    from scripts.benchmark_plain import PlainLM

    graphdef, params = nnx.split(PlainLM(shape, rngs=nnx.Rngs(0)))
    params = nnx.to_pure_dict(params)
    optimizer = parts(shape, "rope")[2].optimizer()
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

    batches = shape.batches()

    def step(count: int) -> float:
        nonlocal state
        for i in range(count):
            state, value = train(state, batches[i % CALL])
        jax.block_until_ready(state)
        return float(value)

    return _jax_facts(params) | {"form": "one step a jitted call"}, step


def x_transformers(shape: Shape, flash: bool) -> tuple[dict, Step]:
    """x-transformers on PyTorch, eager, as its README uses it."""
    import torch
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(
        dim=shape.model,
        depth=shape.layers,
        heads=shape.heads,
        attn_dim_head=shape.model // shape.heads,
        ff_mult=shape.mlp // shape.model,
        rotary_pos_emb=True,
        attn_flash=flash,
    )
    net = TransformerWrapper(num_tokens=shape.vocab, max_seq_len=shape.length, attn_layers=layers)
    model = AutoregressiveWrapper(net)
    train = parts(shape, "rope")[2]
    betas = train.beta1, train.beta2
    optimizer = torch.optim.AdamW(model.parameters(), train.rate, betas, weight_decay=train.decay)
    batches = torch.from_numpy(shape.batches().astype(np.int64))

    def step(count: int) -> float:
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


SIDES: dict[str, Callable[[Shape], tuple[dict, Step]]] = {
    "pe_jax, rope": lambda shape: pe_jax(shape, "rope"),
    "pe_jax, nope": lambda shape: pe_jax(shape, "nope"),
    "plain JAX, rope": plain_jax,
    "x-transformers, rope": lambda shape: x_transformers(shape, flash=False),
    "x-transformers, rope, flash": lambda shape: x_transformers(shape, flash=True),
}
OURS = "pe_jax, rope"


def parts(shape: Shape, spec: str):
    """(LmConfig, encodings, TrainConfig); the optimizer's numbers are the same on every side."""
    from pe_jax.lm_config import LmConfig
    from pe_jax.spec import make
    from pe_jax.train_config import TrainConfig

    model = LmConfig(
        vocab=shape.vocab,
        layers=shape.layers,
        model=shape.model,
        heads=shape.heads,
        mlp=shape.mlp,
    )
    train = TrainConfig(length=shape.length, batch=shape.batch, steps_per_call=CALL)
    return model, make(spec, model.dims(shape.length)), train


def _jax_facts(params) -> dict:
    import jax

    return {
        "versions": _versions("jax", "flax", "optax"),
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(params)),
        "threads": len(os.sched_getaffinity(0)),  # XLA's pool: one for each core it may use
    }


def _versions(*packages: str) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in packages}


def allocator() -> str:
    """The malloc of this process, from the libraries that it has mapped."""
    maps = Path("/proc/self/maps")
    text = maps.read_text() if maps.exists() else ""
    known = [name for name in ("tcmalloc", "jemalloc", "mimalloc") if name in text]
    return known[0] if known else "malloc of " + (" ".join(platform.libc_ver()) or "the system")


def main(name: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print must not mix with answers
    facts, step = SIDES[name](Shape())
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
