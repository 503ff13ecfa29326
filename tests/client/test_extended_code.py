"""`extended_code` of an error: kept from every kind of response to the error that is raised."""

from __future__ import annotations

import json

import pytest
from scripted_server import Answer, Call, as_json, entry

from pipemagic.client.database import Database
from pipemagic.errors import StatementError
from pipemagic.hrana import messages
from pipemagic.session import Connection, Session

UNIQUE = {
    "message": "SQLite error: UNIQUE constraint failed: t.a",
    "code": "SQLITE_CONSTRAINT",
    "extended_code": "SQLITE_CONSTRAINT_UNIQUE",
}
INSERT = "INSERT INTO t VALUES (1)"


def refused(call: Call) -> Answer:
    """Respond like a server with extended codes, whose table t refuses every INSERT."""
    if call.path == "/v3/cursor":
        lines = [{"baton": None, "base_url": None}, {"type": "step_error", "step": 0, "error": UNIQUE}]
        return Answer(body=b"".join(json.dumps(line).encode() + b"\n" for line in lines), content_type="text/plain")
    results = []
    for request in call.json["requests"]:
        result = entry(request)
        if request["type"] == "execute" and "INSERT" in request["stmt"]["sql"]:
            result = {"type": "error", "error": UNIQUE}
        if request["type"] == "batch":
            steps = [step["stmt"]["sql"] for step in request["batch"]["steps"]]
            failed = next(number for number, sql in enumerate(steps) if "INSERT" in sql)
            batch = result["response"]["result"]
            batch["step_results"][failed:] = [None] * (len(steps) - failed)
            batch["step_errors"][failed] = UNIQUE
        if request["type"] == "describe":
            found = {"params": [], "cols": [], "is_explain": False, "is_readonly": False}
            result["response"]["result"] = found
        results.append(result)
    ended = "close" in call.kinds
    return as_json({"baton": None if ended else "b", "base_url": None, "results": results})


@pytest.fixture
def refusing(scripted):
    with Database(scripted(refused).url, "a-secret-token") as database:
        yield database


WAYS = {
    "a statement": lambda database: database.execute(INSERT),
    "a batch": lambda database: database.batch(["SELECT 1", INSERT], atomic=False),
    "a transaction": lambda database: database.batch(["SELECT 1", INSERT]),
    "a cursor": lambda database: list(database.cursor(INSERT).__enter__()),
    "a cell": lambda database: session_on(database).run(INSERT),
    "the second statement of a cell": lambda database: session_on(database).run(f"SELECT 1; {INSERT}"),
    "a request outside of a cell": lambda database: (
        session_on(database).connection().once(lambda other: other.execute(INSERT))
    ),
}


def session_on(database: Database) -> Session:
    session = Session(environ={})
    session.adopt(Connection("main", database, "a test"))
    return session


@pytest.mark.parametrize("way", WAYS)
def test_the_extended_code_is_kept(refusing, way):
    with pytest.raises(StatementError) as caught:
        WAYS[way](refusing)
    assert (caught.value.code, caught.value.extended_code) == ("SQLITE_CONSTRAINT", "SQLITE_CONSTRAINT_UNIQUE")


@pytest.mark.parametrize("error", [{"message": "m", "code": "C"}, {"message": "m", "code": "C", "extended_code": None}])
def test_an_error_without_one_has_an_empty_extended_code(error):
    body = json.dumps({"baton": None, "results": [{"type": "error", "error": error}]}).encode()
    (received,) = messages.decode_response(body).results
    assert received == messages.ErrorEntry(messages.Error("m", "C"))
    assert messages.encode(received.error) == b'{"message":"m","code":"C"}'
