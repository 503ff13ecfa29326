"""Statements that write although SQLite reports them as read-only."""

from __future__ import annotations

import pytest
from service_calls import File

from pipemagic.service.sqlite.connection import Connection, NeedsWriteLock
from pipemagic.service.sqlite.statement import parse


@pytest.mark.parametrize(
    "sql", ["PRAGMA optimize", "PRAGMA /* all */ main . optimize", "pragma -- all\n incremental_vacuum(1)"]
)
def test_a_pragma_that_writes_needs_the_write_lock(tmp_path, sql):
    connection = Connection(File(tmp_path / "db"), writable=True)
    with pytest.raises(NeedsWriteLock):
        connection.run(parse(sql), (), may_write=False)
    connection.finish()
    connection.close()
