"""Signals about changes, for the parts of a notebook that display the data."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

Subject = Literal["organization", "connections"]
"""The changed subject: the current organization, its groups, databases or settings; or the session's connections."""

T = TypeVar("T")


class Signal(Generic[T]):
    """Calls its receivers in the sending thread. It does not keep the objects of its receivers alive."""

    def __init__(self) -> None:
        self.receivers: list[weakref.WeakMethod[Callable[[T], None]]] = []

    def connect(self, receiver: Callable[[T], None]) -> None:
        """Call a method for each later event, while its object exists; it must not wait or raise."""
        self.receivers.append(weakref.WeakMethod(receiver, self.receivers.remove))

    def send(self, what: T) -> None:
        """Call all receivers."""
        for reference in tuple(self.receivers):
            if (receiver := reference()) is not None:
                receiver(what)
