"""Makes the store of a large text before runs read it: its bytes, and its tokens.

pe-jax prepare --source=files:PATH [--tokenizer=bpe:32768] [--data_dir=DIR] [--store=DIR]
"""

from __future__ import annotations

from pe_jax.commands import cli

OPTIONS = cli.Options()
_SOURCE = OPTIONS.string("source", None, "The text, as data.source names it.", required=True)
_TOKENIZER = OPTIONS.string("tokenizer", "bytes", "Its tokens, as data.tokenizer names them.")
_DATA_DIR = OPTIONS.string("data_dir", "", "As data.data_dir.")
_STORE = OPTIONS.string("store", "", "As data.store.")


def main() -> int:
    from pe_jax.data.load import load
    from pe_jax.data.tokenizer import tokenize
    from pe_jax.runs.progress import Display

    with Display():
        corpus = load(_SOURCE.value, _DATA_DIR.value, _STORE.value)
        about = tokenize(corpus, _TOKENIZER.value, corpus).about
    sizes = ", ".join(
        f"{split} {about.documents[split]:,} documents of {size:,} bytes"
        for split, size in about.bytes.items()
    )
    print(f"{corpus.folder or 'small text, which runs read anew'}: {sizes}")
    return 0
