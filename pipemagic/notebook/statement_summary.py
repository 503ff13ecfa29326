"""The summary above the results of a cell with several statements: the outcome of each statement."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from pipemagic.svg import FAINT, INK, LINE, WARNING
from pipemagic.text import escape_controls, literal_html, plural, shorten, text_table

if TYPE_CHECKING:
    from pipemagic.session import CellResult, Outcome

WIDTH = 56
"""Maximum number of characters of a statement that are shown."""

_STYLE = (
    f"<style>.pipemagic-summary {{ border-collapse: collapse; border: none; border-left: 2px solid {LINE} }}"
    " .pipemagic-summary tr, .pipemagic-summary td"
    f" {{ background: none !important; border: none; color: {INK}; text-align: left !important;"
    " padding: 1px 16px 1px 6px; white-space: pre }"
    " .pipemagic-summary .text { font-family: var(--jp-code-font-family, monospace) }"
    f" .pipemagic-summary .failed td {{ color: {WARNING} }} .pipemagic-summary .faint td {{ color: {FAINT} }}</style>"
)
_CLASSES = ("", "", "text", "", "")  # of the columns


class Row(NamedTuple):
    """One statement: number, name or "", shortened text, outcome, server time or "".

    ``style`` is "failed", "faint" for a statement that did not run, or "".
    """

    number: str
    name: str
    text: str
    outcome: str
    time: str = ""
    style: str = ""


@dataclass(frozen=True, repr=False)
class StatementSummary:
    """A table in a notebook, aligned lines elsewhere; empty columns are left out."""

    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        return "\n".join(text_table(row[:-1] for row in self.rows))

    def _repr_html_(self) -> str:
        used = [any(column) for column in zip(*self.rows, strict=True)]
        body = ""
        for row in self.rows:
            cells = zip(_CLASSES, row, used, strict=False)  # all but the style
            columns = (f"<td{_class(name)}>{escape(text)}</td>" for name, text, has_text in cells if has_text)
            body += f"<tr{_class(row.style)}>{''.join(columns)}</tr>"
        return literal_html(f'{_STYLE}<table class="pipemagic-summary"><tbody>{body}</tbody></table>')


def summarize(result: CellResult, *, timed: bool = False) -> StatementSummary:
    """Return the summary of a cell; ``timed`` adds the time that the server took for each statement."""
    rows = [
        Row(
            str(number),
            outcome.name,
            _one_line(outcome.statement.text),
            describe_outcome(outcome),
            milliseconds(outcome.result.query_duration_ms) if timed else "",
        )
        for number, outcome in enumerate(result.outcomes, start=1)
    ]
    for number, statement in enumerate(result.rest, start=len(rows) + 1):
        failed = statement is result.failed
        outcome = f"failed: {shorten(escape_controls(result.fault), WIDTH)}" if failed else "not run"
        style = "failed" if failed else "faint"
        rows.append(Row(str(number), "", _one_line(statement.text), outcome, style=style))
    return StatementSummary(tuple(rows))


def describe_outcome(outcome: Outcome) -> str:
    """Return the outcome of a statement in a few words: ``2 rows affected``."""
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
    """Return a time with its unit, "?" if the server does not report it."""
    return "?" if time is None else f"{time:.2f} ms"


def _one_line(statement: str) -> str:
    return shorten(escape_controls(" ".join(statement.split())), WIDTH)


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
