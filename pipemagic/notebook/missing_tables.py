"""A table that is not there, while the notebook has a DataFrame of its name: the error says how to load it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipemagic.errors import PipemagicError

if TYPE_CHECKING:
    from pipemagic.notebook.arguments import Arguments

_MISSING = re.compile(r"no such table: (?:main\.)?(?P<sql>.+)|there is no table or view '(?P<command>.+?)'")
_LISTED = "%pipedb tables lists what there is"


@contextmanager
def offering_frames(variables: Mapping[str, Any], args: Arguments) -> Iterator[None]:
    """Add the line that loads the frame to an error about a missing table that is raised inside."""
    try:
        yield
    except PipemagicError as error:
        match = _MISSING.search(error.message.split("\n", 1)[0])
        name = (match["sql"] or match["command"]).strip('"') if match else ""
        frame = _frame_of(name, variables)
        if frame is not None:
            from pipemagic.session.profiles import word

            on = args.get("--on")
            line = f"%pipedb load {frame} --table {name}{f' --on {word(on)}' if on else ''}"
            rest = "" if error.hint == _LISTED else error.hint
            hint = "\n".join(filter(None, [f"{frame} is a DataFrame of the notebook; load it:\n{line}", rest]))
            raise error.replace(hint=hint) from None
        raise


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
