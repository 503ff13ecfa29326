"""Statements that write although SQLite reports them as read-only."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from pipemagic.service.limits import Limits
from pipemagic.service.sqlite.connection import Connection, NeedsWriteLock
from pipemagic.service.sqlite.statement import parse


class File(NamedTuple):
    """An empty database file."""

    path: Path
    limits: Limits = Limits()
    schema_changes: int = 0


@pytest.mark.parametrize(
    "sql", ["PRAGMA optimize", "PRAGMA /* all */ main . optimize", "pragma -- all\n incremental_vacuum(1)"]
)
def test_a_pragma_that_writes_needs_the_write_lock(tmp_path, sql):
    connection = Connection(File(tmp_path / "db"), writable=True)
    with pytest.raises(NeedsWriteLock):
        connection.run(parse(sql), (), may_write=False)
    connection.finish()
    connection.close()
