"""Keep garbage collection fast by ignoring the objects of earlier tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def small_heap() -> Iterator[None]:
    """Let the collector look at new objects only; after many tests, looking at all takes most of a second."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
