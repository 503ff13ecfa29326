"""A limit on the time of several requests together."""

from __future__ import annotations

from collections.abc import Callable

from pipemagic.errors import AnswerTimeout


class Deadline:
    """The end of the time that the requests of one cell have, in ``seconds`` from now."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self._end = clock() + seconds

    def left(self, *timeouts: float | None) -> float:
        """Return how many seconds to wait for a response now: the time that is left, or a shorter timeout."""
        left = max(self._end - self._clock(), 0.001)
        return min(one for one in (left, *timeouts) if one is not None)

    def check(self) -> None:
        """Raise AnswerTimeout if the time is over."""
        if self._clock() > self._end:
            raise AnswerTimeout(f"stopped waiting after {self._seconds:g} s, while rows came")

    def explain(self, error: BaseException) -> BaseException:
        """Return the error of a request; it names the limit if that ended the wait."""
        if isinstance(error, AnswerTimeout) and self._clock() > self._end - 0.05:
            hint = "what was sent may have run, wholly or in part: look before you run it again"
            return error.replace(message=f"stopped waiting after {self._seconds:g} s", hint=hint)
        return error
