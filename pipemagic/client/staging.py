"""The tables in which rows wait until all are there: their names, and those that were left behind.

A name holds the time of its making. Who loads next removes what this program could not remove itself, and what is
older than any load: one that is still under way must not lose its rows.
"""

from __future__ import annotations

import re
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pipemagic.errors import PipemagicError, ServerError, StatementError
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database

PREFIX = "_pipemagic_load_"
"""What the names of staging tables begin with; no list of tables shows them."""

OLD = 6 * 3600
"""Seconds after which a staging table counts as left behind, whoever made it."""

_NAME = re.compile(PREFIX + r"([0-9a-f]{8})_([0-9a-f]{8})\Z")

_left: set[str] = set()
"""Those that this program made and could not remove."""


def new_name() -> str:
    """Give the name of a new staging table."""
    return f"{PREFIX}{int(time.time()):08x}_{secrets.token_hex(4)}"


def leftovers(database: Database, *, older_than: float = OLD) -> list[str]:
    """Find the staging tables that nobody fills any more: this program's own, and those older than some seconds."""
    names = database.execute(
        f"SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '{PREFIX}*' ORDER BY name"
    ).rows
    return [str(name) for (name,) in names if name in _left or _age(str(name)) > older_than]


def remove_leftovers(database: Database) -> list[str]:
    """Drop the staging tables that were left behind; gives their names. One that cannot be dropped stays."""
    gone = []
    for name in leftovers(database):
        with suppress(StatementError, ServerError):
            database.execute(f"DROP TABLE IF EXISTS {quote(name)}")
            _left.discard(name)
            gone.append(name)
    return gone


def drop(database: Database, name: str) -> bool:
    """Drop a staging table of this program; one that cannot be dropped now is remembered (False)."""
    try:
        database.execute(f"DROP TABLE IF EXISTS {quote(name)}")
    except (PipemagicError, KeyboardInterrupt):  # what the caller has to tell is the error that led here
        _left.add(name)
        return False
    return True


def _age(name: str) -> float:
    """Seconds since a staging table was made; 0.0 if its name does not say."""
    match = _NAME.match(name)
    return 0.0 if match is None else time.time() - int(match[1], 16)
