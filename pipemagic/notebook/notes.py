"""Notes below a cell on SQL that SQLite runs silently (see `explore.lint`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pipemagic.svg import FAINT, printable
from pipemagic.terminals import visible

if TYPE_CHECKING:
    from pipemagic.session.cell import Cell
    from pipemagic.session.schema_cache import SchemaCache

_STATEMENTS = 50  # of a cell that are read
_LONGEST = 20_000  # characters of a cell that are read
FOUND_IN = re.compile(r'["(/%]|null', re.IGNORECASE)
"""Every construct that is noted has one of these: most statements need not be parsed."""


@dataclass(frozen=True, repr=False)
class Notes:
    """Shown as grey lines in a notebook, and as lines elsewhere."""

    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(visible(line) for line in self.lines)

    def _repr_html_(self) -> str:
        body = "<br>".join(escape(printable(line)) for line in self.lines)
        return f'<div class="pipemagic-notes" style="color: {FAINT}; font-size: 90%">{body}</div>'


def notes_on(cell: Cell, schema: SchemaCache) -> Iterator[str]:
    """Yield a line for each construct of the cell's statements that `pipemagic.explore.lint` finds."""
    left = _LONGEST
    for number, statement in enumerate(cell.statements[:_STATEMENTS]):
        left -= len(statement.text)
        if left < 0:
            return
        if not FOUND_IN.search(statement.text):
            continue
        from pipemagic.client.arguments import values_of
        from pipemagic.explore.lint import lint

        known = {shape.name.lower(): shape for shape in schema.tables}
        where = f" on statement {cell.before + number + 1}" if cell.total > 1 else ""
        for line in lint(statement.text, values_of(cell.stmts[number]), known):
            yield f"Note{where}: {line}."
