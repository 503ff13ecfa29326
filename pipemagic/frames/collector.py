"""Keep the cyclic garbage collector out of the way while many objects are made at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_WORTH_IT = 100_000


@contextmanager
def collector_paused(size: int = _WORTH_IT) -> Iterator[None]:
    """Pause the collector, if ``size`` (bytes or cells) makes it worth it.

    It would walk all rows made so far again and again, and find nothing: they hold no cycles.
    """
    if size < _WORTH_IT or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
