"""A trace as HTML: a collapsible section for each request, the time as a bar, the streams as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pipemagic import svg
from pipemagic.client.trace_format import Json, format_json, format_seconds
from pipemagic.hrana.stream import RELAXED, STRICT, TRANSACTION_LIMIT
from pipemagic.text import format_size, literal_html

if TYPE_CHECKING:
    from pipemagic.client.tracing import Timing
    from pipemagic.session.trace import StreamTimeline

OPEN_SECTIONS = 4
"""With at most this many requests their sections are open."""

WIDTH, LEFT, RIGHT = 760.0, 92.0, 64.0
SECONDS = 40.0
"""The last seconds of a stream are drawn."""

_PRE = (
    "margin: 2px 0 6px 0; padding: 4px 8px; max-height: 24em; overflow: auto; text-align: left; white-space: pre;"
    "background: var(--jp-layout-color2, rgba(128, 128, 128, .12)); color: inherit; font-size: 12px"
)
_FAINT = "color: var(--jp-ui-font-color2, inherit)"
_BAR = 320.0
_SIGNS = {STRICT: "", RELAXED: "≥ "}
"""Signs before the time of a transaction, by what the server says about its limits."""

_COLOURS = {"client": "#7e57c2", "network": "#90a4ae", "server": "#26a69a"}


@dataclass(frozen=True)
class Section:
    """A request: its headline, and the outlines and sizes of the bodies of request and response."""

    headline: str
    sent: Json
    sent_size: int
    received: Json
    received_size: int
    error: str


def page(
    summary: str, timing: Timing | None, sections: Sequence[Section], streams: Sequence[StreamTimeline], *, stable: bool
) -> str:
    """Return a trace as HTML; without ``timing`` it has no bar of the time, if ``stable`` pictures are not to scale."""
    parts = [f"<div><strong>On the wire:</strong> {svg.escaped(summary)}</div>"]
    if timing is not None:
        parts.append(_timing_bar(timing))
    attribute = " open" if len(sections) <= OPEN_SECTIONS else ""
    for request in sections:
        parts += [
            f'<details{attribute}><summary style="cursor: pointer">{svg.escaped(request.headline)}</summary>',
            _body("→", request.sent, request.sent_size),
            _body("←", request.received, request.received_size),
        ]
        if request.error:
            parts.append(f'<div style="color: var(--jp-error-color1, #d32f2f)">{svg.escaped(request.error)}</div>')
        parts.append("</details>")
    for stream in streams:
        title = f'<div style="{_FAINT}">The stream of {svg.escaped(stream.connection)}</div>'
        parts += [title, StreamPicture(stream, stable=stable).svg()]
    return literal_html(f'<div style="line-height: 1.4">{"".join(parts)}</div>')


def _body(mark: str, body: object, size: int) -> str:
    if body is None:
        return f'<div style="{_FAINT}">{mark} {format_size(size)}, not kept</div>' if size else ""
    return f'<pre style="{escape(_PRE)}">{mark} {svg.escaped(format_json(body))}</pre>'


def _timing_bar(timing: Timing) -> str:
    """Return the time as a bar in three parts."""
    whole = timing.client + timing.network + timing.server or 1.0
    shapes, x, label_x = [], 0.0, 0.0
    for name, color in _COLOURS.items():
        seconds = getattr(timing, name)
        width, label = max(seconds / whole * _BAR, 1.0), f"{name} {format_seconds(seconds)}"
        shapes += [
            svg.box(x, 0, width, 12, fill=color, stroke="none"),
            svg.box(label_x, 20, 10, 10, fill=color, stroke="none"),
            svg.text(label_x + 15, 29, label),
        ]
        x, label_x = x + width, label_x + 15 + (len(label) + 2) * svg.CHARACTER
    return f"<div>{svg.picture(max(label_x, _BAR + 4), 34, f'Time: {timing}', *shapes)}</div>"


class StreamPicture:
    """The picture of a stream in three lanes: the stream, its transactions and the time.

    If ``stable``, it is not to scale: each request takes the same space.
    """

    def __init__(self, stream: StreamTimeline, *, stable: bool = False) -> None:
        self.stream, self.stable = stream, stable
        self.first = max(stream.started, stream.events[-1].request.ended - SECONDS)
        begins = [stream.events[first].request.started for first, _ in stream.transactions]
        last = max([stream.ended, *(start + TRANSACTION_LIMIT for start in begins)])
        self.span = max(last - self.first, 0.5)
        self.bars = self._bars()

    def svg(self) -> str:
        """Return the picture."""
        end = max(self.bars[-1][1], WIDTH - RIGHT if self.stable else self._x(self.stream.ended))
        title = " ".join(line.strip() + "." for line in self.stream.lines(stable=True))
        inside = [*self._lane_of_stream(end), *self._requests(), *self._transactions()]
        if not self.stable:
            inside += self._ticks()
        return svg.picture(max(WIDTH, self.bars[-1][1] + RIGHT), 96 if self.stable else 112, title, *inside)

    def _x(self, time: float) -> float:
        return LEFT + max(0.0, time - self.first) * (WIDTH - LEFT - RIGHT) / self.span

    def _bars(self) -> list[tuple[float, float]]:
        """Return left and right of each request, at least a few pixels wide and without overlap."""
        events, bars = self.stream.events, []
        if self.stable:
            step = (WIDTH - LEFT - RIGHT) / (len(events) + 1.5)
            return [(LEFT + index * step, LEFT + index * step + min(14.0, step * 0.7)) for index in range(len(events))]
        free = LEFT
        for request, *_ in events:
            left = max(self._x(request.started), free)
            bars.append((left, max(left + 4, self._x(request.ended))))
            free = bars[-1][1] + 2
        return bars

    def _lane_of_stream(self, end: float) -> list[str]:
        stream, left, right = self.stream, self.bars[0][0], self.bars[-1][1]
        shapes = [svg.text(8, 44, "stream", fill=svg.FAINT), svg.line([(left, 40), (right, 40)], stroke=svg.INK)]
        is_pending = stream.end in ("open", "overdue")
        if is_pending:
            shapes += [
                svg.line([(right, 40), (end, 40)], stroke=svg.FAINT, dashes="4 4"),
                svg.line([(end - 5, 35), (end + 5, 45)], stroke=svg.WARNING),
                svg.line([(end - 5, 45), (end + 5, 35)], stroke=svg.WARNING),
                svg.text(end, 26, "expires" if stream.end == "open" else "expired?", fill=svg.WARNING, anchor="middle"),
            ]
        else:
            color = svg.INK if stream.end == "closed" else svg.WARNING
            shapes += [
                svg.line([(right, 30), (right, 50)], stroke=color),
                svg.text(right + 6, 44, stream.end, fill=color),
            ]
        if left + 80 < end or stream.end != "open":
            label = "open" if stream.from_the_start and self.first <= stream.started else "…"
            shapes.append(svg.text(left, 26, label, fill=svg.FAINT))
        return shapes

    def _requests(self) -> list[str]:
        shapes, free = [], 0.0
        for event, (left, right) in zip(self.stream.events, self.bars, strict=True):
            color = svg.WARNING if event.refused else svg.ACCENT if event.number else svg.FAINT
            shapes.append(svg.box(left, 32, right - left, 16, fill=color, stroke="none"))
            if event.number and left >= free:
                label = str(event.number)
                shapes.append(svg.text(left, 62, label, fill=svg.ACCENT))
                free = left + (len(label) + 1) * svg.CHARACTER
        return shapes

    def _transactions(self) -> list[str]:
        shapes = []
        for first, last in self.stream.transactions:
            left = self.bars[first][0]
            right = self.bars[-1 if last is None else last][1]
            began = self.stream.events[first].request.started
            limit = right + 40 if self.stable else self._x(began + TRANSACTION_LIMIT)
            if limit > left:
                window = [(left, 72), (limit, 72), (limit, 84), (left, 84), (left, 72)]
                shapes.append(svg.line(window, stroke=svg.FAINT, dashes="3 3"))
                sign = _SIGNS.get(self.stream.events[first].request.limits, "≈ ")
                shapes.append(svg.text(limit + 4, 82, f"{sign}{TRANSACTION_LIMIT:g} s", fill=svg.FAINT))
            shapes.append(svg.box(left, 72, max(right - left, 4), 12, fill=svg.ACCENT, stroke="none"))
        return [svg.text(8, 82, "transaction", fill=svg.FAINT), *shapes] if shapes else []

    def _ticks(self) -> list[str]:
        step = next((step for step in (0.1, 0.5, 1, 2, 5, 10) if self.span / step <= 10), 20)
        start = self.first - self.stream.started
        shapes, tick = [svg.text(8, 106, "seconds", fill=svg.FAINT)], step * (start // step + (start % step > 0))
        while tick <= start + self.span + 1e-9:
            x = self._x(self.stream.started + tick)
            shapes.append(svg.line([(x, 90), (x, 94)]))
            shapes.append(svg.text(x, 106, f"{tick:g}", fill=svg.FAINT, anchor="middle"))
            tick += step
        return shapes
