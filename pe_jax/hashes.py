"""Hashes that identify configs, texts and files."""

from __future__ import annotations

import hashlib


def sha256(text: str) -> str:
    """The SHA-256 of a text's UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
