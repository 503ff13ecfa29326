"""Notes below a cell on SQL that SQLite runs silently (see `explore.lint`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pipemagic.svg import FAINT
from pipemagic.text import escape_controls, literal_html

if TYPE_CHECKING:
    from pipemagic.session.cell import Cell
    from pipemagic.session.results import Outcome
    from pipemagic.session.schema_cache import SchemaCache

_MAX_STATEMENTS = 50  # of a cell are examined
_MAX_CHARACTERS = 20_000
FOUND_IN = re.compile(
    r"""["'({/%<>=+:@$-]|null|between|join|\bgo\b|\*(?!\s*(?:from\b|[,;]|\Z))|[^\x00-\x7f]""", re.IGNORECASE
)
"""Matches every text that has a construct to note (:@${ begin parameters); others need not be parsed."""


@dataclass(frozen=True, repr=False)
class Notes:
    """Grey lines in a notebook, plain lines elsewhere."""

    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(escape_controls(line) for line in self.lines)

    def _repr_html_(self) -> str:
        body = "<br>".join(escape(escape_controls(line)) for line in self.lines)
        return literal_html(f'<div class="pipemagic-notes" style="color: {FAINT}; font-size: 90%">{body}</div>')


def notes_on(
    cell: Cell, schema: SchemaCache, variables: Mapping[str, object], outcomes: Sequence[Outcome] = ()
) -> Iterator[str]:
    """Yield a line for each construct in the cell that `pipemagic.explore.lint` finds.

    ``variables`` are those that its parameters could be bound to. ``outcomes`` are those of its statements: what they
    returned can show that a note would be wrong.
    """
    left = _MAX_CHARACTERS
    for number, statement in enumerate(cell.statements[:_MAX_STATEMENTS]):
        left -= len(statement.text)
        if left < 0:
            return
        if not FOUND_IN.search(statement.text):
            continue
        from pipemagic.client.arguments import values_of
        from pipemagic.explore.lint import lint, tables_of_with

        tables = {relation.name.lower(): relation for relation in schema.tables}
        sent = cell.stmts[number].sql or ""
        if sent is not statement.text and sent[:4].upper() == "WITH" and len(sent) <= _MAX_CHARACTERS:
            tables |= tables_of_with(sent, tables)  # saved SELECTs are not in the statement as it is written
        where = f" on statement {cell.before + number + 1}" if cell.total > 1 else ""
        result = outcomes[number].result if number < len(outcomes) else None
        dates = cell.dates[number] if cell.dates else ()
        args = values_of(cell.stmts[number])
        for line in lint(statement.text, args, tables, result=result, dates=dates, variables=variables):
            yield f"Note{where}: {line}."
