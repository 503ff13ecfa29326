"""Statements that a read-only connection sends, compared with the servers' own description of each statement."""

from __future__ import annotations

import pytest
from read_only_statements import READS, WRITES

from pipemagic.client.database import Database
from pipemagic.client.readonly import find_write
from pipemagic.errors import ReadOnlyError
from pipemagic.hrana.messages import Batch, Execute, RunBatch, Sequence, Step, Stmt, StoreSql


@pytest.mark.parametrize("text", READS)
def test_statements_that_read_are_sent(text):
    assert find_write(text) is None


@pytest.mark.parametrize(("text", "what"), WRITES.items())
def test_statements_that_may_write_are_found(text, what):
    assert find_write(text).what.startswith(what)


def test_statements_that_may_write_are_named_as_such():
    assert find_write("DELETE FROM t").what == "DELETE writes"
    assert find_write("PRAGMA foreign_keys").what == "PRAGMA foreign_keys may write"


def test_every_kind_of_request_is_looked_at():
    database = Database("http://127.0.0.1:9", "token", read_only=True)
    delete = Stmt("DELETE FROM t")
    for request in (
        Execute(delete), RunBatch(Batch([Step(Stmt("SELECT 1")), Step(delete)])), Sequence("SELECT 1; DELETE FROM t"),
        StoreSql(1, "DELETE FROM t"),
    ):  # fmt: skip
        with pytest.raises(ReadOnlyError, match=r"DELETE writes, and this connection is read-only; nothing was sent"):
            _stream(database).send([request])
    with pytest.raises(ReadOnlyError):
        _stream(database).stream(delete)


def _stream(database):
    from pipemagic.client.stream import ClientStream

    return ClientStream(database.transport, read_only=database.read_only)
