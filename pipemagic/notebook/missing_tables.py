"""Errors about a missing table, if the notebook has a DataFrame of its name: they say how to load it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipemagic.errors import PipemagicError

if TYPE_CHECKING:
    from pipemagic.notebook.arguments import Arguments

_MISSING = re.compile(r"no such table: (?:main\.)?(?P<sql>.+)|there is no table or view '(?P<command>.+?)'")
_LISTED = "%pipedb tables lists what there is"


def with_frame(error: PipemagicError, variables: Mapping[str, Any], args: Arguments) -> PipemagicError:
    """Return an error with the line that loads the frame, if it is about a missing table of that name."""
    match = _MISSING.search(error.message.split("\n", 1)[0])
    name = (match["sql"] or match["command"]).strip('"') if match else ""
    frame = _frame_of(name, variables)
    if frame is None:
        return error
    from pipemagic.session.profiles import word

    on = args.get("--on")
    line = f"%pipedb load {frame} --table {name}{f' --on {word(on)}' if on else ''}"
    rest = "" if error.hint == _LISTED else error.hint
    hint = "\n".join(filter(None, [f"{frame} is a DataFrame of the notebook; load it:\n{line}", rest]))
    return error.replace(hint=hint)


def _frame_of(name: str, variables: Mapping[str, Any]) -> str | None:
    """Return the variable with that name, capitals or not, if it holds a DataFrame."""
    if not name.isidentifier():
        return None
    found = [name] if name in variables else [one for one in variables if one.lower() == name.lower()]
    return next((one for one in found if _is_frame(variables[one])), None)


def _is_frame(value: object) -> bool:
    """Return True for what %pipedb load takes."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"
