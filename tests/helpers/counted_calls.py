"""Count the functions of the package that are called."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pipemagic

Calls = Counter[tuple[str, str]]
"""The number of calls by module, a path below the package, and function."""

HOME = f"{Path(pipemagic.__file__).parent.as_posix()}/"


@contextmanager
def counted_calls(*, here: bool) -> Iterator[Calls]:
    """Count the calls in threads that begin inside the block and, if ``here``, in this thread."""
    calls: Calls = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        file = code.co_filename.replace("\\", "/")
        if event == "call" and file.startswith(HOME) and not code.co_name.startswith("<"):
            calls[file.removeprefix(HOME), code.co_qualname] += 1

    threading.setprofile(profile)
    if here:
        sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
