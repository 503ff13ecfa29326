"""SQL functions: SQLite's own ones with bounded running time, and those of an extension that apsw brings.

SQLite cannot stop a statement inside a function. ``instr``, ``replace``, ``unhex`` and the ``trim`` family with two
arguments compare each position of one argument with all of the other, which takes hours for some megabytes. The
functions here return what SQLite's return, but take and return only valid UTF-8 as text. The extension has
``regexp`` (``x REGEXP y``) and ``regexpi``.

Source: https://sqlite.org/src/file/src/func.c, https://sqlite.org/src/file/ext/misc/regexp.c
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache

import apsw

from pipemagic.hrana.values import SqlValue

_MOST_STEPS = 500_000_000
"""The product of the arguments' sizes up to which SQLite's own function runs: about half a second."""
_FEW_CHARACTERS = 32
"""Characters that ``str.strip`` tries at each end as quickly as SQLite."""


def install(connection: apsw.Connection) -> None:
    """Register the functions of the extension; call it before the connection has an authorizer."""
    path = _regexp()
    if path is None:
        return
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    try:
        connection.load_extension(path)
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)


@cache
def _regexp() -> str | None:
    try:
        from apsw import sqlite_extra
    except ImportError:  # apsw before 3.52, or a build without the extensions
        return None
    return str(sqlite_extra.path("regexp")) if sqlite_extra.has("regexp") == "extension" else None


def bound(connection: apsw.Connection, largest: int, stopped: Callable[[], bool]) -> None:
    """Replace SQLite's functions whose running time grows with the product of their arguments' sizes.

    ``largest`` is the limit of a value in bytes. Once ``stopped`` returns True the functions raise
    `apsw.InterruptError`: between two functions of a row SQLite does not check whether it was interrupted.
    """

    def checked(function: Callable[..., SqlValue], name: str) -> Callable[..., SqlValue]:
        def call(*arguments: SqlValue) -> SqlValue:
            if stopped():
                raise apsw.InterruptError("interrupted")
            return function(*arguments)

        call.__name__ = name
        return call

    functions: dict[str, tuple[int, Callable[..., SqlValue]]] = {
        "instr": (2, _instr),
        "replace": (3, _replace(largest)),
        "unhex": (2, _unhex),
        "trim": (2, _trim("trim", str.strip)),
        "ltrim": (2, _trim("ltrim", str.lstrip)),
        "rtrim": (2, _trim("rtrim", str.rstrip)),
    }
    flags = int(apsw.SQLITE_INNOCUOUS)  # like SQLite's own: views, indexes and CHECK constraints may use them
    for name, (count, function) in functions.items():
        connection.create_scalar_function(name, checked(function, name), count, deterministic=True, flags=flags)


def _instr(text: SqlValue, wanted: SqlValue) -> SqlValue:
    if isinstance(text, str) and isinstance(wanted, str):
        return text.find(wanted) + 1
    if isinstance(text, bytes) and isinstance(wanted, bytes):
        return text.find(wanted) + 1
    return _native("instr", text, wanted)


def _replace(largest: int) -> Callable[..., SqlValue]:
    def replace(text: SqlValue, old: SqlValue, new: SqlValue) -> SqlValue:
        if not (isinstance(text, str) and isinstance(old, str) and isinstance(new, str)):
            return _native("replace", text, old, new)
        if not old or old[0] == "\0":
            return text
        if len(new) > len(old) and len(text) + text.count(old) * (len(new) - len(old)) > largest:
            raise _too_big("string or blob too big")  # before the memory is allocated
        return text.replace(old, new)

    return replace


def _trim(name: str, strip: Callable[[str, str], str]) -> Callable[..., SqlValue]:
    def trim(text: SqlValue, characters: SqlValue) -> SqlValue:
        if isinstance(text, str) and isinstance(characters, str) and len(characters) <= _FEW_CHARACTERS:
            return strip(text, characters.partition("\0")[0])
        return _native(name, text, characters)

    return trim


def _unhex(text: SqlValue, ignored: SqlValue) -> SqlValue:
    return _native("unhex", text, ignored)


class _Native(threading.local):
    """A connection with SQLite's own functions, one for each thread."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")

    def __call__(self, name: str, *arguments: SqlValue) -> SqlValue:
        """Return the result of SQLite's function; raise `apsw.TooBigError` if it might take long."""
        if None in arguments and name != "replace":  # with an empty second argument, its third may be NULL
            return None
        if _size(arguments[0]) * _size(arguments[1]) > _MOST_STEPS:
            raise _too_big(
                f"the arguments of {name}() are too large: the product of their sizes in bytes is limited to "
                f"{_MOST_STEPS:,}"
            )
        marks = ", ".join("?" * len(arguments))
        return self.connection.execute(f"SELECT {name}({marks})", arguments).get  # type: ignore[no-any-return]


_native = _Native()


def _too_big(message: str) -> apsw.TooBigError:
    error = apsw.TooBigError(message)
    error.result = error.extendedresult = apsw.SQLITE_TOOBIG  # type: ignore[attr-defined]
    return error


def _size(value: SqlValue) -> int:
    """Return an upper bound of the bytes of a value as text."""
    match value:
        case str():
            return len(value) if value.isascii() else 4 * len(value)
        case bytes():
            return len(value)
    return 32  # a number
