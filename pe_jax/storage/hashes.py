"""The hash by which records identify configs, tokenizers and parameters, and the text of a value
that is hashed.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def sha256(text: str) -> str:
    """The SHA-256 of the UTF-8 bytes of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces, tuples as lists: equal values give equal text.
    ValueError for NaN and infinities, which JSON does not have.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
