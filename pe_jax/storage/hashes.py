"""The hash by which records identify configs, tokenizers and parameters."""

from __future__ import annotations

import hashlib


def sha256(text: str) -> str:
    """The SHA-256 of the UTF-8 bytes of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
