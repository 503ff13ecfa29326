"""Random requests on several streams, compared with a small model of the content of the database.

The clock moves between requests only, and a request that waits for the write lock is suspended, as in the executor, so
that one thread runs everything and a failure shrinks to a short sequence.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from asgi_calls import runtime
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from service_calls import CLOSE, GET_AUTOCOMMIT, Caller, Clock, caller_of, execute

from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT, Phase, Tx
from pipemagic.service.executor import Call, Steps, Waiter
from pipemagic.service.limits import LimitMode, Limits
from pipemagic.service.request import ServiceRequest
from pipemagic.service.responses import Refused, ServiceResponse
from pipemagic.service.service import Service

SLOTS = 3
TIMEOUT = "TRANSACTION_TIMEOUT"

ROW = {  # statements that insert a row, each with the code of its response
    "INSERT INTO t VALUES ({})": "ok",
    "INSERT INTO t VALUES ({}) RETURNING zeroblob(90000)": "RESPONSE_TOO_LARGE",
    "INSERT INTO t VALUES ({}) RETURNING CAST(x'ff' AS TEXT)": "SQLITE_MISMATCH",
}
OTHER = [
    "BEGIN", "BEGIN", "BEGIN IMMEDIATE", "BEGIN IMMEDIATE", "COMMIT", "COMMIT", "END", "ROLLBACK",
    "SAVEPOINT s", "RELEASE s", "ROLLBACK TO s", "SELECT count(*) FROM t", "SELECT nope", "VACUUM",
    "INSERT OR ROLLBACK INTO t VALUES (-1)",  # an existing row
    "INSERT INTO rollbacks VALUES (1)",  # its trigger ends the transaction
    "INSERT INTO children VALUES (1)",  # which has no parent: COMMIT fails
    "CREATE TEMP TABLE IF NOT EXISTS own(a)",
]  # fmt: skip
SCHEMA = [
    "CREATE TABLE t(a INTEGER UNIQUE)",
    "INSERT INTO t VALUES (-1)",
    "CREATE TABLE rollbacks(a)",
    "CREATE TRIGGER r BEFORE INSERT ON rollbacks BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
    "CREATE TABLE children(a REFERENCES parents(a) DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TABLE parents(a INTEGER PRIMARY KEY)",
]

statements = st.one_of(st.sampled_from(list(ROW)), st.sampled_from(OTHER))
sends = st.tuples(
    st.just("send"),
    st.integers(0, SLOTS - 1),
    st.lists(statements, min_size=1, max_size=4),
    st.booleans(),  # close afterwards
    st.booleans(),  # all in one batch
)
waits = st.tuples(st.just("wait"), st.sampled_from([0.5, 2.5, 4.99, 5.0, 10.0]), st.booleans())  # with a sweep
hang_ups = st.tuples(st.just("hang up"), st.integers(0, SLOTS - 1))
stories = st.lists(st.one_of(sends, sends, sends, waits, hang_ups), min_size=2, max_size=14)

CONTENDED = [  # a transaction that another one waits for, which random stories seldom have
    ("send", 0, ["BEGIN IMMEDIATE"], False, False),
    ("wait", 2.5, True),
    ("send", 1, ["BEGIN IMMEDIATE"], False, False),
    ("wait", 2.5, True),
    ("send", 0, ["SELECT count(*) FROM t"], False, False),
]


@dataclass
class Slot:
    """One client: its view of the stream, and the pending request."""

    baton: str | None = None
    answered: float = 0.0
    open: bool = False
    lost: bool = False
    began: float | None = None  # None if it began in a request that waited
    pending: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    parked: tuple[Steps[Any], Waiter, ServiceRequest, float] | None = None
    sent: list[tuple[str, int]] = field(default_factory=list)
    batch: bool = False
    waited: bool = False
    blocks: bool = False  # whether another slot waited at a sweep since its transaction began


async def _no_message(*_: Any) -> Any:
    raise NotImplementedError


class Story:
    """Runs a list of events and records the acknowledged rows."""

    def __init__(self, caller: Caller, clock: Clock) -> None:
        self.caller, self.clock, self.service = caller, clock, caller.service
        self.relaxed = self.service.limits.relaxed
        self.grant = self.service.tokens.check_database(f"Bearer {caller.token}", None)
        self.database = self.service.engine.databases.open(self.grant.database)
        routes = {route.path: route.app for route in self.service.engine.api.routes(runtime())}
        self.endpoint = routes["/v3/pipeline"]
        self.slots = [Slot() for _ in range(SLOTS)]
        self.committed: set[int] = {-1}
        self.numbers = iter(range(1, 1_000_000))

    def play(self, events: list[Any]) -> None:
        for event in events:
            match event:
                case ("send", number, texts, close, batch) if self.slots[number].parked is None:
                    self.send(self.slots[number], texts, close=close, batch=batch)
                case ("wait", seconds, sweep):
                    self.clock.advance(seconds)
                    if sweep:
                        self.sweep()
                case ("hang up", number) if (parked := self.slots[number].parked) is not None:
                    parked[2].cancel()
                    assert parked[1].wait(0), "a request whose client disconnected still waits"
            self.go_on(swept=event[0] == "wait" and event[2])
            self.check_write_lock()
        self.end()

    def sweep(self) -> None:
        for slot in self.slots:
            slot.blocks |= slot.open and any(other.parked for other in self.slots if other is not slot)
        self.service.engine.sweep()

    def send(self, slot: Slot, texts: list[str], *, close: bool, batch: bool) -> None:
        slot.sent = [(text, next(self.numbers)) for text in texts]
        slot.batch, slot.waited = batch, False
        runs = [execute(text.format(number)) for text, number in slot.sent]
        if batch:
            requests = [
                {"type": "batch", "batch": {"steps": [{"stmt": run["stmt"]} for run in runs]}},
                GET_AUTOCOMMIT,
            ]
        else:
            requests = [part for run in runs for part in (run, GET_AUTOCOMMIT)]
        body = json.dumps({"baton": slot.baton, "requests": requests + [CLOSE] * close}).encode()
        headers = [(name.encode(), value.encode()) for name, value in self.caller.headers.items()]
        scope = {"type": "http", "method": "POST", "path": "/v3/pipeline", "headers": headers, "scheme": "http"}
        request = ServiceRequest(scope, _no_message, _no_message)
        request.tenant, request.grant = self.grant.database.id, self.grant
        self.step(slot, self.endpoint.handler(request, body), request)

    def step(self, slot: Slot, steps: Steps[Any], request: ServiceRequest) -> None:
        try:
            while isinstance(step := next(steps), Call):
                step.run(None)  # no other thread gives it up
            slot.parked = (steps, step, request, self.clock())
            slot.waited = True
        except StopIteration as end:
            slot.parked = None
            self.answered(slot, end.value, request)
        except Refused as refused:
            slot.parked = None
            self.answered(slot, refused.response(), request)

    def go_on(self, *, swept: bool) -> None:
        """Resume every request whose wait has ended; no wait may take longer than five seconds."""
        while ready := [slot for slot in self.slots if slot.parked and slot.parked[1].wait(0)]:
            steps, _, request, _ = ready[0].parked
            self.step(ready[0], steps, request)
        if swept:
            assert all(slot.parked is None or self.clock() < slot.parked[3] + 5 for slot in self.slots)

    def answered(self, slot: Slot, response: ServiceResponse, request: ServiceRequest) -> None:
        data = bytes(response.body)
        if response.on_sent is not None:
            response.on_sent()  # as the endpoint does
        if request.cancelled:
            assert response.status_code == 503
            self.forget(slot)
            return
        was_idle = slot.baton is not None and self.clock() >= slot.answered + IDLE_LIMIT
        if was_idle and not slot.waited and not self.relaxed:
            assert json.loads(data)["code"] == "STREAM_EXPIRED"
            self.forget(slot)
            return
        assert response.status_code == 200, data
        body = json.loads(data)
        if slot.batch:
            self.read_batch(slot, body["results"])
        else:
            self.read_pairs(slot, body["results"])
        slot.baton, slot.answered = body["baton"], self.clock()
        if slot.baton is None:
            self.forget(slot)

    def forget(self, slot: Slot) -> None:
        vars(slot).update(vars(Slot()))

    # The meaning of responses.

    def read_pairs(self, slot: Slot, results: list[Any]) -> None:
        slot.lost = slot.lost or self.overdue(slot)
        for (text, number), ran, state in zip(slot.sent, results[::2], results[1::2], strict=False):
            code = "ok" if ran["type"] == "ok" else ran["error"]["code"]
            self.read(slot, text, number, code, autocommit=state["response"]["is_autocommit"])
        slot.lost = False

    def read_batch(self, slot: Slot, results: list[Any]) -> None:
        slot.lost = slot.lost or self.overdue(slot)
        done = results[0]["response"]["result"]
        for (text, number), error in zip(slot.sent, done["step_errors"], strict=True):
            code = error["code"] if error else "ok"
            self.read(slot, text, number, code, autocommit=self.guess(slot, text, code))
        assert results[1]["response"]["is_autocommit"] is not slot.open
        slot.lost = False

    def guess(self, slot: Slot, text: str, code: str) -> bool:
        """Return the effect of a step, which cannot be queried between two steps."""
        if code == TIMEOUT or "ROLLBACK INTO" in text or text.startswith("INSERT INTO rollbacks"):
            return code == TIMEOUT or code == "SQLITE_CONSTRAINT" or not slot.open
        if code != "ok":
            return not slot.open
        match text.split()[0]:
            case "BEGIN" | "SAVEPOINT":
                return False
            case "COMMIT" | "END":
                return True
            case "ROLLBACK":
                return "TO" not in text
            case "RELEASE":
                return slot.marks == [-1]
        return not slot.open

    def read(self, slot: Slot, text: str, number: int, code: str, *, autocommit: bool) -> None:
        was_open = slot.open
        if slot.lost:
            assert code == TIMEOUT, (text, code)
        elif not slot.waited and not (self.relaxed and slot.blocks):
            assert code != TIMEOUT, text
        slot.open = not autocommit
        if code == TIMEOUT:
            assert autocommit
            slot.lost = True
        elif ROW.get(text) == code:
            slot.pending.append(number)
        elif text == "ROLLBACK TO s" and code == "ok":
            del slot.pending[max(slot.marks[-1], 0) :]
        elif text == "SAVEPOINT s" and code == "ok":
            slot.marks.append(len(slot.pending) if was_open else -1)
        elif text == "RELEASE s" and code == "ok":
            slot.marks.pop()
        if slot.open and not was_open:
            slot.began = None if slot.waited else self.clock()
        if autocommit:
            ends = text in ("COMMIT", "END", "RELEASE s") and code == "ok"
            if ends or (not was_open and ROW.get(text) == code):
                self.committed.update(slot.pending)
            slot.pending, slot.marks, slot.began, slot.blocks = [], [], None, False

    def overdue(self, slot: Slot) -> bool:
        if self.relaxed or slot.waited or not slot.open or slot.began is None:
            return False
        return self.clock() >= slot.began + TRANSACTION_LIMIT

    # Invariants.

    def check_write_lock(self) -> None:
        """The stream that writes holds the write lock, and the one that holds it writes."""
        holder = self.database.write_lock._holder
        mine = [stream for stream in self.service.engine.streams._streams.values() if stream.database is self.database]
        writing = [stream for stream in mine if stream._connection is not None and stream.connection.writing]
        assert len(writing) == (holder is not None)
        assert all(stream.write_waiter is holder for stream in writing)
        for stream in mine:
            assert (stream.window is not None) == (stream.state.transaction is Tx.OPEN)
            assert stream.running is None  # those of this story send no rows before their end
            assert stream.wait is None or stream.state.phase is Phase.IN_USE

    def end(self) -> None:
        self.clock.advance(5)
        self.service.engine.sweep()
        self.go_on(swept=True)
        for slot in self.slots:
            if slot.baton is not None:
                assert self.caller.post(CLOSE, baton=slot.baton).status in (200, 400)
        assert self.database.write_lock._holder is None
        assert not self.database.write_lock._waiting
        assert not [
            stream for stream in self.service.engine.streams._streams.values() if stream.database is self.database
        ]
        rows = self.caller.run("INSERT INTO t VALUES (0)", "SELECT a FROM t").rows(1)
        assert {int(a) for [a] in rows} == self.committed | {0}


@pytest.fixture(scope="module", params=LimitMode, ids=lambda mode: mode.value)
def machine(request, tmp_path_factory):
    clock, limits = Clock(), Limits(response=60_000, mode=request.param)
    service = Service(tmp_path_factory.mktemp("model"), clock=clock, limits=limits)
    service.catalog.create_group("local", "default", "ams")
    yield service, clock
    service.close()


def test_exactly_the_acknowledged_rows_exist_and_no_request_waits_endlessly(machine, soak):
    service, clock = machine

    @settings(max_examples=2000 if soak else 60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(events=stories)
    @example(events=CONTENDED)
    def play(events):
        caller = caller_of(service, f"story-{len(service.catalog.databases('local'))}")
        assert set(caller.run(*SCHEMA).codes) == {"ok"}
        Story(caller, clock).play(events)

    play()
