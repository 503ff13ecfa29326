"""Collections of garbage that take no time: what other tests have left on the heap is not looked at."""

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
