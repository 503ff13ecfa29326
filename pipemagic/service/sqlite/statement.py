"""The properties of a statement that follow from its text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Self

from pipemagic import sql as sqltext
from pipemagic.errors import ProtocolError
from pipemagic.hrana import faults
from pipemagic.hrana.messages import Error, NamedArg
from pipemagic.hrana.values import Float, SqlValue, Value, decode
from pipemagic.service.sqlite import alter_column, database_list
from pipemagic.service.sqlite.alter_column import AlterColumn
from pipemagic.service.sqlite.sandbox import CATALOGUE

_VERBS = frozenset({"SELECT", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE"})
_ROW_CHANGES = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE"})
_ENDS = frozenset({"COMMIT", "END", "ROLLBACK", "RELEASE"})
_WRITING_PRAGMA = re.compile(r"PRAGMA\s+(?:\w+\s*\.\s*)?(?:optimize|incremental_vacuum)\b", re.IGNORECASE)
_PRAGMA = re.compile(r"PRAGMA\s+(?:\w+\s*\.\s*)?(\w+)", re.IGNORECASE)
_DATABASE_LIST = re.compile(r"PRAGMA (?:\w+ \. )?DATABASE_LIST")
_BEGIN_READONLY = re.compile(r"BEGIN READONLY(?: TRANSACTION)?")


class Rejected(Exception):
    """A request that fails like a statement: its error becomes the entry."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.error = Error(message, code)

    @classmethod
    def of(cls, error: Error) -> Self:
        """Create it from an error in its form on the wire."""
        return cls(error.message, error.code or "SQLITE_ERROR")


@dataclass(frozen=True, slots=True)
class Plan:
    """One statement's keyword, its verb behind a WITH, and its parameters as SQLite numbers them."""

    text: str
    skipped: int
    """UTF-8 bytes before the statement in the SQL text: comments, blanks, earlier statements."""
    keyword: str
    verb: str
    parameters: tuple[str | None, ...]
    begins_read_only: bool = False
    """Whether it is libSQL's BEGIN READONLY; ``text`` is then what SQLite understands."""
    alters_column: AlterColumn | None = None
    """libSQL's ALTER TABLE ... ALTER COLUMN ... TO ..., which SQLite cannot run."""

    begins: bool = field(init=False)
    """Whether it may open a transaction."""
    commits: bool = field(init=False)
    """Whether it ends a transaction: once started, it is never interrupted."""
    changes_rows: bool = field(init=False)
    """Whether ``affected_row_count`` counts its rows."""
    explains: bool = field(init=False)
    """Whether it only shows a plan, so that nothing is written and parameters may stay unbound."""
    only_reads: bool = field(init=False)
    """Whether it can run at a replica: a query, or EXPLAIN of any statement."""
    clears: bool = field(init=False)
    """Whether it empties a table."""
    inserts: bool = field(init=False)
    """Whether it sets ``last_insert_rowid``."""
    changes_schema: bool = field(init=False)
    """Whether cached column lists may be stale after it."""
    copies: bool = field(init=False)
    """Whether it is VACUUM INTO, which writes another file, with or without a name."""
    writes_by_itself: bool = field(init=False)
    """Whether it writes although SQLite reports it as read-only when it is prepared."""

    def __post_init__(self) -> None:
        note = partial(object.__setattr__, self)  # every run reads them, but a plan is created once
        note("begins", self.keyword in ("BEGIN", "SAVEPOINT"))
        note("commits", self.keyword in _ENDS)
        note("changes_rows", self.verb in _ROW_CHANGES)
        note("clears", self.verb == "DELETE" and "WHERE" not in self.text.upper())
        note("explains", self.keyword == "EXPLAIN")
        note("only_reads", self.explains or self.verb in ("SELECT", "VALUES"))
        note("inserts", self.verb in ("INSERT", "REPLACE"))
        note("changes_schema", self.keyword in ("CREATE", "ALTER", "DROP", "VACUUM"))
        words = [token.text.upper() for token in sqltext.tokens(self.text)] if self.keyword == "VACUUM" else []
        note("copies", "INTO" in words)
        note("writes_by_itself", self.keyword == "PRAGMA" and _WRITING_PRAGMA.match(self.text) is not None)

    @property
    def frees_space(self) -> bool:
        """Whether it can make the database smaller."""
        return self.verb == "DELETE" or self.keyword in ("DROP", "VACUUM")

    @property
    def needs_full_access(self) -> bool:
        """Whether it is a setting, which a read-only token may not change although the file is not written."""
        if self.keyword != "PRAGMA":
            return False
        name = _PRAGMA.match(self.text)
        return name is None or name[1].lower() not in CATALOGUE


LONGEST_CACHED = 4096
"""Characters of the longest text whose plan is cached."""


def parse(text: str) -> Plan:
    """Parse a text with exactly one statement; raise `Rejected` otherwise."""
    statements = sqltext.split(text)
    if not statements:
        raise Rejected("SQL string does not contain any statement", faults.SQL_NO_STATEMENT)
    if len(statements) > 1:
        raise Rejected("SQL string contains more than one statement", faults.SQL_MANY_STATEMENTS)
    return first(text, statements[0])


cached_parse = lru_cache(maxsize=2048)(parse)
"""`parse`, for texts of up to `LONGEST_CACHED` characters."""


def first(script: str, statement: sqltext.Statement) -> Plan:
    """Return the plan of the first statement of a script; raise `Rejected` if it is not valid."""
    return _of_statement(statement, _size(script[: statement.start]))


def of_script(script: str) -> Iterator[Plan]:
    """Yield the plans of the statements of a script; raise `Rejected` as `first` does."""
    start = skipped = 0
    for statement in sqltext.split(script):
        skipped += _size(script[start : statement.start])
        start = statement.start
        yield _of_statement(statement, skipped)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _of_statement(statement: sqltext.Statement, skipped: int) -> Plan:
    if "\0" in statement.text:  # SQLite would silently stop reading there
        raise Rejected("SQL text cannot hold a NUL character; pass it in an argument", faults.SQL_PARSE_ERROR)
    if statement.keyword == "BEGIN" and _BEGIN_READONLY.fullmatch(_normalized(statement.text)):
        return Plan("BEGIN", skipped, "BEGIN", "BEGIN", (), begins_read_only=True)
    if statement.keyword == "PRAGMA" and _DATABASE_LIST.fullmatch(_normalized(statement.text)):
        return Plan(database_list.QUERY, skipped, "SELECT", "SELECT", ())
    if statement.keyword == "ALTER":
        change = alter_column.parse(statement.text)
        return Plan(statement.text, skipped, "ALTER", "ALTER", statement.parameters, alters_column=change)
    verb = statement.keyword
    if verb == "WITH":
        verb = _verb_behind_with(statement.text)
    return Plan(statement.text, skipped, statement.keyword, verb, statement.parameters)


def _normalized(text: str) -> str:
    """Return the tokens of a short statement in capitals, separated by one blank."""
    found = (token for token in sqltext.tokens(text) if token.kind not in ("space", "comment", "semi"))
    return " ".join(token.text for token in found).upper()


def _verb_behind_with(text: str) -> str:
    """Find the first verb outside parentheses."""
    depth = 0
    for token in sqltext.tokens(text):
        if token.text == "(":
            depth += 1
        elif token.text == ")":
            depth -= 1
        elif depth == 0 and token.kind == "word" and token.text.upper() in _VERBS:
            return token.text.upper()
    return "WITH"


def bind(made: Plan, args: Sequence[Value] | None, named: Sequence[NamedArg] | None) -> tuple[SqlValue, ...]:
    """Return one value for each parameter, in SQLite's numbering.

    An exact name (``:a``) takes precedence over a bare one (``a``), which matches every prefix; of two equal names the
    last is used. Names are not bound by position, nor numbers by name. Raise `Rejected` for missing and surplus
    arguments.
    """
    if args and named:
        raise Rejected("positional and named arguments cannot be mixed in one statement", faults.ARGS_BOTH)
    if named:
        return _bind_named(made, named)
    given = [_argument(value) for value in args or ()]
    if made.explains and len(given) < len(made.parameters):
        given += [None] * (len(made.parameters) - len(given))
    for name in made.parameters:
        if name is not None and not name.startswith("?") and not made.explains:
            raise Rejected(f"value for parameter {name} not found", faults.ARGS_INVALID)
    if len(given) != len(made.parameters):
        raise Rejected(
            f"the statement has {len(made.parameters)} parameters, {len(given)} arguments were given",
            faults.ARGS_INVALID,
        )
    return tuple(given)


def _argument(value: Value) -> SqlValue:
    if isinstance(value, Float) and value.value is None:
        raise Rejected("a float argument must be a number", faults.ARGS_INVALID)
    try:
        return decode(value)
    except ProtocolError as error:
        raise Rejected(f"an argument cannot be read: {error.message}", faults.ARGS_INVALID) from None


def _bind_named(made: Plan, named: Sequence[NamedArg]) -> tuple[SqlValue, ...]:
    values = {arg.name: _argument(arg.value) for arg in named}
    used: set[str] = set()
    bound: list[SqlValue] = []
    for name in made.parameters:
        if name is None or name.startswith("?"):
            raise Rejected("a parameter without a name cannot be bound by name", faults.ARGS_INVALID)
        key = name if name in values else name[1:]
        if key in values:
            used.add(key)
            bound.append(values[key])
        elif made.explains:
            bound.append(None)
        else:
            raise Rejected(f"value for parameter {name} not found", faults.ARGS_INVALID)
    surplus = [name for name in values if name not in used and not _shadowed(name, used)]
    if surplus:
        raise Rejected(f"there is no parameter {surplus[0]} in the statement", faults.ARGS_INVALID)
    return tuple(bound)


def _shadowed(name: str, used: set[str]) -> bool:
    """Return True if an exact name took precedence over this bare one, which is no error."""
    return any(exact[1:] == name for exact in used if exact[:1] in ":@$")
