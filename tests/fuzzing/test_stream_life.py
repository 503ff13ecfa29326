"""Random requests of every type, by both versions and by cursors, compared with a model of a stream.

Batons are kept, used twice, sent to another database and dropped, and the clock advances. Each stream has its own
database, so that no stream waits; tests/service/test_model.py covers waiting.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from asgi_calls import call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_calls import Caller, Clock, caller_of

from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT
from pipemagic.service.service import Service

STREAMS = 3
SQL = [
    "SELECT 1",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "ROLLBACK",
    "INSERT INTO t VALUES (1)",
    "SELECT nope",
    "SELEC",
    "",
]

executes = st.sampled_from(SQL).map(lambda sql: {"type": "execute", "stmt": {"sql": sql}})
by_id = st.integers(1, 3).map(lambda number: {"type": "execute", "stmt": {"sql_id": number}})
stores = st.integers(1, 3).map(lambda number: {"type": "store_sql", "sql_id": number, "sql": "SELECT 1"})
forgets = st.integers(1, 3).map(lambda number: {"type": "close_sql", "sql_id": number})
describes = st.sampled_from(SQL).map(lambda sql: {"type": "describe", "sql": sql})
sequences = st.lists(st.sampled_from(["SELECT 1", "SELECT 2"]), max_size=3).map(
    lambda texts: {"type": "sequence", "sql": "; ".join(texts)}
)
batches = st.lists(st.sampled_from(["SELECT 1", "SELECT nope"]), max_size=3).map(
    lambda texts: {"type": "batch", "batch": {"steps": [{"stmt": {"sql": text}} for text in texts]}}
)
asks, closes = st.just({"type": "get_autocommit"}), st.just({"type": "close"})
requests = st.one_of(executes, executes, by_id, stores, forgets, describes, sequences, batches, asks, closes)
posts = st.tuples(
    st.just("post"), st.integers(0, STREAMS - 1), st.lists(requests, max_size=5), st.sampled_from([2, 3, 3]),
    st.sampled_from(["newest", "newest", "newest", "newest", "stale", "of another", "cut", "none"]),
)  # fmt: skip
cursors = st.tuples(
    st.just("cursor"), st.integers(0, STREAMS - 1), st.lists(st.sampled_from(["SELECT 1", "SELECT nope"]), max_size=3)
)
waits = st.tuples(st.just("wait"), st.sampled_from([1.0, 4.9, 5.0, 9.9, 10.0]), st.booleans())
BEGIN = {"type": "execute", "stmt": {"sql": "BEGIN"}}
openings = st.tuples(st.just("post"), st.integers(0, 1), st.just([BEGIN]), st.just(3), st.just("newest"))
stories = st.lists(st.one_of(posts, posts, posts, openings, cursors, waits, waits), min_size=1, max_size=14)


@dataclass
class Life:
    """The expected state of one stream."""

    batons: list[str] = field(default_factory=list)
    answered: float = 0.0
    began: float | None = None  # when its transaction began
    unreported: bool = False  # whether its loss has not been reported yet
    stored: set[int] = field(default_factory=set)


def reports_loss(request) -> bool:
    """Return True if a request runs statements, which report the loss of a transaction."""
    match request["type"]:
        case "batch":
            return bool(request["batch"]["steps"])
        case kind:
            return kind in ("execute", "sequence")


def runs_behind_a_close(wanted) -> bool:
    types = [request["type"] for request in wanted]
    behind = types[types.index("close") :] if "close" in types else []
    return not set(behind) <= {"close", "store_sql", "close_sql"}


class Story:
    def __init__(self, service: Service, clock: Clock, callers: list[Caller]) -> None:
        self.service, self.clock, self.callers = service, clock, callers
        self.lives = [Life() for _ in callers]

    def play(self, events) -> None:
        for event in events:
            match event:
                case ("wait", seconds, sweep):
                    self.clock.advance(seconds)
                    if sweep:
                        self.service.engine.sweep()
                case ("post", number, wanted, version, which):
                    self.post(number, wanted, version, which)
                case ("cursor", number, texts):
                    self.cursor(number, texts)

    def send(self, number: int, path: str, body):
        caller = self.callers[number]
        headers = {**caller.headers, "authorization": f"Bearer {caller.token}"}
        response = call(self.service, "POST", path, headers=headers, body=json.dumps(body).encode())
        return response.status, response.read()

    def baton(self, number: int, which: str) -> str | None:
        mine, others = self.lives[number].batons, self.lives[(number + 1) % STREAMS].batons
        match which:
            case "newest" if mine:
                return mine[-1]
            case "stale" if len(mine) > 1:
                return mine[-2]
            case "of another" if others:
                return others[-1]
            case "cut" if mine:
                return mine[-1][:-1]
        return None

    def post(self, number: int, wanted, version: int, which: str) -> None:
        baton = self.baton(number, which)
        if baton is None:
            self.drop(number)
        life = self.lives[number]
        status, data = self.send(number, f"/v{version}/pipeline", {"baton": baton, "requests": wanted})
        if (late := runs_behind_a_close(wanted)) or (version == 2 and {"type": "get_autocommit"} in wanted):
            assert (status, late or b"hrana3" in data) == (400, True)
            return  # refused before it runs: the stream does not change
        if baton is not None and (which != "newest" or self.idle_for_too_long(life)):
            assert status == 400, data
            if which == "newest":
                assert json.loads(data)["code"] == "STREAM_EXPIRED"
                self.lives[number] = Life()
            return
        assert status == 200, data
        self.read(number, life, wanted, json.loads(data))

    def idle_for_too_long(self, life: Life) -> bool:
        return self.clock() >= life.answered + IDLE_LIMIT

    def lost(self, life: Life) -> bool:
        """End a transaction that is over its time limit; return True if the next statement reports its loss."""
        if life.began is not None and self.clock() >= life.began + TRANSACTION_LIMIT:
            life.began, life.unreported = None, True
        return life.unreported

    def drop(self, number: int) -> None:
        """Close the previous stream, whose transaction would make the new one wait."""
        if self.lives[number].batons:
            body = {"baton": self.lives[number].batons[-1], "requests": [{"type": "close"}]}
            assert self.send(number, "/v3/pipeline", body)[0] in (200, 400)
            self.lives[number] = Life()

    def read(self, number: int, life: Life, wanted, body) -> None:
        assert len(body["results"]) == len(wanted)
        lost = self.lost(life)
        life.unreported = lost and not any(reports_loss(request) for request in wanted)
        closed = False
        for request, entry in zip(wanted, body["results"], strict=True):
            code = entry["error"]["code"] if entry["type"] == "error" else "ok"
            self.judge(life, request, entry, code, lost=lost)
            closed = closed or request["type"] == "close"
        assert (body["baton"] is None) is closed
        if closed:
            self.lives[number] = Life()
        else:
            life.batons.append(body["baton"])
            life.answered = self.clock()

    def judge(self, life: Life, request, entry, code: str, *, lost: bool) -> None:
        number, sql = request.get("sql_id"), request.get("stmt", {}).get("sql")
        match request["type"]:
            case "store_sql":
                assert code == ("SQL_STORE_DUPLICATE" if number in life.stored else "ok")
                life.stored.add(number)
            case "close_sql":
                assert code == "ok"
                life.stored.discard(number)
            case "get_autocommit":
                assert entry["response"]["is_autocommit"] is (life.began is None)
            case "execute" | "sequence" if lost:
                assert code == "TRANSACTION_TIMEOUT"
            case "execute" if sql is None:
                assert code == ("ok" if request["stmt"]["sql_id"] in life.stored else "SQL_STORE_NOT_FOUND")
            case "execute":
                assert (code == "ok") is self.succeeds(life, sql), (sql, code)
            case "batch" if not lost:
                errors = entry["response"]["result"]["step_errors"]
                texts = [step["stmt"]["sql"] for step in request["batch"]["steps"]]
                assert [error is None for error in errors] == ["nope" not in text for text in texts]
            case "close" | "sequence":
                assert code == "ok"

    def succeeds(self, life: Life, sql: str) -> bool:
        """Update the transaction; return True if a statement succeeds."""
        match sql.split()[:1]:
            case ["BEGIN"]:
                good = life.began is None
                life.began = self.clock() if good else life.began
                return good
            case ["COMMIT" | "ROLLBACK"]:
                good, life.began = life.began is not None, None
                return good
        return sql in ("SELECT 1", "INSERT INTO t VALUES (1)")

    def cursor(self, number: int, texts: list[str]) -> None:
        baton = self.baton(number, "newest")
        life = self.lives[number]
        batch = {"steps": [{"stmt": {"sql": text}} for text in texts]}
        status, data = self.send(number, "/v3/cursor", {"baton": baton, "batch": batch})
        if baton is not None and self.idle_for_too_long(life):
            assert status == 400, data
            self.lives[number] = Life()
            return
        assert status == 200, data
        head, *entries = [json.loads(line) for line in data.splitlines()]
        lost = self.lost(life)
        life.unreported = lost and not texts
        kinds = [entry["type"] for entry in entries]
        failures = [entry["step"] for entry in entries if entry["type"] == "step_error"]
        wanted = [place for place, text in enumerate(texts) if lost or "nope" in text]
        assert failures == wanted, data
        assert "error" not in kinds
        life.batons.append(head["baton"])
        life.answered = self.clock()


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    clock = Clock()
    service = Service(tmp_path_factory.mktemp("life"), clock=clock)
    service.catalog.create_group("local", "default", "ams")
    callers = [caller_of(service, f"db{number}") for number in range(STREAMS)]
    for caller in callers:
        caller.run("CREATE TABLE t(a)")
    yield service, clock, callers
    service.close()


def test_every_request_is_answered_according_to_the_state_of_its_stream(machine, soak):
    service, clock, callers = machine

    @settings(max_examples=5000 if soak else 120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(events=stories)
    def play(events):
        try:
            Story(service, clock, callers).play(events)
        finally:
            service.engine.streams.end_all()
        assert len(service.engine.streams) == 0

    play()
