"""Where parameters and names find their values, and what of these is a list."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pipemagic.errors import ParameterError

Values = Mapping[str, object]


@dataclass(frozen=True)
class Wish:
    """A value that is asked for: ``name`` by its name, ``shown`` as it was written, ``where`` that was."""

    name: str
    shown: str
    where: str

    def refusal(self, what: str, hint: str) -> ParameterError:
        """Give the error that says what is wrong with it."""
        return ParameterError(": ".join(filter(None, [self.where, f"{self.shown} {what}"])), hint=hint)


def look_up(wish: Wish, values: Values | None) -> Any:
    """Give the value; ParameterError with the names that are close if there is none."""
    if values is None:
        raise wish.refusal("has no value", "pass params={...}")
    if wish.name in values:
        return values[wish.name]
    known = [key for key in values if isinstance(key, str) and not key.startswith("_")]
    near = difflib.get_close_matches(wish.name, known, n=3)
    assign = f"assign it first: {wish.name} = ..., or add the key to --params"
    if not wish.name.isidentifier():
        assign = "no variable can have that name: add the key to --params"
    spelled = [wish.shown.replace(wish.name, name) for name in near]
    hint = f"did you mean {' or '.join(spelled)}?" if near else assign
    raise wish.refusal(f"has no value: no variable or key {wish.name!r}", hint)


def listed(value: Any) -> list[Any] | None:
    """Give the elements of a list, tuple, set, range, array, Series, Index or the like; None for anything else."""
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        return None
    dimensions = getattr(value, "ndim", 1)
    if dimensions != 1:  # a frame or matrix is no list of values, and a numpy scalar is one value
        return None
    if isinstance(value, Collection):
        return list(value)  # not tolist(): numpy makes integers of dates there
    return list(value.to_pylist()) if hasattr(value, "to_pylist") else None
