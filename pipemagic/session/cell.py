"""Parse the text of a cell into statements with their arguments; nothing is sent."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from pipemagic import sql
from pipemagic.errors import SessionError, StatementError
from pipemagic.explore.conditions import is_balanced
from pipemagic.explore.schema import Relation
from pipemagic.hrana.messages import Stmt
from pipemagic.session.parameters import HAS_PARAMETERS, Dates, bind
from pipemagic.session.snippets import Snippets
from pipemagic.session.source_map import Edit, Segment, SourceMap, SourcePosition, SourceText
from pipemagic.sql import ParsedStatement, Token

_SHORT = 4096
"""The maximum length in characters of texts with cached statements."""

READS_TABLES = re.compile(r"\b(?:FROM|JOIN|IN)\b", re.IGNORECASE)
"""Matches every statement that reads a table."""

_FIRST, _LAST = "SELECT * FROM (\n", "\n) LIMIT {}"
"""The beginning and the end of a statement of `Cell.first_rows`."""

_NAME = re.compile(r"--[ \t]*name[ \t]*:[ \t]*(\w+)\s*")


class FramePolicy(NamedTuple):
    """Whether the rows of frames may be sent: to this machine, ``anywhere``; ``on`` is the named connection, if any."""

    automatic: bool = False
    anywhere: bool = False
    on: str | None = None


class Scope(NamedTuple):
    """A statement that reads frames, without their rows, and the tables and frames that it reads, by name."""

    text: str
    tables: Mapping[str, Relation]


@dataclass(frozen=True)
class Cell:
    """The text of a cell, its statements, and the same statements with arguments, ready to be sent.

    ``stmts`` are sent; where they differ from the written text, ``source_maps`` and `position` map offsets back.
    ``before`` is the number of earlier statements of the text, which have run. ``source`` describes a text that is not
    the cell's own, such as a file. ``names`` are the names of the statements (``-- name: x``), '' for none. ``dates``
    are arguments of each statement that are dates where they are compared with DATE columns: the connection reads the
    types and replaces them (`pipemagic.session.date_parameters`). ``snippets`` are all saved SELECTs, for
    hints.

    ``frames`` are the frames that each statement may read, by their names in the notebook. The connection asks for
    tables of these names; if the ``frame_policy`` allows it, it adds the rows of the others as arguments, and the
    ``scopes`` of the statements (`pipemagic.session.frames`).
    """

    text: str
    statements: tuple[ParsedStatement, ...]
    stmts: tuple[Stmt, ...]
    before: int = 0
    source: str = ""
    source_maps: tuple[SourceMap, ...] = ()
    names: tuple[str, ...] = ()
    dates: tuple[Dates, ...] = ()
    snippets: Snippets | None = field(default=None, repr=False, compare=False)
    frames: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    frame_policy: FramePolicy | None = field(default=None, repr=False)
    scopes: tuple[Scope | None, ...] = field(default=(), repr=False)

    def without_first(self) -> Cell:
        """Return the rest of the cell; statements and lines keep their numbers."""
        return replace(
            self, statements=self.statements[1:], stmts=self.stmts[1:], source_maps=self.source_maps[1:],
            names=self.names[1:], dates=self.dates[1:], frames=self.frames[1:], before=self.before + 1,
        )  # fmt: skip

    def only_first(self) -> Cell:
        """Return the cell with its first statement alone."""
        return replace(self, statements=self.statements[:1], stmts=self.stmts[:1])

    def limited(self, rows: int) -> Cell:
        """Return the cell with queries limited to ``rows`` rows and one more, which shows whether there are more."""
        stmts = list(self.stmts)
        source_maps = list(self.all_source_maps)
        for at in range(len(self.statements)):
            statement = self.as_sent(at)
            edit = _limit(statement, rows + 1) if statement.is_query else None
            if edit is not None:
                source_maps[at] = source_maps[at].edited([edit])
                stmts[at] = msgspec.structs.replace(stmts[at], sql=source_maps[at].text)
        return replace(self, stmts=tuple(stmts), source_maps=tuple(source_maps))

    def first_rows(self, count: int) -> Cell:
        """Return the cell with its last query as a subquery that returns its first rows."""
        end = len(self.sent(-1))
        if not is_balanced(self.sent(-1)):  # the server refuses it, but perhaps not as a subquery
            return self
        return self._with_last([Edit(0, 0, _FIRST), Edit(end, end, _LAST.format(count))])

    def without_subquery(self, count: int, error: StatementError) -> tuple[Cell, StatementError]:
        """Return the cell before `first_rows`, and an error of its last statement as the server would report it."""
        text, last = self.sent(-1), _LAST.format(count)
        if not text.endswith(last) or error.index != len(self.stmts) - 1:
            return self, error
        cell = self._with_last([Edit(0, len(_FIRST), ""), Edit(len(text) - len(last), len(text), "")])
        end = len(cell.sent(-1).encode())
        offset = None if error.offset is None else error.offset - len(_FIRST)
        message = error.message if offset is None or offset < end else "incomplete input"
        return cell, error.replace(message=message, offset=None if offset is None else min(offset, end))

    def _with_last(self, edits: Sequence[Edit]) -> Cell:
        *others, last = self.all_source_maps
        last = last.edited(edits)
        stmt = msgspec.structs.replace(self.stmts[-1], sql=last.text)
        return replace(self, stmts=(*self.stmts[:-1], stmt), source_maps=(*others, last))

    @property
    def all_source_maps(self) -> Sequence[SourceMap]:
        """The source map of each statement, also of those that are sent as written."""
        return self.source_maps or _as_written(self.statements, SourceText(self.text, self.source))

    @property
    def texts(self) -> dict[str, str]:
        """The user's text of each statement by the SQL that is sent for it."""
        sent = (stmt.sql or "" for stmt in self.stmts)
        return dict(zip(sent, (statement.text for statement in self.statements), strict=True))

    @property
    def saved(self) -> list[str]:
        """The names of all saved SELECTs."""
        return [snippet.name for snippet in self.snippets or ()]

    @property
    def total(self) -> int:
        """The number of statements in the text."""
        return self.before + len(self.statements)

    @property
    def begin_mode(self) -> str:
        """The mode of an atomic cell's transaction: a cell that only reads does not wait for writers."""
        return "DEFERRED" if all(statement.only_reads for statement in self.statements) else "IMMEDIATE"

    def sent(self, index: int) -> str:
        """Return the text of a statement as it is sent."""
        return self.stmts[index].sql or ""

    def as_sent(self, index: int) -> ParsedStatement:
        """Return a statement as it is sent."""
        statement, text = self.statements[index], self.stmts[index].sql or ""
        return statement if text == statement.text else sql.parse(text)

    def position(self, index: int, offset: int) -> SourcePosition:
        """Return the position in the written text of a character of a statement as it is sent."""
        if self.source_maps:
            return self.source_maps[index].position(offset)
        return SourcePosition(SourceText(self.text, self.source), self.statements[index].start + offset)


@dataclass(frozen=True)
class RunOptions:
    """Options for running a cell.

    ``close`` ends the stream afterwards. ``tables`` is how many statements must return columns. With ``atomic`` all
    of the cell is applied, or nothing. ``limit`` is the maximum number of rows of a query, ``timeout`` how many seconds
    to wait for the response. With ``first_rows`` the last statement, a query, returns that many rows, and the result
    has it as it was sent. ``progress`` is called with the number of rows of a large result received so far. Without
    ``says_open`` an error does not say that the transaction is still open.
    """

    close: bool = False
    tables: int | None = None
    atomic: bool = False
    limit: int | None = None
    timeout: float | None = None
    first_rows: int | None = None
    progress: Callable[[int], None] | None = None
    says_open: bool = True


DEFAULTS = RunOptions()

NO_CELL = Cell("", (), ())


def parse_cell(
    text: str,
    values: Mapping[str, object] | None = None,
    *,
    source: str = "",
    using: Sequence[str] = (),
    snippets: Snippets | None = None,
) -> Cell:
    """Split a cell and bind the parameters of its statements to ``values``.

    ``source`` names the text in messages if it is not the cell's own. ``using`` are the ``snippets`` that its
    statements read from. Raise SessionError if there is no statement, or none for one of these; ParameterError for a
    ``?``, a name without a value, and a value that SQL cannot hold.
    """
    statements, names, plain = _read_short(text) if len(text) <= _SHORT else _read(text)
    if not statements:
        raise SessionError("no SQL to run", hint="write a statement below %%sql, or after %sql")
    if plain and not using:
        return Cell(text, statements, plain, source=source, names=names, snippets=snippets)
    unbound = _as_written(statements, SourceText(text, source))
    if using:
        unbound = (snippets or Snippets()).put_in_front(unbound, using)
    bound = [bind(source_map, values) for source_map in unbound]
    source_maps, stmts, dates = zip(*bound, strict=True)
    return Cell(text, statements, stmts, 0, source, source_maps, names, dates if any(dates) else (), snippets)


def _read(text: str) -> tuple[tuple[ParsedStatement, ...], tuple[str, ...], tuple[Stmt, ...]]:
    """Return the statements of a text, their names, and what is sent of one without parameters; () if it has some."""
    statements = sql.split(text)
    names = _names(text, statements) if "--" in text else ("",) * len(statements)
    plain = () if HAS_PARAMETERS.search(text) else tuple(Stmt(statement.text) for statement in statements)
    return statements, names, plain


_read_short = lru_cache(maxsize=128)(_read)
"""`_read` for texts that are not long, of which many run again."""


def _as_written(statements: Sequence[ParsedStatement], source: SourceText) -> list[SourceMap]:
    return [SourceMap((Segment(statement.text, source, statement.start),)) for statement in statements]


# -- names: which variable holds the rows of a statement


def _names(script: str, statements: Sequence[ParsedStatement]) -> tuple[str, ...]:
    """Return the name of each statement, '' for none; of several statements with one name, the last one has it."""
    names, end = [""] * len(statements), 0
    last: dict[str, int] = {}  # where each name is
    for number, statement in enumerate(statements):
        if name := name_between(script, end, statement.start):
            last[name] = number
        end = statement.start + len(statement.text)
    for name, number in last.items():
        names[number] = name
    return tuple(names)


def name_between(script: str, start: int, end: int) -> str:
    """Return the name in the last `-- name: x` between two statements, '' for none.

    Other tools and people write the same words with more behind them: these are comments.
    """
    name = ""
    for token in sql.tokens(script[start:end]):
        if token.kind == "semi":
            name = ""  # it precedes an empty statement
        elif token.kind == "comment" and (match := _NAME.fullmatch(token.text)) is not None:
            line = script.rfind("\n", 0, start + token.start) + 1
            is_alone = not script[line : start + token.start].strip()
            if is_alone and match[1].isidentifier() and not keyword.iskeyword(match[1]):
                name = match[1]
    return name


# -- queries with a limit


def _limit(query: ParsedStatement, rows: int) -> Edit | None:
    """Return the edit that limits a query to ``rows`` rows, or to fewer if its own LIMIT is lower.

    Only a LIMIT is added or changed: names, declared types and order stay. None for a query that ends with VALUES,
    which takes no LIMIT and has no more rows than the user wrote.
    """
    outer, end = tuple(query.outer_tokens), len(query.text)
    words = [token.word for token in outer]
    if next((word for word in reversed(words) if word in ("SELECT", "VALUES")), "") != "SELECT":
        return None
    if "LIMIT" not in words:
        return Edit(end, end, f"\nLIMIT {rows}")
    clause = outer[len(words) - words[::-1].index("LIMIT") :]
    if not clause:
        return None
    start = clause[0].start
    limit, offset = _limit_and_offset(query.text[start:], clause)
    fewer = f"CASE WHEN typeof({limit}) = 'integer' AND ({limit}) NOT BETWEEN 0 AND {rows} THEN {rows} ELSE {limit} END"
    return Edit(start, end, f"{fewer} OFFSET {offset}" if offset else fewer)


def _limit_and_offset(text: str, clause: Sequence[Token]) -> tuple[str, str]:
    """Return the two expressions after LIMIT, the second '' if there is none."""
    for token in clause:
        before, after = text[: token.start - clause[0].start], text[token.end - clause[0].start :]
        if token.word == "OFFSET":
            return _without_comments(before), _without_comments(after)
        if token.text == ",":  # LIMIT offset, rows
            return _without_comments(after), _without_comments(before)
    return _without_comments(text), ""


def _without_comments(text: str) -> str:
    """Return an expression without comments, which could swallow what is written after it."""
    return "".join(" " if token.kind == "comment" else token.text for token in sql.tokens(text)).strip()
