"""How long all answers together are waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipemagic.errors import AnswerTimeout


class Deadline:
    """A limit that is set for a block; without one every answer has the time of its own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._limit: float | None = None
        self._until: float | None = None

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Set the limit for a block; None sets none."""
        self._limit, self._until = seconds, None if seconds is None else self._clock() + seconds
        try:
            yield
        finally:
            self._limit = self._until = None

    def left(self, timeout: float | None, usual: float | None) -> float | None:
        """Give how long to wait for an answer now; ``timeout`` if no limit is set, else also the ``usual`` counts."""
        if self._until is None:
            return timeout
        left = max(self._until - self._clock(), 0.001)
        return min(one for one in (left, timeout, usual) if one is not None)

    def check(self) -> None:
        """Raise AnswerTimeout if the time is over."""
        if self._until is not None and self._clock() > self._until:
            raise AnswerTimeout(f"stopped waiting after {self._limit:g} s, while rows came")

    def name(self, error: BaseException) -> None:
        """Say that it was the limit that ended the waiting, if it was."""
        if isinstance(error, AnswerTimeout) and self._until is not None and self._clock() > self._until - 0.05:
            error.message = f"stopped waiting after {self._limit:g} s"
            error.hint = "what was sent may have run, wholly or in part: look before you run it again"
