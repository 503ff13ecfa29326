"""The state of a server-side connection outside of transactions, which is lost when it is reopened.

These are its settings, its temporary tables, and what ``last_insert_rowid()``, ``changes()`` and ``total_changes()``
are about, which begin at 0 again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from pipemagic.client.stream import Run
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.hrana.messages import Entry, ErrorEntry, Execute, Request, Stmt, StmtResult
from pipemagic.session.cell import Cell
from pipemagic.sql import ParsedStatement, Token, normalize, parse, unquote

if TYPE_CHECKING:
    from pipemagic.client.transaction import TransactionContent

# -- temporary tables, views and triggers, by the text of the statements that ran

_CHANGE_TEMPORARY = frozenset(
    ["CREATE", "DROP", "ALTER", "BEGIN", "SAVEPOINT", "COMMIT", "END", "ROLLBACK", "RELEASE"]
)  # fmt: skip
"""The first words of statements that may create, remove or restore temporary tables."""

_TEMPORARY = ("TEMP", "TEMPORARY")
_OBJECTS = ("TABLE", "VIEW", "TRIGGER")
_SHOWN = 3

_Key = tuple[bool, str]
"""Whether it is a trigger, and its name in lower case: tables and views share their names."""


class TemporaryTables:
    """Tracks which temporary tables, views and triggers exist; a rollback restores the earlier ones.

    ``by_key`` are their names as they are written, in the order of their creation. ``marks`` are earlier states: at
    BEGIN ('') and at savepoints, outermost first.
    """

    def __init__(self) -> None:
        self.by_key: dict[_Key, str] = {}
        self._table_of: dict[_Key, str] = {}  # of triggers, which are dropped with their table
        self.marks: list[tuple[str, dict[_Key, str]]] = []

    def __bool__(self) -> bool:
        return bool(self.by_key)

    @property
    def names(self) -> list[str]:
        """Their names as they are written, in the order of their creation."""
        return list(self.by_key.values())

    @property
    def listing(self) -> str:
        """The first few names, and how many more there are."""
        names = self.names
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return ", ".join(names[:_SHOWN]) + more

    def clear(self) -> None:
        """Forget all of them, because their stream has ended."""
        self.by_key, self._table_of, self.marks = {}, {}, []

    def update(self, statement: ParsedStatement) -> None:
        """Apply a statement that ran without an error."""
        match statement.keyword:
            case "CREATE":
                self._create(statement.tokens)
            case "DROP":
                self._drop(statement.tokens)
            case "ALTER":
                self._rename(statement.tokens)
            case _:
                self._follow_transaction(statement)

    def restore_if_rolled_back(self, *, still_open: bool) -> None:
        """Restore the earlier ones if a transaction ended without a statement that ends it: it was rolled back."""
        if self.marks and not still_open:
            self._restore(0)
            self.marks = []

    def _follow_transaction(self, statement: ParsedStatement) -> None:
        if statement.opens_transaction:
            self.marks.append((statement.savepoint or "", dict(self.by_key)))
        elif statement.commits:
            self.marks = []
        elif statement.rolls_back:
            self.restore_if_rolled_back(still_open=False)
        elif (name := statement.rollback_to) is not None:
            if (at := self._savepoint(name)) is not None:
                self._restore(at)
                del self.marks[at + 1 :]
        elif (name := statement.release) is not None and (at := self._savepoint(name)) is not None:
            del self.marks[at:]

    def _savepoint(self, name: str) -> int | None:
        places = [at for at, (marked, _) in enumerate(self.marks) if marked == name]
        return places[-1] if places else None

    def _restore(self, at: int) -> None:
        if self.marks:
            self.by_key = dict(self.marks[at][1])

    def _create(self, tokens: Sequence[Token]) -> None:
        is_temporary = tokens[1].word in _TEMPORARY
        at = 1 + is_temporary
        at += tokens[at].word == "VIRTUAL"
        if tokens[at].word not in _OBJECTS:
            return
        schema, name, rest = _qualified_name(tokens, at + 1)
        if not (is_temporary or schema == "temp"):
            return
        key = tokens[at].word == "TRIGGER", normalize(name)
        self.by_key.setdefault(key, unquote(name))
        if key[0]:
            self._table_of[key] = _table_of_trigger(rest)

    def _drop(self, tokens: Sequence[Token]) -> None:
        if not self.by_key or tokens[1].word not in _OBJECTS:
            return
        schema, name, _ = _qualified_name(tokens, 2)
        if schema not in ("", "temp"):
            return
        key = tokens[1].word == "TRIGGER", normalize(name)
        if self.by_key.pop(key, None) is None or key[0]:
            return
        for trigger in [trigger for trigger, table in self._table_of.items() if table == key[1]]:
            self.by_key.pop(trigger, None)

    def _rename(self, tokens: Sequence[Token]) -> None:
        schema, name, rest = _qualified_name(tokens, 2)
        key = False, normalize(name)
        if schema in ("", "temp") and [token.word for token in rest[:2]] == ["RENAME", "TO"] and key in self.by_key:
            del self.by_key[key]
            self.by_key[False, normalize(rest[2].text)] = unquote(rest[2].text)


def _qualified_name(tokens: Sequence[Token], at: int) -> tuple[str, str, Sequence[Token]]:
    """Return the schema in lower case or '', the name as it is written, and the tokens after it."""
    if tokens[at].word == "IF":
        at += 3 if tokens[at + 1].word == "NOT" else 2
    if tokens[at + 1 : at + 2] and tokens[at + 1].text == ".":
        return normalize(tokens[at].text), tokens[at + 2].text, tokens[at + 3 :]
    return "", tokens[at].text, tokens[at + 1 :]


def _table_of_trigger(rest: Sequence[Token]) -> str:
    at = next(at for at, token in enumerate(rest) if token.word == "ON")
    return normalize(_qualified_name(rest, at + 1)[1])


# -- settings

CHANGED_BY = _CHANGE_TEMPORARY | {"PRAGMA"}
"""The first words of statements to record."""

_EFFECTS: Mapping[str, tuple[bool, str]] = {
    "foreign_keys": (True, "foreign keys are not checked"),
    "ignore_check_constraints": (False, "CHECK constraints are not checked"),
    "recursive_triggers": (False, "triggers can fire themselves"),
    "case_sensitive_like": (False, "LIKE is case-sensitive"),
    "query_only": (False, "statements that write fail"),
    "reverse_unordered_selects": (False, "rows without ORDER BY are in reverse order"),
    "legacy_alter_table": (False, "ALTER TABLE RENAME leaves views and triggers unchanged"),
}
"""Settings that change what is stored or returned: their normal value, and the effect of the other one."""

CHECKED_AGAIN = {
    "foreign_keys": "Foreign keys are on again, after the script that switched them off.",
    "ignore_check_constraints": "CHECK constraints are checked again, after the script that switched them off.",
}
"""The settings that dumps change for themselves, and the line that reports their end."""

DEFERRED = "foreign keys are checked only at COMMIT, until the transaction ends"
"""The effect of ``PRAGMA defer_foreign_keys``, which SQLite resets at the end of a transaction."""


@dataclass
class ConnectionSettings:
    """The user's settings of a connection: pragmas by name, in the order in which they were first set."""

    pragmas: dict[str, str] = field(default_factory=dict)
    temporary: TemporaryTables = field(default_factory=TemporaryTables)
    deferred: bool = False

    def update(self, statement: ParsedStatement, *, inside: bool = False) -> None:
        """Record a statement that ran without an error, possibly ``inside`` a transaction."""
        if statement.keyword != "PRAGMA":
            self.temporary.update(statement)
            self.deferred = self.deferred and not (statement.commits or statement.rolls_back)
        elif statement.connection_setting and not (inside and statement.is_ignored_in_transaction):
            self.pragmas[statement.connection_setting] = statement.text
        elif statement.pragma[0] == "defer_foreign_keys" and statement.pragma[1] in ("=", "("):
            self.deferred = statement.switches_on

    def note_ran(self, cell: Cell, before: TransactionContent, count: int, *, atomic: bool, undone: bool) -> None:
        """Record the first ``count`` statements of a cell, which ran without an error, PRAGMAs alone if ``undone``."""
        for index, statement in enumerate(cell.statements[:count]):
            if statement.keyword in CHANGED_BY and not (undone and statement.keyword != "PRAGMA"):
                inside = atomic or (statement.keyword == "PRAGMA" and before.ahead(cell.statements[:index]).open)
                self.update(cell.as_sent(index), inside=inside)

    def replay(self) -> list[Request]:
        """Return the requests that set them on another server-side connection."""
        return [Execute(Stmt(pragma)) for pragma in self.pragmas.values()]

    def reopened(self, replayed: Sequence[Entry]) -> list[str]:
        """Return the lines on a server-side connection that replaces one: what was set again, or not, and is gone.

        ``replayed`` are the entries of `replay`.
        """
        lines = [self.note()]
        self.temporary.clear()
        self.deferred = False
        for name, entry in zip(list(self.pragmas), replayed, strict=False):
            if isinstance(entry, ErrorEntry):
                lines.append(f"Not set again: {entry.error.message}")
                del self.pragmas[name]
        return [line for line in lines if line]

    def check_again(self, earlier: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the names of the constraints that a script switched off, each with the PRAGMA that ends that.

        It is the one of ``earlier``, if it checks them; otherwise the one with which every connection begins.
        """
        for name, text in earlier.items():
            if name in self.effects() and not (text and _changes(name, text)):
                self.pragmas.pop(name)
                self.pragmas |= {name: text} if text else {}
                yield name, text or _ending(name)

    def effects(self) -> dict[str, str]:
        """Return what the settings change, by their names, each with the PRAGMA that ends it."""
        changed = {
            name: f"{_EFFECTS[name][1]} on this connection until {_ending(name)}"
            for name, text in self.pragmas.items()
            if _changes(name, text)
        }
        return changed | ({"defer_foreign_keys": DEFERRED} if self.deferred else {})

    def left_since(self, before: Iterable[str]) -> list[str]:
        """Return a sentence for each effect that was not in effect ``before``."""
        left = (text for name, text in self.effects().items() if name not in before)
        return [f"{text[:1].upper()}{text[1:]}." for text in left]

    @property
    def any(self) -> bool:
        """Whether there is a setting or a temporary table, which is lost with the server-side connection."""
        return bool(self.pragmas or self.temporary or self.deferred)

    def note(self) -> str:
        """Return stable lines about restored settings and lost temporary tables; '' if there were none."""
        parts = []
        if self.pragmas:
            parts.append("set again: " + "; ".join(self.pragmas.values()))
        if self.temporary:
            parts.append(f"temporary tables are gone: {self.temporary.listing}")
        reopened = f"The connection was reopened ({'; '.join(parts)})." if parts else ""
        return f"{reopened} {self._way_out}" if self.temporary else reopened

    @property
    def _way_out(self) -> str:
        names = self.temporary.names
        them = "them" if len(names) > 1 else "it"
        return f"Create {them if names[1:] else names[0]} without TEMP, or create and use {them} in one cell."


def _changes(name: str, text: str) -> bool:
    """Return True if a PRAGMA gives a setting another value than its normal one, with an effect."""
    return name in _EFFECTS and parse(text).switches_on is not _EFFECTS[name][0]


def _ending(name: str) -> str:
    """Return the PRAGMA that gives a setting its normal value again."""
    return f"PRAGMA {name} = {'ON' if _EFFECTS[name][0] else 'OFF'}"


# -- ``last_insert_rowid()``, ``changes()`` and ``total_changes()``

_LAST_ID = "last_insert_rowid"
_COUNTS = ("changes", "total_changes")
_INSERTS = ("INSERT", "REPLACE")
_NEVER_CALLED = frozenset(["VIEW", "TRIGGER", "INDEX"])

_Tables = Callable[[], Sequence[Relation]]
"""Returns the tables of the database."""


class RowChange(NamedTuple):
    """A statement that changed rows of a table, as it is written, and whether it has RETURNING."""

    verb: str
    table: str
    returns_rows: bool

    def __str__(self) -> str:
        between = {"DELETE": " FROM", "UPDATE": ""}.get(self.verb, " INTO")
        return f"{self.verb}{between} {self.table}"


@dataclass
class RowCounts:
    """The statements that these functions refer to: the last ones of a connection and of its open stream.

    ``insert`` is the last INSERT that set the id, ``change`` the last statement that changes rows. ``reset`` are the
    functions that are 0 because their statement ran before the stream was reopened, or ``closed``.
    """

    insert: RowChange | None = None
    change: RowChange | None = None
    reset: frozenset[str] = frozenset()
    closed: bool = False

    def reopened(self) -> None:
        """Record that another stream replaces the stream of the statements so far."""
        if self.change is not None:
            self.reset |= frozenset(_COUNTS)
        if self.insert is not None:
            self.reset |= {_LAST_ID}

    def ran(self, statement: ParsedStatement, result: StmtResult) -> None:
        """Record a statement that changes rows and ran without an error."""
        self.change = RowChange(statement.verb, statement.changed_table, bool(result.cols))
        self.reset -= set(_COUNTS)
        set_id = result.affected_row_count and str(result.last_insert_rowid) != "0"  # "0": it only updated rows
        if statement.verb in _INSERTS and set_id:
            self.insert = self.change
            self.reset -= {_LAST_ID}

    def after(self, cell: Cell, ran: Run, tables: _Tables) -> list[str]:
        """Record the statements of a cell that ran; return a line for each function that was 0 in one that was tried.

        A statement may have failed because of the 0.
        """
        lines = []
        tried = len(cell.statements) if ran.error is None else ran.error.index + 1
        for index, statement in enumerate(cell.statements[:tried]):
            if self.reset:
                lines += self.lines_on(cell, index, tables)
            if statement.changes_rows and index < len(ran.results):
                self.ran(statement, ran.results[index])
        return lines

    def expected(self, cell: Cell, tables: _Tables, *, reopens: bool) -> list[str]:
        """Return the lines that `after` would return if the cell ran now; with ``reopens`` on another stream."""
        ahead = replace(self, closed=True)
        if reopens:
            ahead.reopened()
        return ahead.after(cell, Run([StmtResult(affected_row_count=1)] * len(cell.statements)), tables)

    def lines_on(self, cell: Cell, index: int, tables: _Tables) -> list[str]:
        """Return a line for each function that is 0 in a statement of a cell."""
        where = f" in statement {cell.before + index + 1}" if cell.total > 1 else ""
        called = _functions_in(cell.statements[index])
        return [self._line(name, where, tables) for name in (_LAST_ID, *_COUNTS) if name in called & self.reset]

    def _line(self, function: str, where: str, tables: _Tables) -> str:
        earlier = self.insert if function == _LAST_ID else self.change
        assert earlier is not None
        what = "closed" if self.closed else "reopened"
        head = f"The connection was {what} after the {earlier}, so {function}() is 0 again{where}"
        if function != _LAST_ID or earlier.returns_rows:
            return f"{head}: run both in one cell."
        key = _key_of(earlier, tables())
        return f"{head}: run both in one cell, or add RETURNING {key} to the INSERT."


def _key_of(insert: RowChange, tables: Sequence[Relation]) -> str:
    """Return the column that contains the id of a new row."""
    name = normalize(insert.table.rpartition(".")[2])
    for table in tables:
        if table.name.lower() == name and len(table.primary_key) == 1:
            (key,) = table.primary_key
            if table.column(key).type.upper() == "INTEGER":
                return quote_if_needed(key)
    return "rowid"


def _functions_in(statement: ParsedStatement) -> frozenset[str]:
    """Return which of these functions a statement calls when it runs."""
    if statement.keyword == "EXPLAIN":
        return frozenset()
    if statement.keyword == "CREATE" and _NEVER_CALLED & {token.word for token in statement.head[:3]}:
        return frozenset()
    tokens = statement.tokens
    return frozenset(
        normalize(token.text)
        for token, bracket, end in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if bracket.text == "(" and end.text == ")" and token.kind in ("word", "quoted")
        if normalize(token.text) in (_LAST_ID, *_COUNTS)
    )
