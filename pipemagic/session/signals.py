"""Signals: what one part of a notebook changed, for the parts that display it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

Subject = Literal["organization", "connections"]
"""What changed: the current organization, its groups, databases or settings; or the connections of the session."""

T = TypeVar("T")


class Signal(Generic[T]):
    """Calls its receivers in the thread that sends. It does not keep the object of a receiver alive."""

    def __init__(self) -> None:
        self.receivers: list[weakref.WeakMethod[Callable[[T], None]]] = []

    def connect(self, receiver: Callable[[T], None]) -> None:
        """Call a method for everything sent from now on, while its object lives; it must not wait or raise."""
        self.receivers.append(weakref.WeakMethod(receiver, self.receivers.remove))

    def send(self, what: T) -> None:
        """Call all receivers."""
        for reference in tuple(self.receivers):
            if (receiver := reference()) is not None:
                receiver(what)
