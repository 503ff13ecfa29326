"""From the text of a cell to statements with their arguments: nothing is sent here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from pipemagic import sql
from pipemagic.errors import SessionError
from pipemagic.hrana.messages import Stmt
from pipemagic.session import kinds
from pipemagic.session.names import named
from pipemagic.session.text import parameters
from pipemagic.session.text.snippets import Snippets
from pipemagic.session.text.woven import Place, Source, Woven, whole


@dataclass(frozen=True)
class Cell:
    """The text as written, its statements, and the same statements with arguments, ready to be sent.

    ``stmts`` are what is sent, which may differ from what was written; `place` finds the way back. ``before`` counts
    the statements that stand before these in the text and are dealt with already. ``source`` says what the text is
    if it is not the cell's own, such as a file. ``names`` holds what ``-- name: x`` calls each of them, '' for nothing.
    """

    text: str
    statements: tuple[sql.ParsedStatement, ...]
    stmts: tuple[Stmt, ...]
    before: int = 0
    source: str = ""
    woven: tuple[Woven, ...] = ()
    names: tuple[str, ...] = ()

    def without_first(self) -> Cell:
        """Give the rest of the cell; statements and lines keep their numbers."""
        rest = (self.statements[1:], self.stmts[1:], self.woven[1:])
        names = self.names[1:]
        return replace(self, statements=rest[0], stmts=rest[1], woven=rest[2], names=names, before=self.before + 1)

    def limited(self, rows: int | None) -> Cell:
        """Give the cell with queries that stop one row after ``rows``, which tells whether there are more."""
        if rows is None:
            return self
        stmts, woven = list(self.stmts), list(self.woven)
        for at, statement in enumerate(self.statements):
            edit = kinds.limited(self.sent(at), rows + 1) if kinds.is_query(statement) else None
            if edit is not None:
                woven[at] = woven[at].edited([edit])
                stmts[at] = msgspec.structs.replace(stmts[at], sql=woven[at].text)
        return replace(self, stmts=tuple(stmts), woven=tuple(woven))

    @property
    def total(self) -> int:
        """How many statements the text has."""
        return self.before + len(self.statements)

    def sent(self, index: int) -> str:
        """Give the text of a statement as it is sent."""
        return self.stmts[index].sql or ""

    def as_sent(self, index: int) -> sql.ParsedStatement:
        """Return a statement as it is sent."""
        return sql.parse(self.sent(index))

    def place(self, index: int, offset: int) -> Place:
        """Find where in what was written a character of a statement, as it is sent, comes from."""
        if self.woven:
            return self.woven[index].place(offset)
        return Place(Source(self.text, self.source), self.statements[index].start + offset)


def read(
    text: str,
    values: Mapping[str, object] | None = None,
    *,
    source: str = "",
    using: Sequence[str] = (),
    snippets: Snippets | None = None,
) -> Cell:
    """Split a cell and bind the parameters of its statements to ``values``.

    ``source`` names the text in messages if it is not the cell's own. ``using`` are the ``snippets`` that its
    statements read from. Raises SessionError if there is no statement, or none for one of these, or a ``-- name:`` that
    names none; ParameterError for a ``?``, a name without a value, and a value that SQL cannot hold.
    """
    statements = sql.split(text)
    if not statements:
        raise SessionError("there is no SQL to run", hint="write a statement below %%sql, or after %sql")
    written, names = Source(text, source), named(text, statements)
    wholes = [whole(written, one.start, one.text) for one in statements]
    if using:
        wholes = _with_snippets(wholes, using, snippets or Snippets())
    bound = [parameters.bind(one, values) for one in wholes]
    stmts, woven = tuple(stmt for _, stmt in bound), tuple(woven for woven, _ in bound)
    return Cell(text, statements, stmts, 0, source, woven, names)


def _with_snippets(statements: Sequence[Woven], using: Sequence[str], snippets: Snippets) -> list[Woven]:
    made, met = [], set()
    for one in statements:
        woven, used = snippets.in_front(one, using)
        made.append(woven)
        met |= used
    for name in using:
        if snippets.get(name).name not in met:
            raise SessionError(f"--with {name}: no statement of the cell reads from {name}")
    return made
