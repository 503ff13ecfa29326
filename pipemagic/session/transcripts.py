"""What one cell said to its servers, as text and as a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec

from pipemagic.client.exchanges import Exchange
from pipemagic.client.outlines import Json, outline, redact
from pipemagic.client.secrets import Token
from pipemagic.counts import plural
from pipemagic.session import lives, wirepages

WIDTH = 100
"""Characters of a line of JSON."""

CURSOR_LINES = 5
"""How many lines of the answer to a cursor are shown."""

_DURATION = re.compile(r"_(ms|seconds)\Z")


class Passage(NamedTuple):
    """An exchange, the name of its connection, and the number of its cell; 0 if none was running."""

    connection: str
    cell: int
    exchange: Exchange
    token: Token


@dataclass(frozen=True)
class Legs:
    """Where the time of a request went, in seconds."""

    client: float
    network: float
    server: float

    def __str__(self) -> str:
        return f"client {ms(self.client)}, network {ms(self.network)}, server {ms(self.server)}"


class Transcript:
    """The exchanges of one cell, in order: readable, without tokens.

    ``kept`` are exchanges of late, those of ``cell`` among them; those before tell how its streams lived. ``seconds``
    is how long the cell took. ``only`` names one connection to show. ``stable`` leaves out what differs between two
    runs: times, sizes, and the batons' text.
    """

    def __init__(
        self,
        kept: Sequence[Passage],
        cell: int,
        seconds: float = 0.0,
        *,
        stable: bool = False,
        only: str | None = None,
    ) -> None:
        kept = [passage for passage in kept if only in (None, passage.connection)]
        self.exchanges = [passage for passage in kept if passage.cell == cell and cell]
        self.seconds = seconds
        self.stable = stable
        self._kept = list(kept)

    def __len__(self) -> int:
        return len(self.exchanges)

    @cached_property
    def batons(self) -> dict[str, str]:
        """The names of the batons, by the order in which they came: B1, B2."""
        found: dict[str, str] = {}
        for passage in self.exchanges:
            for body in (passage.exchange.sent, passage.exchange.received):
                baton = baton_of(body)
                if baton and baton not in found:
                    start = "" if self.stable else f" (…{baton[-6:]})"
                    found[baton] = f"B{len(found) + 1}{start}"
        return found

    @cached_property
    def lives(self) -> list[lives.Life]:
        """The streams that the cell used, from their beginning if that is still known."""
        numbers = {id(passage.exchange): number for number, passage in enumerate(self.exchanges, 1)}
        said = [
            lives.Said(name, exchange, baton_of(exchange.sent), baton_of(exchange.received), numbers.get(id(exchange)))
            for name, _, exchange, _ in self._kept
        ]
        now = max((one.exchange.ended for one in said), default=0.0) if self.stable else None
        return [life for life in lives.read(said, now) if any(one.number for one in life.moments)]

    @cached_property
    def legs(self) -> Legs:
        """Where the time of the whole cell went; what was no waiting is the client's."""
        exchanges = [passage.exchange for passage in self.exchanges]
        waited = sum(one.seconds for one in exchanges)
        server = sum(one.server_seconds for one in exchanges)
        own = max(self.seconds - waited, sum(one.encoding + one.decoding for one in exchanges))
        return Legs(own, waited - server, server)

    def request(self, exchange: Exchange) -> Json:
        """Give the body of a request in short; None if there is none to show."""
        return self._shown(exchange.sent)

    def answer(self, exchange: Exchange) -> Json:
        """Give the body of an answer in short."""
        return self._shown(exchange.received)

    def headline(self, number: int) -> str:
        """Say in a line what a request was and what became of it."""
        name, _, exchange, _ = self.exchanges[number - 1]
        status = f"HTTP {exchange.status}" if exchange.status is not None else "no answer"
        again = f", sent {exchange.attempts} times" if exchange.attempts > 1 else ""
        line = f"{number}. {name}: {exchange.method} {redact(exchange.path)} → {status}{again}"
        if self.stable:
            return line
        legs = Legs(exchange.encoding + exchange.decoding, exchange.network_seconds, exchange.server_seconds)
        return f"{line}; {size(exchange.sent_size)} out, {size(exchange.received_size)} in; {legs}"

    def summary(self) -> str:
        """Say in a line what the cell needed."""
        count = len(self.exchanges)
        if not count:
            return "No cell has sent anything yet."
        line = plural(count, "request")
        if self.stable:
            return f"{line}."
        sent = sum(passage.exchange.sent_size for passage in self.exchanges)
        received = sum(passage.exchange.received_size for passage in self.exchanges)
        return f"{line}, {size(sent)} out, {size(received)} in; {self.legs}."

    def __str__(self) -> str:
        lines = [self.summary()]
        for number, passage in enumerate(self.exchanges, 1):
            exchange = passage.exchange
            lines += ["", self.headline(number)]
            lines += _marked("→", self.request(exchange), exchange.sent_size)
            lines += _marked("←", self.answer(exchange), exchange.received_size)
            lines += [f"✗ {exchange.error}"] if exchange.error else []
        for life in self.lives:
            lines += ["", *life.lines(stable=self.stable)]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        return {"text/plain": str(self), "text/html": wirepages.page(self)}

    def _shown(self, body: bytes | Json) -> Json:
        found = outline(_parsed(body)) if isinstance(body, bytes) else body  # which is an outline already
        return self._named(found)

    def _named(self, value: Json) -> Json:
        """Put the batons' names in their places; of durations only that they are there, if all is to be stable."""
        if isinstance(value, dict):
            return {
                key: self.batons.get(_text(inner), "…") if key == "baton" and inner
                else "…" if self.stable and _DURATION.search(key)
                else self._named(inner)
                for key, inner in value.items()
            }  # fmt: skip
        if isinstance(value, list):
            return [self._named(inner) for inner in value]
        return self._hidden(value) if isinstance(value, str) else value

    def _hidden(self, text: str) -> str:
        """Blot out the tokens of the connections, whatever they look like."""
        for token in {passage.token for passage in self.exchanges}:
            text = token.redact(text)
        return text


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _parsed(body: bytes | Json) -> Json:
    """Read a body as JSON; what is none stays text."""
    if not isinstance(body, bytes) or not body:
        return body or None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _lines(body) or body.decode("utf-8", "replace")


def _lines(body: bytes) -> list[Json]:
    """Read the first lines of a cursor's answer, as far as they are there; none if it is something else."""
    found: list[Json] = []
    for line in body.split(b"\n")[:CURSOR_LINES]:
        try:
            found.append(msgspec.json.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            break
    return [*found, "…"] if found else []


def baton_of(body: bytes | Json) -> str:
    """Give the baton of a request or an answer; '' if it has none."""
    found = _parsed(body)
    if isinstance(found, list):  # a cursor: its first line has it
        found = found[0]
    return _text(found.get("baton")) if isinstance(found, dict) else ""


def ms(seconds: float) -> str:
    """Give a short time in words: ``0.42 ms``."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.2f} ms"


def size(count: int) -> str:
    """Give a number of bytes in words: ``1.2 KB``."""
    amount, units = float(count), ["B", "KB", "MB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.3g} {units[0]}" if amount < 1000 else f"{amount:,.0f} {units[0]}"


def _marked(mark: str, body: Json, count: int) -> list[str]:
    if body is None:
        return [f"{mark} ({size(count)}, not kept)"] if count else []
    first, *rest = pretty(body).split("\n")
    return [f"{mark} {first}", *(f"  {line}" for line in rest)]


def pretty(value: Json, indent: int = 0, room: int = WIDTH) -> str:
    """Write JSON so that people can read it: on one line what fits there."""
    flat = msgspec.json.format(msgspec.json.encode(value), indent=0).decode("utf-8")
    if not isinstance(value, dict | list) or not value or len(flat) + indent <= room:
        return flat
    inside = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [f"{_key(key)}: {pretty(inner, indent + 2, room)}" for key, inner in value.items()]
        return "{\n" + ",\n".join(inside + part for part in parts) + "\n" + " " * indent + "}"
    parts = [pretty(inner, indent + 2, room) for inner in value]
    return "[\n" + ",\n".join(inside + part for part in parts) + "\n" + " " * indent + "]"


def _key(key: str) -> str:
    return msgspec.json.encode(key).decode("utf-8")
