"""The strip above the result of a cell with several statements: what each of them did."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pipemagic.counts import plural
from pipemagic.sql import display_width
from pipemagic.svg import FAINT, INK, LINE, WARNING, printable, shortened

if TYPE_CHECKING:
    from pipemagic.session import CellResult, Outcome

WIDTH = 56
"""Characters of a statement that are shown."""

_STYLE = (
    f"<style>.pipemagic-strip {{ border-collapse: collapse; border: none; border-left: 2px solid {LINE} }}"
    " .pipemagic-strip tr, .pipemagic-strip td"
    f" {{ background: none !important; border: none; color: {INK}; text-align: left !important;"
    " padding: 1px 16px 1px 6px; white-space: pre }"
    " .pipemagic-strip .text { font-family: var(--jp-code-font-family, monospace) }"
    f" .pipemagic-strip .failed td {{ color: {WARNING} }} .pipemagic-strip .faint td {{ color: {FAINT} }}</style>"
)


@dataclass(frozen=True)
class Row:
    """A statement: its number, its name or '', its text in short, what came of it, its time or ''."""

    number: str
    name: str
    text: str
    came: str
    time: str = ""
    alarming: bool = False
    faint: bool = False


@dataclass(frozen=True, repr=False)
class Strip:
    """Shown as a table in a notebook, and as aligned lines elsewhere."""

    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        lines = [(row.number, row.name, row.text, row.came, row.time) for row in self.rows]
        widths = [max(display_width(line[place]) for line in lines) for place in range(5)]
        return "\n".join(
            "  ".join(_padded(text, width) for text, width in zip(line, widths, strict=True) if width).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        timed = any(row.time for row in self.rows)
        named = any(row.name for row in self.rows)
        body = "".join(_html(row, named=named, timed=timed) for row in self.rows)
        return f'{_STYLE}<table class="pipemagic-strip"><tbody>{body}</tbody></table>'


def strip(result: CellResult, *, timed: bool = False) -> Strip:
    """Describe what each statement of a cell did; ``timed`` adds how long the server took for each."""
    ran = [_ran(number, outcome, timed) for number, outcome in enumerate(result.outcomes, start=1)]
    rest = []
    for number, statement in enumerate(result.rest, start=len(ran) + 1):
        refused = statement is result.failed
        came = f"failed: {shortened(printable(result.fault), WIDTH)}" if refused else "not run"
        rest.append(Row(str(number), "", short(statement.text), came, alarming=refused, faint=not refused))
    return Strip((*ran, *rest))


def _ran(number: int, outcome: Outcome, timed: bool) -> Row:
    time = milliseconds(outcome.result.query_duration_ms) if timed else ""
    return Row(str(number), outcome.name, short(outcome.statement.text), came_of(outcome), time)


def came_of(outcome: Outcome) -> str:
    """Say in a few words what a statement did."""
    count, parts = outcome.affected_row_count, []
    if outcome.more:
        parts.append(f"first {plural(len(outcome.result.rows), 'row')}; there are more")
    elif outcome.has_columns:
        parts.append(plural(len(outcome.result.rows), "row"))
        parts += [f"{count:,} affected"] if count else []
    elif outcome.statement.changes_rows:
        parts.append(f"{plural(count, 'row')} affected")
    parts += ["undone"] if outcome.undone else []
    return ", ".join(parts) or "done"


def milliseconds(time: float | None) -> str:
    """Write a time, '?' where the server does not tell it."""
    return "?" if time is None else f"{time:.2f} ms"


def short(text: str, width: int = WIDTH) -> str:
    """Give a statement as one line that a terminal can show."""
    return shortened(printable(" ".join(text.split())), width)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))


def _html(row: Row, *, named: bool, timed: bool) -> str:
    cells = [
        ("", row.number),
        *([("", row.name)] if named else []),
        ("text", row.text),
        ("", row.came),
        *([("", row.time)] if timed else []),
    ]
    kind = "failed" if row.alarming else "faint" if row.faint else ""
    return f"<tr{_classed(kind)}>{''.join(f'<td{_classed(of)}>{escape(what)}</td>' for of, what in cells)}</tr>"


def _classed(name: str) -> str:
    return f' class="{name}"' if name else ""
