"""The lives of streams: opened, asked, idle, in a transaction, closed or expired; in words and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

from pipemagic import svg
from pipemagic.client.exchanges import Exchange
from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT

WIDTH, LEFT, RIGHT = 760.0, 92.0, 64.0
SHOWN = 40.0
"""Seconds of a life that are drawn: its last ones."""


class Said(NamedTuple):
    """An exchange with the batons that were sent and received, and its number in the cell that is shown."""

    connection: str
    exchange: Exchange
    sent: str
    received: str
    number: int | None


@dataclass
class Life:
    """One stream: the exchanges on it, and how it ended: ``open``, ``closed``, ``expired`` or ``lost``."""

    connection: str
    moments: list[Said] = field(default_factory=list)
    end: str = "open"
    now: float = 0.0
    from_the_start: bool = True

    @property
    def began(self) -> float:
        """When its first request was sent, as far as it is known."""
        return self.moments[0].exchange.started

    @property
    def answered(self) -> float:
        """When its last answer came."""
        return self.moments[-1].exchange.ended

    @property
    def over(self) -> float:
        """When it ended, or will if nothing more is asked."""
        return self.answered + IDLE_LIMIT if self.end in ("open", "expired") else self.answered

    @property
    def transactions(self) -> list[tuple[int, int | None]]:
        """Where transactions were open: the places of the requests that began and ended each; None if none ended it."""
        found: list[tuple[int, int | None]] = []
        opened: int | None = None
        for place, moment in enumerate(self.moments):
            state = moment.exchange.transaction_open
            if state and opened is None:
                opened = place
            elif state is False and opened is not None:
                found.append((opened, place))
                opened = None
        return [*found, (opened, None)] if opened is not None else found

    def lines(self, *, stable: bool = False) -> list[str]:
        """Tell the life in words, a line for each event; ``stable`` leaves the times out."""
        told = [f"The stream of {self.connection}:"]
        for place, moment in enumerate(self.moments):
            if (
                place
                and not stable
                and (idle := moment.exchange.started - self.moments[place - 1].exchange.ended) > 0.1
            ):
                told.append(f"  {'':>9}  idle for {idle:.1f} of {IDLE_LIMIT:.0f} s")
            when = "" if stable else f"{moment.exchange.started - self.began:7.3f} s  "
            told.append(f"  {when}{self._event(place)}")
        return [*told, f"  {'' if stable else '           '}{self._ending()}"]

    def _event(self, place: int) -> str:
        moment = self.moments[place]
        who = f"request {moment.number}" if moment.number else "a request of an earlier cell"
        opens = " opens the stream" if not place and self.from_the_start else ""
        begun = [first for first, _ in self.transactions]
        ended = [last for _, last in self.transactions]
        notes = [
            f"a transaction is open, for at most {TRANSACTION_LIMIT:.0f} s" if place in begun else "",
            "the transaction is over" if place in ended else "",
        ]
        return "; ".join([who + opens, *filter(None, notes)])

    def _ending(self) -> str:
        return {
            "open": f"open; expires {IDLE_LIMIT:.0f} s after the last answer",
            "closed": "closed in the last request",
            "expired": f"expired: nothing was asked for {IDLE_LIMIT:.0f} s",
            "lost": "lost: no whole answer came, or the server refused the request",
        }[self.end]

    def picture(self, *, stable: bool = False) -> str:
        """Draw the life as SVG; ``stable`` draws it not to scale, with the same space for each request."""
        return _Drawing(self, stable).svg()


def read(said: Sequence[Said], now: float | None = None) -> list[Life]:
    """Sort exchanges into streams, by the batons that lead from one to the next."""
    now = perf_counter() if now is None else now
    found: list[Life] = []
    by_baton: dict[tuple[str, str], Life] = {}
    for one in said:
        if "/pipeline" not in one.exchange.path and "/cursor" not in one.exchange.path:
            continue
        life = by_baton.pop((one.connection, one.sent), None) if one.sent else None
        if life is None:
            life = Life(one.connection, from_the_start=not one.sent)
            found.append(life)
        _go_on(life, one)
        if one.received:
            by_baton[one.connection, one.received] = life
    for life in found:
        life.now = now
        if life.end == "open" and now - life.answered > IDLE_LIMIT:
            life.end = "expired"
    return found


def _go_on(life: Life, one: Said) -> None:
    if one.exchange.status == 400 and one.sent and life.moments:
        life.end = "expired"  # the server no longer knows the baton, nothing of the request ran
        return
    life.moments.append(one)
    if one.exchange.status != 200:
        life.end = "lost"
    else:
        life.end = "open" if one.received else "closed"


class _Drawing:
    """The picture of a life: three lanes (the stream, its transactions, the clock) from left to right."""

    def __init__(self, life: Life, stable: bool) -> None:
        self.life, self.stable = life, stable
        self.first = max(life.began, life.answered - SHOWN)
        self.scale = (WIDTH - LEFT - RIGHT) / max(self._last() - self.first, 0.5)
        self.places = self._places()

    def _last(self) -> float:
        """Give the last moment that is drawn: the end of the stream, and of the window of its last transaction."""
        begun = [self.life.moments[first].exchange.started for first, _ in self.life.transactions]
        return max(self.life.over, self.life.answered, *(start + TRANSACTION_LIMIT for start in begun))

    def x(self, when: float) -> float:
        return LEFT + max(0.0, when - self.first) * self.scale

    def _places(self) -> list[tuple[float, float]]:
        """Give left and right of each request: at least some pixels wide, none on top of another."""
        if self.stable:
            step = (WIDTH - LEFT - RIGHT) / (len(self.life.moments) + 1.5)
            bar = min(14.0, step * 0.7)
            return [(LEFT + place * step, LEFT + place * step + bar) for place in range(len(self.life.moments))]
        found: list[tuple[float, float]] = []
        for moment in self.life.moments:
            left = max(self.x(moment.exchange.started), found[-1][1] + 2 if found else LEFT)
            found.append((left, max(left + 4, self.x(moment.exchange.ended))))
        return found

    def svg(self) -> str:
        life = self.life
        end = max(self.places[-1][1], WIDTH - RIGHT if self.stable else self.x(life.over))
        title = " ".join(line.strip() + "." for line in life.lines(stable=True))
        width = max(WIDTH, self.places[-1][1] + RIGHT)
        inside = [*self._stream(end), *self._requests(), *self._transactions(), *([] if self.stable else self._ticks())]
        return svg.picture(width, 96 if self.stable else 112, title, *inside)

    def _stream(self, end: float) -> list[str]:
        life, (left, _), (_, right) = self.life, self.places[0], self.places[-1]
        drawn = [svg.text(8, 44, "stream", fill=svg.FAINT), svg.line([(left, 40), (right, 40)], stroke=svg.INK)]
        if life.end in ("open", "expired"):
            word = "expires" if life.end == "open" else "expired"
            drawn += [
                svg.line([(right, 40), (end, 40)], stroke=svg.FAINT, dashes="4 4"),
                svg.line([(end - 5, 35), (end + 5, 45)], stroke=svg.WARNING),
                svg.line([(end - 5, 45), (end + 5, 35)], stroke=svg.WARNING),
                svg.text(end, 26, word, fill=svg.WARNING, anchor="middle"),
            ]
        else:
            color = svg.INK if life.end == "closed" else svg.WARNING
            drawn += [svg.line([(right, 30), (right, 50)], stroke=color), svg.text(right + 6, 44, life.end, fill=color)]
        opened = "open" if life.from_the_start and self.first <= life.began else "…"
        return [*drawn, svg.text(left, 26, opened, fill=svg.FAINT)] if left + 80 < end or life.end != "open" else drawn

    def _requests(self) -> list[str]:
        drawn, free = [], 0.0
        for moment, (left, right) in zip(self.life.moments, self.places, strict=True):
            color = svg.ACCENT if moment.number else svg.FAINT
            drawn.append(svg.box(left, 32, right - left, 16, fill=color, stroke="none"))
            if moment.number and left >= free:
                word = str(moment.number)
                drawn.append(svg.text(left, 62, word, fill=svg.ACCENT))
                free = left + (len(word) + 1) * svg.CHARACTER
        return drawn

    def _transactions(self) -> list[str]:
        found = self.life.transactions
        if not found:
            return []
        drawn = [svg.text(8, 82, "transaction", fill=svg.FAINT)]
        for first, last in found:
            start = self.places[first][0]
            end = self.places[last][1] if last is not None else self.places[-1][1]
            began = self.life.moments[first].exchange.started
            limit = end + 40 if self.stable else self.x(began + TRANSACTION_LIMIT)
            if limit > start:
                drawn.append(_outlined(start, 72, limit - start, 12))
                drawn.append(svg.text(limit + 4, 82, f"{TRANSACTION_LIMIT:.0f} s", fill=svg.FAINT))
            drawn.append(svg.box(start, 72, max(end - start, 4), 12, fill=svg.ACCENT, stroke="none"))
        return drawn

    def _ticks(self) -> list[str]:
        span = (WIDTH - LEFT - RIGHT) / self.scale
        step = next((step for step in (0.1, 0.5, 1, 2, 5, 10) if span / step <= 10), 20)
        start = self.first - self.life.began
        drawn, tick = [svg.text(8, 106, "seconds", fill=svg.FAINT)], step * (start // step + (start % step > 0))
        while tick <= start + span + 1e-9:
            where = self.x(self.life.began + tick)
            drawn += [
                svg.line([(where, 90), (where, 94)]),
                svg.text(where, 106, f"{tick:g}", fill=svg.FAINT, anchor="middle"),
            ]
            tick += step
        return drawn


def _outlined(x: float, y: float, width: float, height: float) -> str:
    corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
    return svg.line(corners, stroke=svg.FAINT, dashes="3 3")
