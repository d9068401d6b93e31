"""What `pe-jax extend --inspect` prints: the first prompt of each metric with prompts at the
shortest length, and which of its tokens hold what is asked for and the answers.
"""

from __future__ import annotations

from pe_jax.data.corpus import SPLITS
from pe_jax.evaluation.windows import written
from pe_jax.metric import PromptMetric
from pe_jax.metrics import named
from pe_jax.runs.run import Run


def show(run: Run) -> None:
    """ValueError where no metric has prompts, or a prompt does not fit."""
    metrics = [m for m in map(named, run.eval.metrics) if isinstance(m, PromptMetric)]
    if not metrics:
        raise ValueError(
            "--inspect prints prompts, and no metric has any: name one in --metrics, as records"
        )
    text, length = run.load().scored, run.eval.lengths[0]
    splits = SPLITS if run.eval.split == "all" else (run.eval.split,)
    documents = [document for split in splits for document in text.splits[split]]
    for metric in {m.prompt: m for m in metrics}.values():
        prompt = written(metric, text.tokenizer, length, 0, documents)
        print(f"{metric.name}, prompt 0 at {length} tokens:\n")
        print(text.tokenizer.decode(prompt.tokens).decode("utf-8", "replace"))
        print()
        pieces = [
            text.tokenizer.decode(prompt.tokens[i : i + 1]) for i in range(prompt.tokens.size)
        ]
        for a, b in prompt.needles:
            needle = b"".join(pieces[a:b])
            print(f"needle, tokens {a} to {b - 1} of {len(pieces)}: {needle!r}")
        answer = b"".join(pieces[i] for i in prompt.answer)
        numbers = f"{prompt.answer[0]} to {prompt.answer[-1]}"
        print(f"scored, {len(prompt.answer)} tokens from {numbers}: {answer!r}\n")
