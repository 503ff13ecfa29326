"""Keep garbage collection fast by ignoring the objects of earlier tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def small_heap() -> Iterator[None]:
    """Let the collector examine new objects only; after many tests, examining all takes most of a second."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
