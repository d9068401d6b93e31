"""The sides that compared.py measures in turn, each in its own process.

A process builds its side, prints facts about it as one line of JSON, and then answers each line of
words with the milliseconds of its task, wall time and CPU time, without compilation. An empty line
asks for a training step: a forward and a backward pass, clipping and AdamW, on random tokens in
main memory. "LENGTH SWAP" asks for a pass of a model over one window of random tokens, with the
last KEPT scored.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from pe_jax.encoding import Encoding
from pe_jax.evaluation.scoring import target_nats
from pe_jax.model.config import LmConfig
from pe_jax.specs.parse import make
from pe_jax.training.config import TrainConfig
from pe_jax.training.step import init, make_steps, structure

CALL = 8  # training steps in one jitted call of pe_jax; the other sides make one step a call
KEPT = 256

Facts = dict[str, Any]
Ask = Callable[..., Facts]
"""ask(*words) -> the result of a turn."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """The timed model and training, with the same sizes on every side."""

    lm: LmConfig = LmConfig(vocab=256, layers=4, model=128, heads=4, mlp=512)
    train: TrainConfig = TrainConfig(length=128, batch=32, steps_per_call=CALL)

    def sized(self, **changes: int) -> Workload:
        """The same workload with another `length` or `batch`."""
        return dataclasses.replace(self, train=dataclasses.replace(self.train, **changes))

    def encodings(self, spec: str) -> tuple[Encoding, ...]:
        """The encodings of a spec for this model, trained at this length."""
        return make(spec, self.lm.dims(self.train.length))

    def batches(self, count: int = CALL) -> np.ndarray:
        """Random tokens, int32 [count, B, T + 1]."""
        size = (count, self.train.batch, self.train.length + 1)
        return np.random.default_rng(0).integers(0, self.lm.vocab, size).astype(np.int32)

    def sizes(self) -> Facts:
        """The sizes of model and batch, recorded as "shape"."""
        model = {k: getattr(self.lm, k) for k in ("layers", "model", "heads", "mlp", "vocab")}
        return model | {"length": self.train.length, "batch": self.train.batch}


def timed(call: Callable[[], Any], count: int = 1) -> tuple[Any, Facts]:
    """(the result of a call, its milliseconds for each of `count` steps)."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return result, {"ms": 1e3 * wall / count, "cpu_ms": 1e3 * cpu / count}


def pe_jax_side(work: Workload, spec: str) -> tuple[Facts, Ask]:
    """This package as in a run: one seed, CALL steps in one jitted scan."""
    encodings = work.encodings(spec)
    graphdef, params = structure(work.lm, encodings)
    state = init(work.lm, encodings, work.train, (0,))
    steps = make_steps(graphdef, work.train, (0,))
    batches = work.batches()[:, None]

    def call():
        nonlocal state
        state, metrics = jax.block_until_ready(steps(state, batches))
        return metrics["loss"][-1, 0]

    return _trained(call, params, f"{CALL} steps a jitted call", "jax", "flax", "optax")


def plain_jax_side(work: Workload) -> tuple[Facts, Ask]:
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

    def call():
        nonlocal state
        value: Any = None
        for batch in batches:
            state, value = train(state, batch)
        jax.block_until_ready(state)
        return value

    return _trained(call, params, "one step a jitted call", "jax", "flax", "optax")


def x_transformers_side(work: Workload, flash: bool) -> tuple[Facts, Ask]:
    """x-transformers on PyTorch, eager, as in its README."""
    import torch  # pyright: ignore[reportMissingImports]
    import x_transformers as x  # pyright: ignore[reportMissingImports]

    lm, train = work.lm, work.train
    layers = x.Decoder(
        dim=lm.model,
        depth=lm.layers,
        heads=lm.heads,
        attn_dim_head=lm.model // lm.heads,
        ff_mult=(lm.mlp or 4 * lm.model) // lm.model,
        rotary_pos_emb=True,
        attn_flash=flash,
    )
    net = x.TransformerWrapper(num_tokens=lm.vocab, max_seq_len=train.length, attn_layers=layers)
    model = x.AutoregressiveWrapper(net)
    betas = train.beta1, train.beta2
    optimizer = torch.optim.AdamW(model.parameters(), train.rate, betas, weight_decay=train.decay)
    batches = torch.from_numpy(work.batches().astype(np.int64))

    def call():
        loss: Any = None
        for batch in batches:
            loss = model(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), train.clip)
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    form = "eager, " + ("attn_flash=True" if flash else "attention as by default")
    facts, ask = _trained(call, [*model.parameters()], form, "x-transformers", "torch")
    return facts | {"threads": torch.get_num_threads()}, ask


def _trained(call: Callable, params: Any, form: str, *packages: str) -> tuple[Facts, Ask]:
    for _ in range(2):  # compiles and warms up
        call()

    def ask() -> Facts:
        loss, times = timed(call, CALL)
        return times | {"loss": float(loss)}

    sizes = [int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(params)]
    facts = {"parameters": sum(sizes), "threads": len(os.sched_getaffinity(0))}  # as XLA's pool
    versions = {name: version(name) for name in packages}
    return facts | {"versions": versions, "form": form, "allocator": allocator()}, ask


def allocator() -> str:
    """The name of this process's malloc, from the libraries that it has mapped."""
    maps = Path("/proc/self/maps")
    text = maps.read_text() if maps.exists() else ""
    known = [name for name in ("tcmalloc", "jemalloc", "mimalloc") if name in text]
    return known[0] if known else "malloc of " + (" ".join(platform.libc_ver()) or "the system")


def pass_of_pe_jax(source: str) -> tuple[Facts, Ask]:
    """A pretrained model, or the model of a run's folder, unmodified or with a swap."""
    from pe_jax.runs.trained import load

    model, compiled = load(source), {}
    vocab = len(model.params["embedding"])

    def ask(length: str, swap: str = "") -> Facts:
        arguments = model.params, _tokens(int(length), vocab), np.int32(0)
        if (length, swap) not in compiled:
            served = tuple(encoding.at(int(length)) for encoding in model.encodings(swap))
            static = {"graphdef": model.graphdef, "encodings": served}
            static |= {"last": min(KEPT, int(length))}
            compiled[length, swap] = target_nats.lower(*arguments, **static).compile()
        program = compiled[length, swap]
        nats, times = timed(lambda: np.asarray(program(*arguments)))
        planned = program.memory_analysis().temp_size_in_bytes / 2**20
        return times | _scored(nats.mean()) | {"temporaries_mib": planned}

    return {"versions": {"jax": jax.__version__}}, ask


def pass_of_transformers(source: str) -> tuple[Facts, Ask]:
    """The same in HuggingFace's transformers, with PyTorch's scaled dot-product attention."""
    import torch  # pyright: ignore[reportMissingImports]
    import transformers  # pyright: ignore[reportMissingImports]

    kind, _, place = source.partition(":")
    where = {"gguf_file": Path(place).name} if kind == "gguf" else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        Path(place).parent if where else place,
        dtype=torch.float32,
        attn_implementation="sdpa",
        **where,
    ).eval()

    def ask(length: str) -> Facts:
        tokens = torch.tensor(_tokens(int(length), model.config.vocab_size), dtype=torch.long)

        def call():
            with torch.no_grad():
                return model(tokens[:, :-1], logits_to_keep=KEPT, use_cache=False).logits[0]

        logits, times = timed(call)
        nats = torch.nn.functional.cross_entropy(logits, tokens[0, -len(logits) :])
        return times | _scored(nats)

    return {"versions": {name: version(name) for name in ("transformers", "torch")}}, ask


def _tokens(length: int, vocab: int) -> np.ndarray:
    """Random tokens, int32 [1, length + 1]."""
    return np.random.default_rng(0).integers(0, vocab, (1, length + 1)).astype(np.int32)


def _scored(nats: Any) -> Facts:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"nats": float(nats), "peak_mib": peak}


OURS = "pe_jax, rope"
STEPS: dict[str, Callable[[], tuple[Facts, Ask]]] = {
    OURS: lambda: pe_jax_side(Workload(), "rope"),
    "pe_jax, nope": lambda: pe_jax_side(Workload(), "nope"),
    "plain JAX, rope": lambda: plain_jax_side(Workload()),
    "x-transformers, rope": lambda: x_transformers_side(Workload(), flash=False),
    "x-transformers, rope, flash": lambda: x_transformers_side(Workload(), flash=True),
}
PASSES = {"pe_jax": pass_of_pe_jax, "transformers": pass_of_transformers}
"""The sides of a forward pass, by library; each is built from the source of a model."""


class PlainBlock(nnx.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): pe_jax's with rope, in the usual style."""

    def __init__(self, config: LmConfig, *, rngs: nnx.Rngs):
        def dense(inputs: int, outputs: int) -> nnx.Linear:
            return nnx.Linear(inputs, outputs, use_bias=False, rngs=rngs)

        D, F = config.model, config.mlp or 4 * config.model
        self.heads = config.heads
        self.attention_norm, self.mlp_norm = nnx.RMSNorm(D, rngs=rngs), nnx.RMSNorm(D, rngs=rngs)
        self.query, self.key_value, self.out = dense(D, D), dense(D, 2 * D), dense(D, D)
        self.up, self.down = dense(D, F), dense(F, D)

    def __call__(self, x):
        B, T, D = x.shape
        h = self.attention_norm(x)
        q = self.query(h).reshape(B, T, self.heads, -1)
        k, v = jnp.split(self.key_value(h).reshape(B, T, 2 * self.heads, -1), 2, axis=2)
        logits = jnp.einsum("bthk,bshk->bhts", rotary(q), rotary(k)) * q.shape[-1] ** -0.5
        weights = jax.nn.softmax(jnp.where(jnp.tri(T, dtype=bool), logits, -1e30))
        x = x + self.out(jnp.einsum("bhts,bshk->bthk", weights, v).reshape(B, T, D))
        return x + self.down(jax.nn.gelu(self.up(self.mlp_norm(x))))


class PlainLM(nnx.Module):
    """Tokens [B, T] to logits [B, T, V]. The parameters have the names and shapes of
    pe_jax.model.lm.LM (`down` transposed).
    """

    def __init__(self, config: LmConfig, *, rngs: nnx.Rngs):
        table = jax.random.normal(rngs.params(), (config.vocab, config.model))
        self.embedding = nnx.Param(table)
        self.blocks = nnx.List([PlainBlock(config, rngs=rngs) for _ in range(config.layers)])
        self.norm = nnx.RMSNorm(config.model, rngs=rngs)
        self.head = nnx.Linear(config.model, config.vocab, use_bias=False, rngs=rngs)

    def __call__(self, tokens):
        x = self.embedding[...][tokens]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def rotary(x):
    """Rotates each pair (x_i, x_{i + K/2}) of [B, T, H, K] by the angle t * 10000^(-2i / K)."""
    T, K = x.shape[1], x.shape[3]
    angle = jnp.outer(jnp.arange(T), 10000.0 ** (-jnp.arange(0, K, 2) / K))[None, :, None]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def serve(make: Callable[[], tuple[Facts, Ask]]) -> None:
    """Serves one side on standard input and output, until the input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print must not mix with answers
    facts, ask = make()
    print(json.dumps(facts), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(ask(*line.split())), file=answers, flush=True)


def main(side: str, *source: str) -> None:
    serve(lambda: PASSES[side](*source) if source else STEPS[side]())


if __name__ == "__main__":
    main(*sys.argv[1:])
