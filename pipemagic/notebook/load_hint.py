"""A hint for errors about a missing table whose name is that of a frame in the notebook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipemagic.errors import PipemagicError

_MISSING = re.compile(r"no such table: (?:main\.)?(?P<sql>.+)|no table or view '(?P<command>.+?)'")
_LIST_TABLES = "%pipedb tables"


def add_load_hint(error: PipemagicError, variables: Mapping[str, Any], on: str | None) -> PipemagicError:
    """Return the error; if a frame has the name of the missing table, with the line that loads it.

    ``on`` is the connection that was named, None for the current one.
    """
    match = _MISSING.search(error.message.split("\n", 1)[0])
    name = (match["sql"] or match["command"]).strip('"') if match else ""
    frame = _find_frame(name, variables)
    if frame is None:
        return error
    from pipemagic.frames.any_frame import kind_of
    from pipemagic.session.profiles import word

    line = f"%pipedb load {frame} --table {name}{f' --on {word(on)}' if on else ''}"
    rest = "" if error.hint.startswith(_LIST_TABLES) else error.hint
    hint = "\n".join(filter(None, [f"{frame} is {kind_of(variables[frame])} of the notebook; load it:\n{line}", rest]))
    return error.replace(hint=hint)


def _find_frame(name: str, variables: Mapping[str, Any]) -> str | None:
    """Return the variable of that name, ignoring case, if it holds a frame."""
    if not name.isidentifier():
        return None
    from pipemagic.frames.any_frame import is_frame

    names = [name] if name in variables else [variable for variable in variables if variable.lower() == name.lower()]
    return next((variable for variable in names if is_frame(variables[variable])), None)
