"""Paths of files, in the places where an address or the name of a database is expected.

Programs that open SQLite files take a path (``shop.db``, ``file:shop.db``, ``sqlite:///shop.db``), or ``:memory:``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote

from pipemagic.client import names
from pipemagic.config import open_without_waiting

SQLITE_START = b"SQLite format 3\0"
"""The first bytes of a SQLite file."""

SQL_TEXT = ".sql"
"""The suffix of an SQL dump."""

TABLES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx")
"""The suffixes of files with the rows of a table."""

_DATABASES = (".db", ".db3", ".sqlite", ".sqlite3", ".s3db", ".sl3", ".gpkg", ".duckdb", ".mdb", ".accdb")

_SQLITE = re.compile(r"(?:jdbc:)?sqlite3?:(?!//)", re.IGNORECASE)
_FILE = re.compile(r"(?:jdbc:(?:sqlite|duckdb):)?file:(?://(?:localhost)?(?=/))?", re.IGNORECASE)
_PATH = re.compile(r"\.{0,2}[/\\]|~|[A-Za-z]:[/\\]|\\\\")


def is_in_memory(text: str) -> bool:
    """Return True if text names a database in memory."""
    return (_without_prefix(text) or "").partition("?")[0] == ":memory:"


def path_in(text: str) -> str:
    """Return the path in text, without ``file:`` and a query; '' for an address, and for what may be another name."""
    path = _without_prefix(text)
    if path is None or is_in_memory(text) or (path == text and "://" in text):
        return ""
    if path != text or _PATH.match(path) or Path(path).suffix.lower() in (*_DATABASES, *TABLES, SQL_TEXT):
        return path
    return path if names.problem("database", path) and exists(path) else ""  # else it may be the name of a database


def _without_prefix(text: str) -> str | None:
    if match := _FILE.match(text):
        path = unquote(text[match.end() :].partition("?")[0])
        return re.sub(r"\A/(?=[A-Za-z]:/)", "", path) or None
    if match := _SQLITE.match(text):
        return text[match.end() :].partition("?")[0] or ":memory:"
    return text


def exists(path: str) -> bool:
    """Return True if there is such a file; ``~`` is the home folder."""
    try:
        return Path(os.path.expanduser(path)).is_file()
    except (OSError, ValueError):  # too long, or not a path
        return False


def start_of(path: str) -> bytes:
    """Return the first bytes of a file; none if it cannot be read."""
    try:
        with open_without_waiting(Path(os.path.expanduser(path))) as file:
            return file.read(len(SQLITE_START))
    except (OSError, ValueError):
        return b""


def stem(path: str) -> str:
    """Return the name of a file without its suffixes, with the path separators of any system."""
    return Path(path.replace("\\", "/")).stem


def database_name(path: str, existing_names: Collection[str] = ()) -> str:
    """Return a valid name for a new database, as close to its file's name as possible."""
    plain = re.sub(r"[^a-z0-9-]+", "-", stem(path).lower()).strip("-")[:30].strip("-")
    plain = "copy" if names.problem("database", plain) else plain
    number, name = 1, plain
    while name in existing_names:
        number += 1
        name = f"{plain}-{number}"
    return name
