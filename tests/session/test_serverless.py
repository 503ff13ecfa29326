"""A server that holds no stream between cells unless it must, and answers 404 to a baton that it does not know."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from scripted_server import Answer, Call, ScriptedServer, as_json
from service_calls import caller_of

from pipemagic.client.database import Database
from pipemagic.errors import TransactionLost
from pipemagic.session import Connection, Session

HOLDS = re.compile(r"(?i)^\s*(PRAGMA\s+\w+\s*=|CREATE\s+TEMP)")


class ServerlessServer(ScriptedServer):
    """Serves one database by the serverless protocol of 2026: ``http`` sends requests to the real service at ``url``.

    It keeps a stream, and returns a baton, only if necessary: for an open transaction, a setting, a temporary table;
    with ``holds_all`` for every request. ``ends_next`` ends a stream with the next response in any case.
    A baton that is unknown, or was idle for longer than ``idle_limit`` seconds by the ``clock``, is answered with 404.
    `restart` forgets all batons.
    """

    def __init__(self, http: httpx.Client, url: str, clock: Callable[[], float], idle_limit: float = 10.0) -> None:
        self._client, self._upstream, self._clock, self.idle_limit = http, url, clock, idle_limit
        self.holds_all = self.ends_next = False
        self._held: dict[str, tuple[str, float, bool]] = {}
        self._numbers = itertools.count(1)
        super().__init__(self._respond)
        self.pages |= {path: Answer(body=http.get(url + path).content) for path in ("/version", "/health")}

    def restart(self) -> None:
        for baton, _, _ in self._held.values():
            self._post("/v3/pipeline", {"baton": baton, "requests": [{"type": "close"}]})
        self._held.clear()

    def _respond(self, call: Call) -> Answer:
        baton, holds = call.baton, False
        if baton is not None:
            held, used, holds = self._held.pop(baton, ("", 0.0, False))
            if not held or self._clock() - used > self.idle_limit:
                if held:
                    self._post("/v3/pipeline", {"baton": held, "requests": [{"type": "close"}]})
                return as_json({"error": "stream not found"}, 404)
            baton = held
        self._authorization = call.headers.get("authorization", "")
        answer = self._post(call.path, call.json | {"baton": baton}, {
            name: value for name, value in call.headers.items() if name.startswith("pipemagic")
        })  # fmt: skip
        if answer.status_code != 200:
            return Answer(answer.status_code, answer.content, answer.headers.get("content-type", ""))
        told = answer.json()
        holds = holds or self.holds_all or any(map(HOLDS.match, _texts(call.json)))
        return as_json(told | {"baton": self._hold(told["baton"], holds)})

    def _hold(self, baton: str | None, holds: bool) -> str | None:
        """Return a baton for a stream that must be kept; close any other."""
        if baton is None:
            return None
        asked = self._post("/v3/pipeline", {"baton": baton, "requests": [{"type": "get_autocommit"}]}).json()
        ends, self.ends_next = self.ends_next, False
        if ends or (asked["results"][0]["response"]["is_autocommit"] and not holds):
            self._post("/v3/pipeline", {"baton": asked["baton"], "requests": [{"type": "close"}]})
            return None
        given = f"baton-{next(self._numbers)}"
        self._held[given] = (asked["baton"], self._clock(), holds)
        return given

    def _post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> httpx.Response:
        headers = {"authorization": self._authorization, **(headers or {})}
        return self._client.post(self._upstream + path, json=body, headers=headers)


def _texts(body: dict[str, Any]) -> list[str]:
    """Return the SQL of all requests."""
    steps = [step for request in body["requests"] for step in request.get("batch", {}).get("steps", [request])]
    return [step["stmt"]["sql"] for step in steps if "stmt" in step]


@pytest.fixture
def serverless(service, transport, clock):
    server = ServerlessServer(httpx.Client(transport=transport), "http://127.0.0.1:8080", clock)
    yield server
    server.close()


@pytest.fixture
def numbers(service, serverless, clock):
    with Database(serverless.url, caller_of(service, "flights").token, clock=clock) as database:
        session = Session(environ={})
        session.adopt(Connection("main", database, "a test"))
        session.run("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n VALUES (1)")
        yield session


def batons(server):
    return [call.baton for call in server.posts]


def count(session):
    return int(session.run("SELECT count(*) FROM n").iloc[0, 0])


def test_each_cell_opens_a_stream_where_the_server_holds_none(numbers, serverless):
    for number in (2, 3):
        assert numbers.run_cell(f"INSERT INTO n VALUES ({number})").notes == ()
    assert count(numbers) == 3
    assert set(batons(serverless)) == {None}


def test_a_transaction_across_cells_keeps_its_stream(numbers, serverless):
    for cell in ["BEGIN", "INSERT INTO n VALUES (2)", "COMMIT", "SELECT 1"]:
        numbers.run(cell)
    assert count(numbers) == 2
    assert batons(serverless)[-5:] == [None, "baton-1", "baton-2", None, None]


def test_a_baton_that_expired_earlier_than_ours_opens_a_stream_without_a_word(numbers, serverless, clock):
    serverless.idle_limit, serverless.holds_all = 1.0, True
    numbers.run("SELECT 1")
    clock.advance(2)
    assert numbers.run_cell("INSERT INTO n VALUES (2)").notes == ()
    assert count(numbers) == 2
    assert batons(serverless)[-3:] == ["baton-1", None, "baton-2"]


def test_the_loss_of_temporary_tables_with_an_expired_baton_is_reported(numbers, serverless, clock):
    serverless.idle_limit = 1.0
    numbers.run("CREATE TEMP TABLE kept (a)")
    clock.advance(2)
    result = numbers.run_cell("INSERT INTO n VALUES (2)")
    assert result.notes == ("The connection was reopened (temporary tables are gone).",)


@pytest.mark.parametrize("happening", ["restart", "expiry"])
def test_a_transaction_whose_baton_is_not_known_any_more_is_lost(numbers, serverless, clock, happening):
    serverless.idle_limit = 1.0
    numbers.run("BEGIN")
    numbers.run("INSERT INTO n VALUES (2)")
    if happening == "restart":
        serverless.restart()
    else:
        clock.advance(2)
    with pytest.raises(TransactionLost, match="the server closed the connection") as caught:
        numbers.run("INSERT INTO n VALUES (3)")
    assert "INSERT INTO n VALUES (2)" in caught.value.message
    numbers.run("ROLLBACK")
    assert count(numbers) == 1


def test_settings_are_set_again_after_a_restart(numbers, serverless):
    numbers.run("CREATE TABLE child (i REFERENCES n); PRAGMA foreign_keys = OFF")
    serverless.restart()
    result = numbers.run_cell("INSERT INTO child VALUES (99)")
    assert result.notes == ("The connection was reopened (set again: PRAGMA foreign_keys = OFF).",)


def test_a_stream_that_ends_within_a_transaction_loses_it_also_where_a_statement_failed(numbers, serverless):
    numbers.run("BEGIN; INSERT INTO n VALUES (2)")
    serverless.ends_next = True
    with pytest.raises(TransactionLost, match=r"the server closed the connection .* no such table: nowhere") as caught:
        numbers.run("SELECT * FROM nowhere")
    assert "INSERT INTO n VALUES (2)" in caught.value.message
    with pytest.raises(TransactionLost):
        numbers.run("INSERT INTO n VALUES (3)")
    numbers.run("ROLLBACK")
    assert count(numbers) == 1
