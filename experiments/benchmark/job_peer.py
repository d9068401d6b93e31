"""The job of job.py by x-transformers on PyTorch, eager, as its README uses it: trains and scores
each seed, on the batches and windows of a file, and prints what came out as one line of JSON.

It imports neither JAX nor pe_jax, whose seconds would count as its own.

python -m experiments.benchmark.job_peer FILE.npz ENCODING
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from x_transformers import (  # pyright: ignore[reportMissingImports]
    AutoregressiveWrapper,
    Decoder,
    TransformerWrapper,
)

# The arguments of Decoder, by the name of the encoding here. attn_flash=True, without which long
# windows take several times as long, does not go with T5's bias.
LAYERS: dict[str, dict[str, Any]] = {
    "rope": {"rotary_pos_emb": True, "attn_flash": True},
    "alibi": {"alibi_pos_bias": True, "attn_flash": True},
    "t5": {"rel_pos_bias": True},
    "sinusoidal": {"attn_flash": True},
    "nope": {"attn_flash": True},
}


def model(config: dict[str, Any], encoding: str) -> Any:
    """The language model, with loss."""
    layers = Decoder(
        dim=config["model"],
        depth=config["layers"],
        heads=config["heads"],
        attn_dim_head=config["model"] // config["heads"],
        ff_mult=config["mlp"] // config["model"],
        **LAYERS[encoding],
    )
    absolute = encoding == "sinusoidal"
    net = TransformerWrapper(
        num_tokens=config["vocab"],
        max_seq_len=config["longest"],
        attn_layers=layers,
        use_abs_pos_emb=absolute,
        scaled_sinu_pos_emb=absolute,
    )
    return AutoregressiveWrapper(net)


def train(net: Any, config: dict[str, Any], batches: Any, rates: np.ndarray) -> None:
    """A step for each of `batches`, int64 [steps, B, T + 1]."""
    betas = config["beta1"], config["beta2"]
    optimizer = torch.optim.AdamW(net.parameters(), betas=betas, weight_decay=config["decay"])
    net.train()
    for batch, rate in zip(batches, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = float(rate)
        net(batch).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), config["clip"])
        optimizer.step()
        optimizer.zero_grad()


@torch.inference_mode()
def score(net: Any, tokens: Any, lo: Any, hi: Any, batch_tokens: int) -> float:
    """The mean of -log2 p of the targets of the rows lo <= row < hi of windows [W, E + 1]."""
    net.eval()
    length = tokens.shape[1] - 1
    total, batch = 0.0, max(1, batch_tokens // length)
    row = torch.arange(length)
    for first in range(0, len(tokens), batch):
        part = tokens[first : first + batch]
        logits = net.net(part[:, :-1])
        nats = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), part[:, 1:].flatten(), reduction="none"
        ).view(len(part), length)
        own = slice(first, first + batch)
        total += float(nats[(row >= lo[own, None]) & (row < hi[own, None])].double().sum())
    return total / int((hi - lo).sum()) / math.log(2)


def main(path: str, encoding: str) -> None:
    data = np.load(path, allow_pickle=False)
    config = json.loads(str(data["config"]))
    arrays = {name: torch.from_numpy(data[name]).long() for name in data if "/" in name}
    values: dict[str, list[float]] = {}
    for seed in config["seeds"]:
        torch.manual_seed(seed)
        net = model(config, encoding)
        train(net, config, arrays[f"batches/{seed}"], data["rates"])
        for name in config["cuts"]:  # "<metric>/<length>"
            tokens, lo, hi = (arrays[f"{name}/{part}"] for part in ("tokens", "lo", "hi"))
            value = score(net, tokens, lo, hi, config["batch_tokens"])
            values.setdefault(name, []).append(value)
    print(json.dumps(values))


if __name__ == "__main__":
    main(*sys.argv[1:])
