"""Signals about changes, for the parts of a notebook that display the data."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from pipemagic.errors import PipemagicError
    from pipemagic.session.connection import Connection

Subject = Literal["organization", "connections"]
"""The changed subject: the current organization, its groups, databases or settings; or the session's connections."""

T = TypeVar("T")


@dataclass(frozen=True)
class CellEvent:
    """A cell of %%sql that ran or failed on a connection; ``error`` is None if it ran."""

    connection: Connection
    error: PipemagicError | None = None


class Signal(Generic[T]):
    """Calls its receivers in the sending thread. It does not keep the objects of methods alive.

    ``report`` is called with a line about a receiver that raised an error; without it the error is raised.
    """

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        self.receivers: list[Callable[[], Callable[[T], object] | None]] = []
        self._report = report

    def connect(self, receiver: Callable[[T], object]) -> None:
        """Call a function for each later event, a method while its object exists; it must not wait."""
        if isinstance(receiver, MethodType):
            self.receivers.append(weakref.WeakMethod(receiver, self.receivers.remove))
        else:
            self.receivers.append(lambda: receiver)

    def send(self, what: T) -> None:
        """Call all receivers."""
        for reference in tuple(self.receivers):
            if (receiver := reference()) is not None:
                self._call(receiver, what)

    def _call(self, receiver: Callable[[T], object], what: T) -> None:
        try:
            receiver(what)
        except Exception as error:
            if self._report is None:
                raise
            name = f"{receiver.__module__}.{getattr(receiver, '__qualname__', receiver)}"
            self._report(f"{name} failed: {type(error).__name__}: {error}")
