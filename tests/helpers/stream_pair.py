"""A client and a server that drive the tables of `pipemagic.hrana.stream` and exchange plain dicts, without I/O.

Statements are texts: begin, commit, rollback, ``write 1`` (each write has its own number), ``fail``, ``fail and roll
back``. After a failed statement nothing more of its request runs. Time is an event: the test says when a limit is
reached. `Pair.events` lists the events that are possible, each a method of `Pair` with its argument.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from pipemagic.hrana.stream import ENDS, Event, Phase, StreamState, Tx, TxEvent

Message = dict[str, Any]
Statements = tuple[str, ...]
Moves = set[tuple[Phase | Tx, Event | TxEvent]]


class RecordedState(StreamState):
    """A state that records which entries of the tables were used."""

    def __init__(self, moves: Moves) -> None:
        super().__init__()
        self._moves = moves

    def move(self, event: Event) -> None:
        before = self.phase
        super().move(event)
        self._moves.add((before, event))

    def change(self, event: TxEvent) -> None:
        before = self.transaction
        super().change(event)
        self._moves.add((before, event))


# -- the server


@dataclass
class ServerStream:
    """A stream: its state, the number of its responses, the writes of its transaction, and the request that it runs."""

    state: StreamState
    count: int = 0
    work: Statements = ()
    exchange: int = 0
    rest: Statements = ()
    results: Statements = ()
    closes: bool = False

    @property
    def key(self) -> object:
        """The state as a value."""
        state = self.state.phase, self.state.transaction
        return state, self.count, self.work, self.exchange, self.rest, self.results, self.closes


class Server:
    """Runs requests, one statement at a time. ``applied`` are the committed writes."""

    def __init__(self, moves: Moves) -> None:
        self.streams: dict[str, ServerStream] = {}
        self.applied: Statements = ()
        self._opened = 0
        self._moves = moves

    def copy(self) -> Server:
        """Return an independent copy."""
        new = copy(self)
        new.streams = {name: replace(stream, state=copy(stream.state)) for name, stream in self.streams.items()}
        return new

    @property
    def key(self) -> object:
        """The state as a value."""
        return tuple((name, stream.key) for name, stream in self.streams.items()), self.applied, self._opened

    @property
    def is_busy(self) -> bool:
        """Whether a request runs."""
        return any(stream.state.phase is Phase.IN_USE for stream in self.streams.values())

    def receive(self, request: Message) -> Message | None:
        """Begin a request; return the refusal if its baton is not valid."""
        name, _, count = (request["baton"] or "").partition("/")
        if not name:
            self._opened += 1
            name = f"stream {self._opened}"
            self.streams[name] = ServerStream(RecordedState(self._moves))
        stream = self.streams.get(name)
        if stream is None or stream.state.phase is not Phase.IDLE or stream.count != int(count or 0):
            return {"exchange": request["exchange"], "refused": "baton"}
        stream.state.move(Event.SEND)
        stream.exchange, stream.rest, stream.closes = request["exchange"], request["statements"], request["close"]
        stream.results = ()
        return None

    def run(self, name: str) -> None:
        """Run the next statement of a request."""
        stream = self.streams[name]
        result = self._result(stream, stream.rest[0])
        stream.results += (result,)
        stream.rest = stream.rest[1:] if result == "ok" else ()

    def _result(self, stream: ServerStream, statement: str) -> str:
        state, is_open = stream.state, stream.state.transaction is Tx.OPEN
        if state.transaction is Tx.LOST:
            return "transaction timeout"
        if statement.startswith("write"):
            if is_open:
                stream.work += (statement,)
            else:
                self.applied += (statement,)
        elif statement == "begin" and not is_open:
            state.change(TxEvent.BEGIN)
        elif statement in ("commit", "rollback", "fail and roll back") and is_open:
            self.applied += stream.work if statement == "commit" else ()
            stream.work = ()
            state.change(TxEvent.END)
            return "error" if statement.startswith("fail") else "ok"
        else:
            return "error"
        return "ok"

    def respond(self, name: str) -> Message:
        """Return the response to a request that has run."""
        stream = self.streams[name]
        if "transaction timeout" in stream.results:
            stream.state.change(TxEvent.ACKNOWLEDGE)  # the response reports the loss
        if stream.closes:
            return self._last(name, Event.CLOSE)
        stream.state.move(Event.ANSWER)
        stream.count += 1
        return self._response(stream, f"{name}/{stream.count}")

    def stop(self, name: str) -> Message | None:
        """End a stream early, as when its database is suspended; return the response to the request that runs."""
        if self.streams[name].state.phase is Phase.IN_USE:
            return self._last(name, Event.LOSE)
        self.end(name, Event.LOSE)
        return None

    def time_out(self, name: str) -> None:
        """Roll back a transaction at its time limit."""
        stream = self.streams[name]
        stream.work = ()
        stream.state.change(TxEvent.LOSE)

    def end(self, name: str, event: Event) -> ServerStream:
        """End a stream, and return it."""
        stream = self.streams.pop(name)
        stream.work = ()
        stream.state.move(event)
        return stream

    def _last(self, name: str, event: Event) -> Message:
        return self._response(self.end(name, event), None)

    def _response(self, stream: ServerStream, baton: str | None) -> Message:
        autocommit = stream.state.transaction is not Tx.OPEN
        return {"exchange": stream.exchange, "baton": baton, "results": stream.results, "autocommit": autocommit}


# -- the client


class Write(Enum):
    """What the client says about one of its writes."""

    PENDING = "its request has no response yet, or nothing of it ran"
    OPEN = "it ran in the open transaction"
    COMMITTED = "it is committed"
    LOST = "it is undone, or did not run"
    UNKNOWN = "it is not known whether it was applied"


@dataclass(frozen=True)
class Pending:
    """A request of the client: what it sent, and the transaction before it."""

    statements: Statements
    close: bool
    before: Tx


class Client:
    """Sends a request at a time; learns of its transaction from responses alone. ``writes`` is what it says of each."""

    def __init__(self, moves: Moves) -> None:
        self.state: StreamState = RecordedState(moves)
        self.baton: str | None = None
        self.exchange = 0
        self.pending: Pending | None = None
        self.not_run: Pending | None = None
        """A request of which nothing ran, as a refusal says: it may be sent again."""
        self.writes: dict[str, Write] = {}
        self.told = Tx.NONE
        """What the user was told of the transaction, which does not come from the tables."""

    def copy(self) -> Client:
        """Return an independent copy."""
        new = copy(self)
        new.state, new.writes = copy(self.state), dict(self.writes)
        return new

    @property
    def key(self) -> object:
        """The state as a value."""
        state = self.state.phase, self.state.transaction
        return state, self.told, self.baton, self.exchange, self.pending, self.not_run, tuple(self.writes.items())

    @property
    def new_write(self) -> str:
        """A write that was never sent."""
        return f"write {len(self.writes) + 1}"

    def send(self, statements: Statements, *, close: bool = False) -> Message:
        """Return the request to send; with BEGIN, it acknowledges a loss."""
        before = self.state.transaction
        if before is Tx.LOST:
            self._change(TxEvent.ACKNOWLEDGE, Tx.NONE)
        if self.state.phase is not Phase.IDLE:
            self.state.move(Event.REOPEN)
            self.baton = None
        self.state.move(Event.SEND)
        self.exchange += 1
        self.pending, self.not_run = Pending(statements, close, before), None
        self._set(statements, Write.PENDING)
        return {"exchange": self.exchange, "baton": self.baton, "statements": statements, "close": close}

    def receive(self, message: Message) -> None:
        """Handle a response or a refusal; ignore one that comes late."""
        if self.pending is None or message["exchange"] != self.exchange:
            return
        pending, self.pending = self.pending, None
        match message.get("refused"):
            case "busy":
                self._refused(pending, Event.REFUSE)
            case "baton":
                self.baton = None
                self._refused(pending, Event.EXPIRE)
            case _:
                self._read(pending, message)

    def interrupt_before_sending(self) -> None:
        """Nothing of the request was sent."""
        assert self.pending is not None
        pending, self.pending = self.pending, None
        self._refused(pending, Event.REFUSE)

    def _refused(self, pending: Pending, event: Event) -> None:
        """Nothing of a request ran. It may be sent again, unless its transaction ended with the stream."""
        if pending.before is Tx.LOST:
            self._change(TxEvent.RESTORE, Tx.LOST)  # the loss is not acknowledged
        was_open = self.state.transaction is Tx.OPEN
        self._end(event) if event in ENDS else self.state.move(event)
        if was_open and event in ENDS:
            self._set(pending.statements, Write.LOST)
        else:
            self.not_run = pending

    def _read(self, pending: Pending, response: Message) -> None:
        results = response["results"]
        began = False
        for statement, result in zip(pending.statements, results, strict=False):
            if result == "transaction timeout" and self.state.transaction is Tx.OPEN:
                self._change(TxEvent.LOSE, Tx.LOST)
                self._set(self._open_writes, Write.LOST)
            if result == "ok":
                began = (began or statement == "begin") and statement not in ("commit", "rollback")
                self._ran(statement)
            else:
                self._set((statement,), Write.LOST)
        self._set(pending.statements[len(results) :], Write.LOST)
        self.baton = response["baton"]
        if self.baton is None:
            self._end(Event.CLOSE if pending.close else Event.LOSE)
            return
        self.state.move(Event.ANSWER)
        if self.state.transaction is Tx.OPEN and response["autocommit"]:
            if "error" not in results:
                self._change(TxEvent.LOSE, Tx.LOST)  # by a limit, which no statement has reported yet
            else:
                self._change(TxEvent.END, Tx.NONE)  # a statement that failed rolled it back
                if not began:
                    self._change(TxEvent.RESTORE, Tx.LOST)  # it was of earlier requests, which the user must know
            self._set(self._open_writes, Write.LOST)

    def _ran(self, statement: str) -> None:
        is_open = self.state.transaction is Tx.OPEN
        match statement:
            case "begin":
                self._change(TxEvent.BEGIN, Tx.OPEN)
            case "commit" | "rollback":
                self._change(TxEvent.END, Tx.NONE)
                self._set(self._open_writes, Write.COMMITTED if statement == "commit" else Write.LOST)
            case _ if statement.startswith("write"):
                self._set((statement,), Write.OPEN if is_open else Write.COMMITTED)

    def give_up(self) -> None:
        """No response arrived, or not all of it: each statement may have run."""
        assert self.pending is not None
        pending, self.pending = self.pending, None
        for statement in pending.statements:
            is_open = self.state.transaction is Tx.OPEN
            if statement.startswith("write"):
                self._set((statement,), Write.OPEN if is_open else Write.UNKNOWN)
            elif statement == "begin" and not is_open:
                self._change(TxEvent.BEGIN, Tx.OPEN)
            elif statement in ("commit", "rollback") and is_open:
                self._set(self._open_writes, Write.UNKNOWN if statement == "commit" else Write.LOST)
                self._change(TxEvent.DOUBT, Tx.NONE)
        if pending.close and self.state.transaction is Tx.OPEN:
            self._change(TxEvent.DOUBT, Tx.NONE)  # its rollback, by which nothing is left to acknowledge
        self.baton = None
        self._end(Event.LOSE)

    def drop(self, event: Event) -> None:
        """End an idle stream without a request."""
        self.baton = None
        self._end(event)

    def acknowledge(self) -> None:
        """The user ran ROLLBACK after a loss."""
        self._change(TxEvent.ACKNOWLEDGE, Tx.NONE)

    @property
    def _open_writes(self) -> Statements:
        return tuple(write for write, outcome in self.writes.items() if outcome is Write.OPEN)

    def _change(self, event: TxEvent, told: Tx) -> None:
        self.state.change(event)
        self.told = told

    def _end(self, event: Event) -> None:
        """End the stream, and its transaction: one that the user did not end is lost."""
        if self.told is Tx.OPEN:
            self.told = Tx.NONE if event is Event.CLOSE else Tx.LOST
        self.state.move(event)
        self._set(self._open_writes, Write.LOST)

    def _set(self, statements: Statements, outcome: Write) -> None:
        self.writes |= {statement: outcome for statement in statements if statement.startswith("write")}


# -- both

REQUESTS: list[Statements] = [
    (), ("write",), ("begin",), ("commit",), ("rollback",), ("fail",), ("begin", "write"), ("write", "commit"),
    ("begin", "write", "commit"), ("begin", "write", "fail and roll back"), ("write", "fail and roll back"),
    ("commit", "begin", "write"), ("rollback", "write"),
]  # fmt: skip
"""The statements of the requests; a write stands for the next one."""

EventCall = tuple[Any, ...]
"""The name of a method of `Pair`, and its argument, if it has one."""


class Pair:
    """A client, a server, and the messages between them, which can be lost and late."""

    def __init__(self) -> None:
        self.moves_of_client: Moves = set()
        self.moves_of_server: Moves = set()
        self.client = Client(self.moves_of_client)
        self.server = Server(self.moves_of_server)
        self.requests: tuple[Message, ...] = ()
        self.responses: tuple[Message, ...] = ()

    def copy(self) -> Pair:
        """Return an independent copy, which records moves in the same sets."""
        new = copy(self)
        new.client, new.server = self.client.copy(), self.server.copy()
        return new

    @property
    def key(self) -> object:
        """The state as a value."""
        messages = (tuple(message.items()) for message in (*self.requests, *self.responses))
        return self.client.key, self.server.key, len(self.requests), tuple(messages)

    def happen(self, event: EventCall) -> None:
        """Let an event happen, and check what always holds."""
        name, *argument = event
        getattr(self, name)(*argument)
        self.check()

    def events(self) -> Iterator[EventCall]:
        """Yield the events that are possible now."""
        yield from self.events_of_client()
        yield from self.events_of_network()
        yield from self.events_of_server()

    def events_of_client(self) -> Iterator[EventCall]:
        """Yield what the client can do."""
        client, state = self.client, self.client.state
        if client.pending is not None:
            yield ("give_up",)
            yield from [("interrupt_before_sending",)] if self._unsent else []
        else:
            lost = state.transaction is Tx.LOST
            yield from [("send", statements) for statements in REQUESTS if not lost or statements[:1] == ("begin",)]
            if client.not_run is not None and (not lost or client.not_run.before is Tx.LOST):
                yield ("send_again",)
            yield from [("acknowledge",)] if lost else []
            if client.baton is not None and state.phase is Phase.IDLE:
                yield from [("close",), ("close_unasked",)]
                yield from [("drop_old_baton",)] if state.transaction is Tx.NONE else []

    def events_of_network(self) -> Iterator[EventCall]:
        """Yield what can happen to the messages."""
        for number in range(len(self.requests)):
            yield from [("lose_request", number), ("deliver", number), ("refuse_busy", number)]
        for number in range(len(self.responses)):
            yield from [("lose_response", number), ("answer", number)]

    def events_of_server(self) -> Iterator[EventCall]:
        """Yield what the server can do."""
        for name, stream in self.server.streams.items():
            if stream.state.phase is Phase.IN_USE:
                yield ("run", name) if stream.rest else ("respond", name)
            else:
                yield ("expire", name)
            if stream.state.transaction is Tx.OPEN:
                yield ("time_out", name)
            yield ("stop", name)
        yield from [("restart",)] if self.server.streams else []

    # Of the client.

    @property
    def _unsent(self) -> bool:
        return any(request["exchange"] == self.client.exchange for request in self.requests)

    def send(self, statements: Statements) -> None:
        """Send a request."""
        written = tuple(self.client.new_write if text == "write" else text for text in statements)
        self.requests += (self.client.send(written),)

    def send_again(self) -> None:
        """Send a request again of which nothing ran."""
        request = self.client.not_run
        assert request is not None
        self.requests += (self.client.send(request.statements, close=request.close),)

    def close(self) -> None:
        """Close the stream by a request."""
        self.requests += (self.client.send((), close=True),)

    def close_unasked(self) -> None:
        """Close the stream without a request; the server ends it at its idle limit."""
        self.client.drop(Event.CLOSE)

    def drop_old_baton(self) -> None:
        """Drop a baton that is probably too old, with nothing open."""
        self.client.drop(Event.EXPIRE)

    def acknowledge(self) -> None:
        """Acknowledge a loss."""
        self.client.acknowledge()

    def give_up(self) -> None:
        """Wait no longer for a response: an interrupt, a timeout, a closed connection."""
        self.client.give_up()

    def interrupt_before_sending(self) -> None:
        """Interrupt a request before anything of it was sent."""
        self.requests = tuple(request for request in self.requests if request["exchange"] != self.client.exchange)
        self.client.interrupt_before_sending()

    # Of the network.

    def lose_request(self, number: int) -> None:
        """Lose a request."""
        self._take_request(number)

    def deliver(self, number: int) -> None:
        """Deliver a request."""
        self._respond(self.server.receive(self._take_request(number)))

    def refuse_busy(self, number: int) -> None:
        """Refuse a request before anything of it runs, as with 429."""
        self._respond({"exchange": self._take_request(number)["exchange"], "refused": "busy"})

    def lose_response(self, number: int) -> None:
        """Lose a response."""
        self._take_response(number)

    def answer(self, number: int) -> None:
        """Deliver a response."""
        self.client.receive(self._take_response(number))

    def _take_request(self, number: int) -> Message:
        message = self.requests[number]
        self.requests = self.requests[:number] + self.requests[number + 1 :]
        return message

    def _take_response(self, number: int) -> Message:
        message = self.responses[number]
        self.responses = self.responses[:number] + self.responses[number + 1 :]
        return message

    def _respond(self, message: Message | None) -> None:
        self.responses += (message,) if message is not None else ()

    # Of the server.

    def run(self, name: str) -> None:
        """Run the next statement."""
        self.server.run(name)

    def respond(self, name: str) -> None:
        """Respond to a request."""
        self._respond(self.server.respond(name))

    def stop(self, name: str) -> None:
        """End a stream early."""
        self._respond(self.server.stop(name))

    def expire(self, name: str) -> None:
        """Reach the idle limit of a stream."""
        self.server.end(name, Event.EXPIRE)

    def time_out(self, name: str) -> None:
        """Reach the time limit of a transaction."""
        self.server.time_out(name)

    def restart(self) -> None:
        """Start the server again, without any stream; requests that run get no response."""
        for name in list(self.server.streams):
            self.server.end(name, Event.LOSE)

    def settle(self) -> None:
        """Let everything arrive that was sent, then end all streams: nothing is pending or open any more."""
        while self.requests or self.responses or self.server.is_busy:
            work = (event for event in self.events_of_server() if event[0] in ("run", "respond"))
            messages = (event for event in self.events_of_network() if event[0] in ("deliver", "answer"))
            self.happen(next(itertools.chain(work, messages)))
        if self.client.pending is not None:
            self.happen(("give_up",))
        if self.client.baton is not None:
            self.happen(("close_unasked",))
        for name in list(self.server.streams):
            self.happen(("expire", name))

    # What always holds.

    def check(self) -> None:
        """Assert that both sides agree, as far as the client can know."""
        applied = Counter(self.server.applied)
        assert max(applied.values(), default=0) <= 1, "a write was applied twice"
        for write, outcome in self.client.writes.items():
            assert outcome is not Write.COMMITTED or write in applied, f"{write} is not applied"
            assert outcome is not Write.LOST or write not in applied, f"{write} was committed after all"
            if outcome is Write.OPEN and self.client.pending is None:
                assert write not in applied, f"{write} was applied outside its transaction"
        client, state = self.client, self.client.state
        assert (client.pending is not None) is (state.phase is Phase.IN_USE)
        assert state.transaction is client.told, f"the user was told {client.told.value}"
        is_open = state.transaction is Tx.OPEN
        assert is_open or Write.OPEN not in client.writes.values()
        assert not is_open or state.phase in (Phase.IDLE, Phase.IN_USE), "a transaction outlived its stream"
        stream = self.server.streams.get((client.baton or "").partition("/")[0])
        if state.phase is Phase.IDLE and stream is not None:  # after a complete exchange
            at_server = stream.state.transaction
            assert at_server in ((Tx.OPEN, Tx.LOST) if is_open else (Tx.NONE, Tx.LOST)), at_server
            opened = {write for write, outcome in client.writes.items() if outcome is Write.OPEN}
            assert at_server is not Tx.OPEN or set(stream.work) == opened, "each side has other writes"
