"""SQL functions from SQLite's own extensions, where apsw brings them: ``regexp`` (``x REGEXP y``) and ``regexpi``.

Source: https://sqlite.org/src/file/ext/misc/regexp.c
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import apsw

_EXTENSIONS = ("regexp",)


def install(connection: apsw.Connection) -> None:
    """Register the functions on a connection; call it before the connection has an authorizer."""
    paths = _paths()
    if not paths:
        return
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    try:
        for path in paths:
            connection.load_extension(str(path))
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)


@cache
def _paths() -> tuple[Path, ...]:
    try:
        from apsw import sqlite_extra
    except ImportError:  # apsw before 3.52, or a build without the extensions
        return ()
    return tuple(sqlite_extra.path(name) for name in _EXTENSIONS if sqlite_extra.has(name) == "extension")
