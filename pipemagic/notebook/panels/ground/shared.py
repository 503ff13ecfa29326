"""Models of which a session has one for all of its panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import ReferenceType, WeakKeyDictionary, ref

if TYPE_CHECKING:
    from pipemagic.session import Session

M = TypeVar("M")


class OneForASession(Generic[M]):
    """Gives the model of a session, made when it is first wanted; it lives for as long as one of its panels does."""

    def __init__(self, make: Callable[[Session], M]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[Session, ReferenceType[M]] = WeakKeyDictionary()

    def __call__(self, session: Session) -> M:
        """Give the model of a session."""
        known = self._made.get(session)
        model = None if known is None else known()
        if model is None:
            model = self._make(session)
            self._made[session] = ref(model)  # a strong one would hold the session, which the model has
        return model
