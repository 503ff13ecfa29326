"""Word of changes: what one part of a notebook did, for those who show it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

Subject = Literal["organization", "connections"]
"""What changed: groups, databases and settings of the organization (or which one it is), or what is connected."""

T = TypeVar("T")


class Changes(Generic[T]):
    """Tells listeners what changed, in the thread that changed it. A listener's object is not kept alive by it."""

    def __init__(self) -> None:
        self._listeners: list[weakref.WeakMethod[Callable[[T], None]]] = []
        self._lock = threading.Lock()

    def listen(self, listener: Callable[[T], None]) -> None:
        """Tell a method of every change from now on, for as long as its object lives; it must not wait or raise."""
        with self._lock:
            self._listeners.append(weakref.WeakMethod(listener))

    @property
    def anybody(self) -> bool:
        """Whether somebody may listen; if not, nobody needs to find out what changed."""
        return bool(self._listeners)

    def tell(self, what: T) -> None:
        """Tell all listeners."""
        with self._lock:
            self._listeners = [one for one in self._listeners if one() is not None]
            listening = list(self._listeners)
        for one in listening:
            if (listener := one()) is not None:
                listener(what)
