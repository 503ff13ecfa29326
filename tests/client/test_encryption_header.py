"""The property that SQL over HTTP demands of clients (section 3.1): the key in every request, or in none.

The published drivers are tested in the same way: random keys, and a server that records headers.
"""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_server import Answer, ScriptedServer, good

from pipemagic.client.database import Database
from pipemagic.hrana.messages import Execute, Stmt

HEADER = "x-turso-encryption-key"
ALPHABET = string.ascii_letters + string.digits + "+/-_"
KEYS = st.builds(str.__add__, st.text(ALPHABET, min_size=1, max_size=64), st.sampled_from(["", "=", "=="]))
LINES = [
    {"baton": None, "base_url": None}, {"type": "step_begin", "step": 0, "cols": [{"name": "a", "decltype": None}]},
    {"type": "step_end", "affected_row_count": 0, "last_insert_rowid": None},
]  # fmt: skip


def execute(database):
    database.execute("SELECT ?", [1])


def batch(database):
    database.batch(["SELECT 1", "SELECT 2"])


def stream(database):
    with database.open_stream() as opened:
        for _ in range(2):
            opened.send([Execute(Stmt("SELECT 1"))])


def cursor(database):
    with database.cursor("SELECT 1") as rows:
        assert list(rows) == []


def sibling(database):
    with database.sibling() as other:
        other.execute("SELECT 1")


OPERATIONS = st.lists(st.sampled_from([execute, batch, stream, cursor, sibling]), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def server():
    def answer(call):
        lines = "".join(f"{json.dumps(line)}\n" for line in LINES)
        return Answer(body=lines.encode()) if call.path.endswith("/cursor") else good(call)

    made = ScriptedServer(answer)
    yield made
    made.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.none() | KEYS, operations=OPERATIONS)
def test_the_key_is_in_every_request_or_in_none(server, key, operations):
    server.calls.clear()
    with Database(server.url, "token", encryption_key=key) as database:
        for operation in operations:
            operation(database)
    assert len(server.calls) >= len(operations)
    assert {call.headers.get(HEADER) for call in server.calls} == {key}
