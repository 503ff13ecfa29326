"""The properties of a statement that follow from its text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice, takewhile
from typing import Self

from pipemagic import sql as sqltext
from pipemagic.errors import ProtocolError
from pipemagic.hrana import faults
from pipemagic.hrana.messages import Error, NamedArg
from pipemagic.hrana.values import Float, SqlValue, Value, decode
from pipemagic.service.sqlite import alter_column
from pipemagic.service.sqlite.alter_column import AlterColumn
from pipemagic.service.sqlite.sandbox import ANSWERED, IGNORED, ignores
from pipemagic.service.sqlite.virtual_tables import DATABASE_LIST
from pipemagic.service.top_queries import without_values
from pipemagic.sql import ParsedStatement
from pipemagic.sql.statement import READ_PRAGMAS
from pipemagic.sql.tokenizer import BLANK

_ENDS = frozenset({"COMMIT", "END", "ROLLBACK", "RELEASE"})
_DATABASE_LIST = re.compile(r"PRAGMA (?:\w+ \. )?DATABASE_LIST")
_BEGIN_READONLY = re.compile(r"BEGIN READONLY(?: TRANSACTION)?")


class Rejected(Exception):
    """A request that fails like a statement: its error becomes the entry."""

    def __init__(self, message: str, code: str, extended_code: str | None = None) -> None:
        super().__init__(message)
        self.error = Error(message, code, extended_code)

    @classmethod
    def of(cls, error: Error) -> Self:
        """Create it from an error in its form on the wire."""
        return cls(error.message, error.code or "SQLITE_ERROR", error.extended_code)


class SqlStatement:
    """One statement as SQLite gets it: text, keyword, verb behind a WITH, and parameters as SQLite numbers them.

    Its properties are computed once: every run reads them.
    """

    def __init__(
        self, statement: ParsedStatement, skipped: int, *, parameters: tuple[str | None, ...] | None = None,
        begins_read_only: bool = False, alters_column: AlterColumn | None = None,
    ) -> None:  # fmt: skip
        self.text, self.keyword = statement.text, statement.keyword
        self.parameters = statement.parameters if parameters is None else parameters
        self.skipped = skipped
        """UTF-8 bytes before the statement in the SQL text: comments, blanks, earlier statements."""
        self.begins_read_only = begins_read_only
        """True if it is libSQL's BEGIN READONLY; ``text`` is then what SQLite understands."""
        self.alters_column = alters_column
        """libSQL's ALTER TABLE ... ALTER COLUMN; ``text`` is then a statement of SQLite with the same checks."""
        keyword, verb = statement.keyword, statement.verb
        self.commits = keyword in _ENDS
        """True if it ends a transaction: once started, it is never interrupted."""
        self.changes_rows = statement.changes_rows
        """True if ``affected_row_count`` counts its rows."""
        self.explains = keyword == "EXPLAIN"
        """True if it only shows a plan, so that nothing is written and parameters may stay unbound."""
        self.only_reads = statement.only_reads
        """True if it can run at a replica: a query, or EXPLAIN of any statement."""
        self.may_read = self.only_reads or keyword == "PRAGMA"
        """True if it may read from the database for long without the write lock."""
        self.inserts = verb in ("INSERT", "REPLACE")
        """True if it sets ``last_insert_rowid``."""
        self.changes_schema = keyword in ("CREATE", "ALTER", "DROP", "VACUUM")
        """True if cached column lists may be stale after it."""
        self.frees_space = verb == "DELETE" or keyword in ("DROP", "VACUUM")
        """True if it can make the database smaller."""
        self.copies = keyword == "VACUUM" and "INTO" in _normalized(statement.text).split()
        """True if it is VACUUM INTO, which writes another file, with or without a name."""
        name = statement.pragma[0] if keyword == "PRAGMA" else ""
        self.writes_by_itself = name in ("optimize", "incremental_vacuum")
        """True if it writes although SQLite reports it as read-only when it is prepared."""
        self.needs_full_access = keyword == "PRAGMA" and name not in READ_PRAGMAS and name not in IGNORED
        """True if it may be a setting, which a read-only token may not change although the file is not written."""

    @cached_property
    def without_values(self) -> str:
        """The text without values; see `top_queries.without_values`."""
        return without_values(self.text)


LONGEST_CACHED = 4096
"""Characters of the longest text that is cached as a statement."""


def parse(text: str) -> SqlStatement:
    """Parse a text with exactly one statement; raise `Rejected` otherwise."""
    statements = list(islice(sqltext.each(text), 2))
    if not statements:
        raise Rejected("SQL string does not contain any statement", faults.SQL_NO_STATEMENT)
    if len(statements) > 1:
        raise Rejected("SQL string contains more than one statement", faults.SQL_MANY_STATEMENTS)
    return first(text, statements[0])


cached_parse = lru_cache(maxsize=2048)(parse)
"""`parse`, for texts of up to `LONGEST_CACHED` characters."""


def first(script: str, statement: ParsedStatement) -> SqlStatement:
    """Return the first statement of a script; raise `Rejected` if it is not valid.

    The comment behind a query belongs to its text: SQLite's name of a last column without an alias contains it.
    """
    first = _of_statement(statement, _size(script[: statement.start]))
    rest = script[statement.start + len(statement.text) :]
    if rest.strip(" ;\n") and first.only_reads and first.text is statement.text and "\0" not in rest:
        comment = takewhile(lambda token: token.kind in BLANK, sqltext.tokens(rest))
        first.text += "".join(token.text for token in comment).rstrip()
    return first


def of_script(script: str) -> Iterator[SqlStatement]:
    """Yield the statements of a script; raise `Rejected` as `first` does."""
    start = skipped = 0
    for statement in sqltext.each(script):
        skipped += _size(script[start : statement.start])
        start = statement.start
        yield _of_statement(statement, skipped)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _answer(statement: ParsedStatement) -> str | None:
    """Return the statement that reads the present value, for a setting that is ignored and returns it."""
    name, sign = statement.pragma
    if sign not in ("=", "(") or name not in ANSWERED:
        return None
    tokens = list(statement.tokens)
    place = next(index for index, token in enumerate(tokens) if token.text == sign)
    value = "".join(token.text for token in tokens[place + 1 :] if token.text not in (")", ";"))
    return statement.text[: tokens[place].start] if ignores(name, sqltext.normalize(value)) else None


def _of_statement(statement: ParsedStatement, skipped: int) -> SqlStatement:
    if "\0" in statement.text:  # SQLite would silently stop reading there
        raise Rejected("SQL text cannot hold a NUL character; pass it in an argument", faults.SQL_PARSE_ERROR)
    if statement.keyword == "BEGIN" and _BEGIN_READONLY.fullmatch(_normalized(statement.text)):
        return SqlStatement(sqltext.parse("BEGIN"), skipped, begins_read_only=True)
    if statement.keyword == "PRAGMA" and _DATABASE_LIST.fullmatch(_normalized(statement.text)):
        return SqlStatement(sqltext.parse(f"SELECT seq, name, file FROM temp.{DATABASE_LIST}"), skipped)
    if statement.keyword == "PRAGMA" and (answer := _answer(statement)):
        return SqlStatement(sqltext.parse(answer), skipped)
    if statement.keyword == "ALTER" and len(statement.text) <= alter_column.LONGEST:
        change = alter_column.parse(statement.text)
        sent = statement if change is None else sqltext.parse(change.renaming)
        return SqlStatement(sent, skipped, parameters=statement.parameters, alters_column=change)
    return SqlStatement(statement, skipped)


def _normalized(text: str) -> str:
    """Return the tokens of a short statement in capitals, separated by one blank."""
    return " ".join(token.text for token in sqltext.significant(text)).upper()


def bind(
    statement: SqlStatement, args: Sequence[Value] | None, named: Sequence[NamedArg] | None
) -> tuple[SqlValue, ...]:
    """Return one value for each parameter, in SQLite's numbering.

    An exact name (``:a``) takes precedence over a bare one (``a``), which matches every prefix; of two equal names the
    last is used. Names are not bound by position, nor numbers by name. Raise `Rejected` for missing and surplus
    arguments.
    """
    if args and named:
        raise Rejected("positional and named arguments cannot be mixed in one statement", faults.ARGS_BOTH)
    if named:
        return _bind_named(statement, named)
    values = [_argument(value) for value in args or ()]
    if statement.explains:
        values += [None] * (len(statement.parameters) - len(values))
    elif missing := next((name for name in statement.parameters if name and name[0] != "?"), None):
        raise Rejected(f"value for parameter {missing} not found", faults.ARGS_INVALID)
    if len(values) != len(statement.parameters):
        raise Rejected(
            f"the statement has {len(statement.parameters)} parameters, but {len(values)} arguments were given",
            faults.ARGS_INVALID,
        )
    return tuple(values)


def _argument(value: Value) -> SqlValue:
    if isinstance(value, Float) and value.value is None:
        raise Rejected("a float argument must be a number", faults.ARGS_INVALID)
    try:
        return decode(value)
    except ProtocolError as error:
        raise Rejected(f"an argument cannot be read: {error.message}", faults.ARGS_INVALID) from None


def _bind_named(statement: SqlStatement, named: Sequence[NamedArg]) -> tuple[SqlValue, ...]:
    values = {arg.name: _argument(arg.value) for arg in named}
    names: set[str] = set()
    bound: list[SqlValue] = []
    for name in statement.parameters:
        if name is None or name.startswith("?"):
            raise Rejected("a parameter without a name cannot be bound by name", faults.ARGS_INVALID)
        key = name if name in values else name[1:]
        if key in values:
            names.add(key)
            bound.append(values[key])
        elif statement.explains:
            bound.append(None)
        else:
            raise Rejected(f"value for parameter {name} not found", faults.ARGS_INVALID)
    # If an exact name took precedence over a bare one, that is no error.
    names |= {name[1:] for name in names if name[0] in ":@$"}
    if surplus := next((name for name in values if name not in names), None):
        raise Rejected(f"there is no parameter {surplus} in the statement", faults.ARGS_INVALID)
    return tuple(bound)
