"""Loggers of libraries that are quiet for a while."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def quiet(name: str, level: int) -> Iterator[None]:
    """While the block runs, the logger of that name logs nothing below `level`."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
