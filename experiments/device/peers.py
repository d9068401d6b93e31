"""The peers in PyTorch: FlexAttention (Dong et al., 2024; arXiv:2412.05496), and a training step of
GPT-2 as in nanoGPT, by torch.compile. This program needs torch and nothing of pe_jax.

    PYTHON -m experiments.device.peers DEVICE full|tiny CASE ...

DEVICE is cuda or cpu. On a CPU nothing is compiled, and FlexAttention has no backward pass.
"""

from __future__ import annotations

import math
import sys

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch.nn import functional as F  # pyright: ignore[reportMissingImports]
from torch.nn.attention import flex_attention as flex  # pyright: ignore[reportMissingImports]

from experiments.device.serve import SIZES, WINDOW, milliseconds, serve

DEVICE = sys.argv[1] if __name__ == "__main__" else "cpu"
LOW = torch.bfloat16


def waited(result):
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return result


def compiled(function):
    if DEVICE != "cuda":
        return function
    torch.compiler.reset()  # after eight shapes of one function its programs would stay eager
    return torch.compile(function, dynamic=False)


def memory() -> dict[str, int]:
    """The most bytes of the device at once since the last call."""
    if DEVICE != "cuda":
        return {}
    most = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    return {"memory": most}


def buckets(length):
    """T5's bucket of each distance 0 .. length - 1, of 32 up to a distance of 128."""
    near, n = 16, torch.arange(length, device=DEVICE)
    far = near + (n.clamp(min=1) / near).log() / math.log(128 / near) * (32 - near)
    return torch.where(n < near, n, far.long().clamp(max=31))


class Attention:
    """FlexAttention, causal, with the bias as a function of the pair and the window as a mask."""

    def __init__(self, scale: str, length: str, spec: str, form: str):
        sizes, T = SIZES[scale], int(length)
        H = sizes.heads
        shape = max(1, sizes.tokens // T), H, T, sizes.head

        def normal(*shape, dtype=LOW):
            return torch.randn(shape, device=DEVICE, dtype=dtype)

        self.scale, self.weights = scale, normal(*shape)
        self.vectors = [normal(*shape).requires_grad_(DEVICE != "cpu") for _ in range(3)]
        slope = 2.0 ** (-8 * torch.arange(1, H + 1, device=DEVICE) / H)
        bucket, table = buckets(T), normal(32, H, dtype=torch.float32)
        table.requires_grad_(DEVICE != "cpu")
        window = WINDOW[scale] if "window" in spec else T
        scores = {
            "alibi": lambda s, b, h, i, j: s - slope[h] * (i - j),
            "t5": lambda s, b, h, i, j: s + table[bucket[torch.clamp(i - j, min=0)], h],
        }
        self.bias = scores.get(spec)
        self.learned = [*self.vectors, *([table] if spec == "t5" else [])]

        def seen(b, h, i, j):
            return (j <= i) & (i - j < window)

        self.seen, self.length = seen, T
        mask = flex.create_block_mask(seen, None, None, T, T, device=DEVICE)
        attend = compiled(flex.flex_attention)
        self.form = lambda: attend(*self.vectors, score_mod=self.bias, block_mask=mask)
        waited(self.form() if DEVICE == "cpu" else self.both())

    def both(self):
        return torch.autograd.grad(self.form(), self.learned, self.weights)

    def error(self) -> float:
        """The largest deviation of the first sequence from dense attention in float32, relative to
        the largest entry.
        """
        q, k, v = (a[0].detach().float() for a in self.vectors)
        H, T, K = q.shape
        h, i, j = torch.meshgrid(
            *(torch.arange(n, device=DEVICE) for n in (H, T, T)), indexing="ij"
        )
        logits = q @ k.mT / math.sqrt(K)
        logits = self.bias(logits, 0, h, i, j) if self.bias else logits
        exact = logits.masked_fill(~self.seen(0, h, i, j), -math.inf).softmax(-1) @ v
        return float((self.form()[0].float() - exact).abs().max() / exact.abs().max())

    def row(self):
        with torch.no_grad():
            times = {"forward": milliseconds(self.form, waited, self.scale)}
            off = {"error": self.error()} if self.length <= 4096 else {}
        if DEVICE == "cpu":
            return times | off
        memory()
        return times | off | {"both": milliseconds(self.both, waited, self.scale)} | memory()


class Block(nn.Module):
    """A layer of GPT-2, without biases and dropout, as nanoGPT trains it."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.first, self.second = (nn.LayerNorm(width, bias=False) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(self.first(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    """The mean loss of tokens [B, T + 1]; the output matrix is the embeddings."""

    def __init__(self, layers: int, width: int, heads: int, vocab: int, length: int):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens[:, :-1]) + self.places.weight
        logits = F.linear(self.norm(self.blocks(x)), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class Step:
    """A training step in bfloat16 with clipping and AdamW; a batch that lacks memory is halved."""

    def __init__(self, scale: str, config: str, name: str):
        sizes = SIZES[scale]
        self.scale, self.sizes, self.batch = scale, sizes, sizes.batch
        width = sizes.heads * sizes.head
        model = GPT(sizes.layers, width, sizes.heads, sizes.vocab, sizes.length).to(DEVICE)
        self.parameters = [*model.parameters()]
        matrices = sum(p.numel() for p in self.parameters) - model.places.weight.numel()
        self.operations = 6 * matrices + 12 * sizes.layers * width * sizes.length  # of a token
        self.optimizer = torch.optim.AdamW(self.parameters, 1e-3, fused=DEVICE == "cuda")
        self.model = compiled(model)
        while True:
            try:
                self.draw()
                waited(self())
                break
            except torch.OutOfMemoryError:
                self.batch //= 2
                if not self.batch:
                    raise

    def draw(self):
        shape = self.batch, self.sizes.length + 1
        self.batches = torch.randint(self.sizes.vocab, shape, device=DEVICE)

    def __call__(self):
        self.optimizer.zero_grad()
        with torch.autocast(DEVICE, LOW):
            loss = self.model(self.batches)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return loss.detach()

    def row(self):
        memory()
        times = milliseconds(self, waited, self.scale)
        tokens = self.batch * self.sizes.length
        counted = {"tokens": tokens, "operations": self.operations * tokens}
        return {"ms": times, "loss": float(self())} | counted | memory()


if __name__ == "__main__":
    if DEVICE == "cuda":
        torch.set_float32_matmul_precision("high")
    kind = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
    about = {"device": kind, "versions": {"torch": torch.__version__}}
    serve({"attention": Attention, "step": Step}, about, 1, sys.argv[2:])
