"""The candidates for completing SQL at the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pipemagic.explore import sqlite_reference
from pipemagic.explore.query import TableReference, query_at
from pipemagic.explore.schema import Relation, TypedColumns
from pipemagic.explore.sqlite_reference import is_displayable, quote_if_needed, quoted
from pipemagic.explore.token_tree import Position
from pipemagic.notebook.completion.candidates import MOST, Completion, Completions, matching
from pipemagic.notebook.completion.sql_context import CursorContext, context_at

_FEW = 60  # tables: if there are more, columns of all tables are candidates only once a letter is typed
_NAMES_STATEMENT = ("REPLACE", "BEGIN", "COMMIT", "ROLLBACK", "ALTER", "CREATE", "DROP")


def complete(text: str, at: int, tables: Iterable[Relation], parameters: Sequence[str] = ()) -> Completions:
    """Complete SQL at an offset.

    ``tables`` are those of the database, ``parameters`` the names of variables that have a value.
    """
    context = context_at(text, at, tables)
    if context is None:
        return Completions([])
    fragment = context.fragment
    if fragment[:1] in (":", "@", "$"):
        return Completions(
            matching((Completion(f"{fragment[0]}{name}", "parameter") for name in parameters), fragment), fragment
        )
    if fragment[:1] == "?":
        return Completions([], fragment)
    candidates = matching(_Candidates(context).all(), context.typed)
    return Completions(
        [_written(candidate, context) for candidate in candidates if _can_be_quoted(candidate.name, context)], fragment
    )


def _can_be_quoted(name: str, context: CursorContext) -> bool:
    """Return True if the name fits into the typed quotes: in brackets, ``]`` cannot be escaped."""
    return not (context.quote == "[" and context.closed and "]" in name)


def _written(completion: Completion, context: CursorContext) -> Completion:
    """Return the entry with the typed quotes and the case of the cell, and without ``(`` if one follows."""
    if context.quote:
        text = quoted(completion.name, '"' if context.quote == "[" and "]" in completion.name else context.quote)
        return replace(completion, text=text[:-1] if context.closed else text)
    if completion.kind == "keyword" and context.lower:
        return replace(completion, text=completion.text.lower())
    if context.calls and completion.text.endswith("("):
        return replace(completion, text=completion.text[:-1])
    return completion


class _Candidates:
    """The candidates at a cursor."""

    def __init__(self, context: CursorContext) -> None:
        self.context, self.tables, self.query = context, context.tables, context.query
        self.group, self.at, self.previous = context.group, context.at, context.previous
        self.verb, self.sources = self.group.word(0), self.query.nearest

    def all(self) -> Iterable[Completion]:
        """Return all valid candidates, with the most likely ones first."""
        if self.previous == ".":
            return self._after_dot()
        if self.context.quote:
            return self._names()
        if (listed := self._list_of_columns()) is not None:
            return _columns(listed)
        if (fixed := self._fixed()) is not None:
            return fixed
        if self.context.at_start:
            return self._starts()
        return self._table_names() if self.context.wants_table else self._in_clause()

    def _columns_of_table(self, name: str) -> TypedColumns:
        table = self.tables.get(name.lower())
        return () if table is None else table.typed

    # -- positions with few candidates

    def _starts(self) -> Iterator[Completion]:
        if self.group.parent is None:
            yield from _keywords(sqlite_reference.STARTS)
        else:
            yield from _keywords(["SELECT", "WITH", "VALUES"])
            yield from self._expression("")

    def _fixed(self) -> Iterable[Completion] | None:
        """Return the candidates of a position that allows only a few, otherwise None."""
        before_group = self.context.before_group
        if self.group.parent is None and self.verb == "PRAGMA":
            return [Completion(name, "pragma") for name in sqlite_reference.PRAGMAS if self.at == 1]
        if self.previous == "WITH":
            return _keywords(["RECURSIVE"])
        if self.context.defines_table:
            if self.previous == "REFERENCES":
                return None
            return [] if self.at == 0 or self.previous == "," else _keywords(sqlite_reference.COLUMN_DEFINITION)
        if self.verb == "ALTER" and self.group.is_name(2):
            if self.at == 3:
                return _keywords(sqlite_reference.ALTER_TABLE)
            if self.previous in ("COLUMN", "DROP", "RENAME"):
                return _columns(self._columns_of_table(self.group.name(2)))
        if self.previous == "AS" and before_group == "CAST":
            return _keywords(sqlite_reference.COLUMN_DEFINITION[:5])
        if before_group == "OVER" and self.at == 0:
            return _keywords(["PARTITION BY", "ORDER BY", "ROWS BETWEEN", "RANGE BETWEEN"])
        is_function = self.previous in _NAMES_STATEMENT and self.at != 1
        if self.previous in sqlite_reference.AFTER and self.group.word(self.at - 2) != "." and not is_function:
            return _keywords(sqlite_reference.AFTER[self.previous])
        return None

    def _list_of_columns(self) -> TypedColumns | None:
        """Return the columns for the parentheses after a table: INSERT INTO t (, USING (, REFERENCES t (."""
        parent, index = self.group.parent, self.group.index
        if parent is None:
            return None
        before, two_before = self.context.before_group, parent.word(index - 2)
        if before == "USING":
            columns = self._shared_columns()
        elif before == "CONFLICT" and two_before == "ON":
            columns = self.sources[0].columns if self.sources else ()
        elif (before in ("KEY", "UNIQUE") and parent.parent is not None) or not parent.is_name(index - 1):
            return None
        elif two_before in ("INTO", "REFERENCES", ".") or (two_before == "ON" and parent.word(0) == "CREATE"):
            columns = self._columns_of_table(parent.name(index - 1))
        else:
            return None
        listed = {self.group.name(at).lower() for at in range(len(self.group.items)) if self.group.is_name(at)}
        return tuple(column for column in columns if column[0].lower() not in listed)

    def _shared_columns(self) -> TypedColumns:
        """Return the columns that the last table shares with another table, for USING."""
        others = {name.lower() for source in self.sources[:-1] for name in source.names}
        return tuple(column for source in self.sources[-1:] for column in source.columns if column[0].lower() in others)

    # -- names

    def _after_dot(self) -> Iterator[Completion]:
        source, database = self.context.owner, self.group.word(self.at - 2) in ("MAIN", "TEMP")
        if database and (source is None or source.table is None):
            tables = [table for table in self.tables.values() if table.kind != "DataFrame"]
            yield from map(_table, sorted(tables, key=lambda candidate: candidate.name.lower()))
        elif source is not None:
            for condition in self._conditions():
                if source.label in condition:
                    yield Completion(condition[source.label].removeprefix(f"{quote_if_needed(source.label)}."), "join")
            yield from _columns(source.columns)

    def _names(self) -> Iterator[Completion]:
        """Yield all visible names, for an open quote."""
        if not self.context.wants_table:
            listed = self._list_of_columns()
            yield from _columns(listed if listed is not None else self._visible_columns())
            yield from self._labels()
        yield from self._table_names()

    def _table_names(self) -> Iterator[Completion]:
        in_from = self.previous in ("FROM", "JOIN", ",")
        if in_from:
            yield from map(_table, self.query.common.values())
        only_views = self.verb in ("DROP", "CREATE") and self.previous == "VIEW"
        tables = [table for table in self.tables.values() if not only_views or table.kind == "view"]
        if not self.context.wants_frame:
            tables = [table for table in tables if table.kind != "DataFrame"]
        yield from map(_table, sorted(tables, key=self._rank))
        if in_from and not self.context.quote:
            yield from _functions(table_valued=True)
        if self.verb in ("CREATE", "DROP") and self.previous in ("TABLE", "VIEW"):
            yield from _keywords(["IF EXISTS" if self.verb == "DROP" else "IF NOT EXISTS"])

    def _rank(self, table: Relation) -> tuple[bool, str]:
        """After JOIN, sort tables first that a foreign key connects with a table in FROM."""
        in_from = (
            [source.table for source in self.sources if source.table is not None] if self.previous == "JOIN" else []
        )
        return not any(_refers(other, table) or _refers(table, other) for other in in_from), table.name.lower()

    def _labels(self) -> Iterator[Completion]:
        for source in self.query.visible:
            yield Completion(quote_if_needed(source.label), "table", source.label)

    def _visible_columns(self) -> Iterator[tuple[str, str]]:
        """Yield the visible columns; without a FROM clause, the columns of all tables."""
        if self.context.clause in ("ORDER", "GROUP", "HAVING"):
            yield from ((alias, "") for _, alias in self.query.select_list if alias)
        if self.query.nearest:
            yield from (column for source in self.query.visible for column in source.columns)
        elif self.context.typed or len(self.tables) <= _FEW:
            yield from self._columns_of_all_tables()

    def _columns_of_all_tables(self) -> TypedColumns:
        """Return columns that contain the typed text; to save time, at most twice as many as are shown."""
        typed, columns = self.context.typed.lower(), dict[str, str]()
        for table in [*self.query.common.values(), *self.tables.values()]:
            for name, type_ in table.typed:
                if typed in name.lower():
                    columns.setdefault(name, type_)
        return tuple(sorted(columns.items(), key=lambda column: not column[0].lower().startswith(typed))[: 2 * MOST])

    # -- clauses

    def _in_clause(self) -> Iterator[Completion]:
        clause = self.context.clause
        if self.context.after_operand:
            yield from _keywords(sqlite_reference.NEXT.get("FROM" if clause == "JOIN" else clause, ()))
            yield from _all_keywords()
            return
        if clause == "ON" and self.verb != "CREATE":
            yield from (Completion(self._as_typed(condition), "join") for condition in self._conditions())
        if clause == "SET" and self.previous in ("SET", ","):
            yield from _columns(self.sources[0].columns if self.sources else ())
        yield from self._expression(clause)

    def _expression(self, clause: str) -> Iterator[Completion]:
        if self.verb in ("CREATE", "DROP", "ALTER", "PRAGMA") and not clause:
            yield from _all_keywords()
            return
        if self.previous == "IN":
            yield from self._table_names()
        yield from _columns(self._visible_columns())
        yield from self._labels()
        if self.previous == "SELECT":
            yield from _keywords(["DISTINCT"])
        yield from _functions(table_valued=False)
        yield from _keywords(sqlite_reference.EXPRESSION)
        if self.previous[:1].isalpha() and self.previous not in sqlite_reference.BEFORE_EXPRESSION:
            yield from _all_keywords()
        if self.context.typed and not self.sources:
            yield from map(_table, self.tables.values())

    def _conditions(self) -> list[JoinCondition]:
        """Return the conditions that can join the last table, if the cursor is in its ON."""
        if self.context.clause != "ON" or self.previous not in ("ON", "AND", "."):
            return []
        before = Position(self.group.slice(0, self.at), self.at)  # later tables cannot be named in this ON
        return join_conditions(query_at(before, self.tables).sources)

    def _as_typed(self, condition: JoinCondition) -> str:
        """Return the condition that starts with the typed side."""
        typed = self.context.typed.lower()
        first, *_ = sides = list(condition.values())
        return next((side for side in sides if typed and side.lower().startswith(typed)), first)


JoinCondition = dict[str, str]
"""A join condition by the label of its left table: ``a.x = b.y`` and ``b.y = a.x`` are the same condition."""

_Side = Sequence[tuple[TableReference, str]]


def join_conditions(sources: Sequence[TableReference]) -> list[JoinCondition]:
    """Return conditions that join the last table to the others by foreign keys, or else by equal column names."""
    if len(sources) < 2:
        return []
    last, others = sources[-1], sources[-2::-1]
    joins: list[tuple[_Side, _Side]] = []
    for other in others:
        joins += [*_by_keys(last, other), *((b, a) for a, b in _by_keys(other, last))]
    for other in [] if joins else others:
        same = {name.lower() for name in other.names}
        joins += [([(last, name)], [(other, name)]) for name in last.names if name.lower() in same]
    conditions = [{a[0][0].label: _equation(a, b), b[0][0].label: _equation(b, a)} for a, b in joins]
    return [condition for at, condition in enumerate(conditions) if condition not in conditions[:at]]


def _by_keys(holder: TableReference, target: TableReference) -> Iterator[tuple[_Side, _Side]]:
    if holder.table is not None and target.table is not None and target.table.kind != "subquery":
        for key in holder.table.foreign_keys:
            references = key.references or target.table.primary_key
            if key.table.lower() == target.table.name.lower() and len(references) == len(key.columns):
                yield [(holder, column) for column in key.columns], [(target, column) for column in references]


def _equation(left: _Side, right: _Side) -> str:
    sides = [
        [f"{quote_if_needed(source.label)}.{quote_if_needed(name)}" for source, name in side] for side in (left, right)
    ]
    return " AND ".join(f"{a} = {b}" for a, b in zip(*sides, strict=True))


def _refers(holder: Relation, target: Relation) -> bool:
    return any(key.table.lower() == target.name.lower() for key in holder.foreign_keys)


def _columns(columns: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    seen = set()
    for name, type_ in columns:
        if name not in seen and is_displayable(name):
            seen.add(name)
            yield Completion(quote_if_needed(name), "column", name, type_)


def _table(table: Relation) -> Completion:
    if not is_displayable(table.name):
        return Completion("", "table", "\0")
    kind = table.kind if table.kind in ("view", "DataFrame") else "table"
    return Completion(quote_if_needed(table.name), kind, table.name)


def _functions(*, table_valued: bool) -> Iterator[Completion]:
    for name, function in sqlite_reference.FUNCTIONS.items():
        if (function.kind == "table function") == table_valued:
            yield Completion(f"{name}(" if function.takes_arguments else f"{name}()", function.kind)


def _keywords(keywords: Iterable[str]) -> Iterator[Completion]:
    return (Completion(word, "keyword") for word in keywords)


def _all_keywords() -> Iterator[Completion]:
    return _keywords(sorted({*sqlite_reference.KEYWORDS, *sqlite_reference.PHRASES}))
