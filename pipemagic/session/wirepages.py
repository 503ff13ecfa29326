"""A transcript as HTML: one fold for each request, the time as bars, the streams as pictures. Everything is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from pipemagic import svg

if TYPE_CHECKING:
    from pipemagic.client.exchanges import Exchange
    from pipemagic.session.transcripts import Transcript

UNFOLDED = 4
"""With at most so many requests their JSON shows without a click."""

_PRE = (
    "margin: 2px 0 6px 0; padding: 4px 8px; max-height: 24em; overflow: auto; text-align: left; white-space: pre;"
    "background: var(--jp-layout-color2, rgba(128, 128, 128, .12)); color: inherit; font-size: 12px"
)
_FAINT = "color: var(--jp-ui-font-color2, inherit)"
_BAR = 320.0
_COLOURS = ("#7e57c2", "#90a4ae", "#26a69a")


def page(transcript: Transcript) -> str:
    """Give the whole of it."""
    parts = [f"<div><strong>On the wire:</strong> {_words(transcript.summary())}</div>"]
    if transcript.exchanges and not transcript.stable:
        parts.append(_legs(transcript))
    for number, passage in enumerate(transcript.exchanges, 1):
        parts.append(_fold(transcript, number, passage.exchange))
    parts += [
        f'<div style="{_FAINT}">The stream of {_words(life.connection)}</div>{life.picture(stable=transcript.stable)}'
        for life in transcript.lives
    ]
    return f'<div style="line-height: 1.4">{"".join(parts)}</div>'


def _words(text: str) -> str:
    return svg.escaped(text)


def _fold(transcript: Transcript, number: int, exchange: Exchange) -> str:
    inside = [
        _body("→", transcript.request(exchange), exchange.sent_size),
        _body("←", transcript.answer(exchange), exchange.received_size),
    ]
    if exchange.error:
        inside.append(f'<div style="color: var(--jp-error-color1, #d32f2f)">{_words(exchange.error)}</div>')
    unfolded = " open" if len(transcript.exchanges) <= UNFOLDED else ""
    head = _words(transcript.headline(number))
    return f'<details{unfolded}><summary style="cursor: pointer">{head}</summary>{"".join(inside)}</details>'


def _body(mark: str, body: object, count: int) -> str:
    from pipemagic.session.transcripts import pretty, size

    if body is None:
        return f'<div style="{_FAINT}">{mark} {size(count)}, not kept</div>' if count else ""
    return f'<pre style="{escape(_PRE)}">{mark} {_words(pretty(body))}</pre>'


def _legs(transcript: Transcript) -> str:
    """Draw where the time went, as one bar in three parts."""
    from pipemagic.session.transcripts import ms

    legs = transcript.legs
    parts = [("client", legs.client), ("network", legs.network), ("server", legs.server)]
    whole = sum(seconds for _, seconds in parts) or 1.0
    drawn, x, words = [], 0.0, 0.0
    for (name, seconds), color in zip(parts, _COLOURS, strict=True):
        width = max(seconds / whole * _BAR, 1.0)
        drawn.append(svg.box(x, 0, width, 12, fill=color, stroke="none"))
        label = f"{name} {ms(seconds)}"
        drawn.append(svg.box(words, 20, 10, 10, fill=color, stroke="none"))
        drawn.append(svg.text(words + 15, 29, label))
        x, words = x + width, words + 15 + (len(label) + 2) * svg.CHARACTER
    title = "Time: " + ", ".join(f"{name} {ms(seconds)}" for name, seconds in parts)
    return f"<div>{svg.picture(max(words, _BAR + 4), 34, title, *drawn)}</div>"
