"""Queries as they are read from a tree of tokens: sources, common table expressions, columns, the query at a cursor.

Statements may be unfinished: what cannot be read is skipped.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, zip_longest

from pipemagic.explore.schema import Column, Relation, RelationKind, TypedColumns
from pipemagic.explore.sqlite_reference import KEYWORDS, UNRESERVED
from pipemagic.explore.token_tree import CLAUSES, COMPOUND, DEPTH, QUERY, Group, Position, bare, split_alias
from pipemagic.sql import Token

_OF_SOURCES = frozenset(["FROM", "JOIN", "ON", "USING"])
_NO_TABLE = CLAUSES | {"LEFT", "INNER", "CROSS"}
_BEFORE_WITH = 15
"""The most tokens up to a WITH: EXPLAIN QUERY PLAN INSERT OR IGNORE INTO main.t AS x (...) WITH, and the like."""


class Computed(str):
    """The type of ``min`` or ``max`` of a column, for which SQLite declares none."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class TableReference:
    """A table, view, subquery or common table expression under its alias or name; ``table`` is None if unknown.

    ``name`` is the name of the table as it is written, '' for a subquery; ``is_qualified`` is True behind a schema, and
    ``has_arguments`` for a table function, and for the table and the columns of an INSERT.
    """

    label: str
    table: Relation | None
    name: str = ""
    is_qualified: bool = False
    has_arguments: bool = False

    @cached_property
    def columns(self) -> TypedColumns:
        """The columns with their types."""
        return () if self.table is None else self.table.typed

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.columns]


@dataclass(frozen=True)
class Derived(Relation):
    """A common table expression or subquery, and the SELECTs that it consists of."""

    queries: tuple[Query, ...] = ()


def _derived(name: str, kind: RelationKind, columns: TypedColumns, queries: Iterable[Query]) -> Derived:
    members = tuple(Column(column, type_) for column, type_ in columns)
    return Derived(name, kind, members, parsed=True, queries=tuple(queries))


@dataclass(frozen=True, eq=False)
class Query:
    """One SELECT of a query, any other statement, or an expression in parentheses.

    ``part`` are its tokens, ``tables`` the tables that it can name by their names in lower case (and by `in_schema`,
    where two schemas have tables of the same name), ``common`` the common table expressions among them, and ``outer``
    is the query around it.
    """

    part: Group
    tables: Mapping[str, Relation]
    common: Mapping[str, Relation]
    outer: Query | None = None
    depth: int = 0

    @cached_property
    def sources(self) -> tuple[TableReference, ...]:
        """The tables after FROM, JOIN, UPDATE and INTO, without subqueries that have no alias."""
        return tuple(source for source in self.all_sources if source.label)

    @cached_property
    def all_sources(self) -> tuple[TableReference, ...]:
        """The tables and all subqueries after FROM, JOIN, UPDATE and INTO."""
        return tuple(self.sources_in(self.part)) if self.depth <= DEPTH else ()

    @property
    def tables_after_in(self) -> Iterator[TableReference]:
        """The tables in ``x IN name``, which have no parentheses."""
        for at, word in enumerate(self.part.words()):
            if word == "IN" and self.part.is_name(at + 1):
                name, follows = self.part.name(at + 1), self.part.word(at + 2) == "."
                has_arguments = self.part.group(at + 2) is not None
                yield TableReference(name, self._table("", name.lower()), name, follows, has_arguments)

    def enclosing(self) -> Iterator[Query]:
        """Yield the query and those around it, the innermost first."""
        query: Query | None = self
        while query is not None:
            yield query
            query = query.outer

    @property
    def visible(self) -> list[TableReference]:
        """The sources of the query and of those around it, the innermost first."""
        return [source for query in self.enclosing() for source in query.sources]

    @property
    def nearest(self) -> tuple[TableReference, ...]:
        """The sources of the innermost query that has any."""
        return next((query.sources for query in self.enclosing() if query.sources), ())

    def labelled(self, label: str) -> TableReference | None:
        """Return the visible source with an alias or name."""
        return next((source for source in self.visible if source.label.lower() == label.lower()), None)

    def clause(self, keyword: str) -> Group:
        """Return the tokens from a keyword to the next clause, without the keyword; an empty group if it is absent."""
        end = len(self.part.items)
        start = next((at for at in range(end) if self.part.word(at) == keyword), end)
        return self.part.slice(start + 1, next((at for at in range(start + 1, end) if self.part.clause(at)), end))

    @cached_property
    def select_list(self) -> list[tuple[Group, str]]:
        """The expressions of the SELECT, each with its alias or ''."""
        selected = self.clause("SELECT")
        return [split_alias(item) for item in selected.slice(int(selected.word(0) in ("DISTINCT", "ALL"))).split()]

    @cached_property
    def columns(self) -> TypedColumns:
        """The columns of the result as far as they are named; those taken from a table have its types."""
        return tuple(column for column in self._places if column[0])

    @cached_property
    def _places(self) -> TypedColumns:
        """The columns of the result, with the name '' for those without a name."""
        words = self.part.words()
        first = next((word for word in words if word in ("SELECT", "VALUES")), "")
        if first == "VALUES":
            row = self.part.group(words.index("VALUES") + 1) or Group()
            return tuple((f"column{number}", "") for number, _ in enumerate(row.split(), 1))
        return tuple(
            column
            for item, alias in self.select_list
            for column in self.columns_of(item, alias) or [("", self.declared(item) or "")]
        )

    @property
    def is_complete(self) -> bool:
        """True if all columns of the result are named and known."""
        is_named = all(self.columns_of(*selected) for selected in self.select_list)
        return is_named and all(source.columns for source in self.all_sources)

    def columns_of(self, item: Group, alias: str) -> TypedColumns:
        """Return the columns that an expression of the SELECT adds to the result; none for one without a name."""
        last = len(item.items) - 1
        is_qualified = last == 2 and item.is_name(0) and item.word(1) == "."
        if item.word(last) == "*":
            label = item.name(0).lower() if is_qualified else None
            types: dict[str, str] = {}
            for source in self.all_sources:
                for name, type_ in source.columns if last == 0 or source.label.lower() == label else ():
                    types.setdefault(name, type_)
            return tuple(types.items())
        type_ = self.declared(item) or ""
        if not alias and item.is_name(last) and (last == 0 or item.word(last - 1) == "."):
            alias = item.name(last)
        return ((alias, type_),) if alias else ()

    def declared(self, expression: Group, depth: int = 0) -> str | None:
        """Return the declared type of a column, an alias of one, ``min`` or ``max`` of one, or a subquery's column.

        Return '' for a column that is unknown or has no type, None for any other expression.
        """
        expression, depth = bare(expression), depth + 1
        inner, last = expression.group(0), len(expression.items) - 1
        if depth > DEPTH:
            return None
        if inner is not None and last == 0 and inner.word(0) in QUERY:
            types = {query.declared_at(0, depth) for query in queries_of(inner, self.tables, self)}
            return types.pop() if len(types) == 1 else None
        if last == 1 and expression.word(0) in ("MIN", "MAX") and (arguments := expression.group(1)) is not None:
            type_ = self.declared(arguments, depth) if len(arguments.split()) == 1 else None
            return type_ and Computed(type_)
        dots = [expression.word(at) for at in range(1, last, 2)]
        if last not in (0, 2, 4) or any(dot != "." for dot in dots) or not expression.is_name(last):
            return None
        if expression.word(last) in KEYWORDS - UNRESERVED:
            return None
        label = expression.name(last - 2).lower() if dots else ""
        return self._type_of(label, expression.name(last).lower(), depth)

    def declared_at(self, place: int, depth: int = 0) -> str | None:
        """Return the declared type of a column of the result, counted from 0; see `declared`."""
        if any(item.word(len(item.items) - 1) == "*" for item, _ in self.select_list[: place + 1]):
            return self.columns[place][1] if place < len(self.columns) else None
        return self.declared(self.select_list[place][0], depth) if place < len(self.select_list) else None

    def _type_of(self, label: str, name: str, depth: int) -> str | None:
        for query in self.enclosing():
            labels = ("", *(source.label.lower() for source in query._readable))
            types = {
                type_.upper(): type_
                for source in query._readable
                if label in ("", source.label.lower())
                for column, type_ in source.columns
                if column.lower() == name
            }
            if types or (label and label in labels):
                return types.popitem()[1] if len(types) == 1 else ""
            aliases = [] if label else [item for item, alias in query.select_list if alias.lower() == name]
            if aliases:
                return query.declared(aliases[0], depth)
            if not (label or all(source.columns for source in query._readable)):
                return ""  # it may be a column of a table that is not known
        return ""

    @cached_property
    def _readable(self) -> tuple[TableReference, ...]:
        """The sources with columns that an expression can name: not the table that an INSERT ... SELECT fills."""
        words = self.part.words()
        fills = "INTO" in words and "SELECT" in words[words.index("INTO") :]
        return self.all_sources[1:] if fills else self.all_sources

    @cached_property
    def _by_name(self) -> dict[tuple[str, str], TableReference]:
        """The sources of the columns by label and name in lower case; the label is also ''."""
        sources: dict[tuple[str, str], TableReference] = {}
        for source in self.all_sources:
            for name in map(str.lower, source.names):
                sources.setdefault(("", name), source)
                sources.setdefault((source.label.lower(), name), source)
        return sources

    def column(self, group: Group, index: int) -> tuple[TableReference, str] | None:
        """Return the source and the name in lower case of the column at an index; None if there is no known one."""
        if not group.is_name(index) or group.group(index + 1) is not None or group.word(index + 1) == ".":
            return None
        if group.word(index) in KEYWORDS - UNRESERVED:
            return None
        is_qualified = group.word(index - 1) == "." and group.is_name(index - 2)
        key = (group.name(index - 2).lower() if is_qualified else "", group.name(index).lower())
        return next(((query._by_name[key], key[1]) for query in self.enclosing() if key in query._by_name), None)

    def definition(self, expression: Group, depth: int = 0) -> Group:
        """Return the expression that an alias or a column of a subquery stands for; any other expression as it is."""
        name, last = bare(expression), len(bare(expression).items) - 1
        if depth > DEPTH or last not in (0, 2) or not name.is_name(last) or (last and name.word(1) != "."):
            return expression
        column = self.column(name, last)
        if column is not None:
            table = column[0].table
            members = table.queries if isinstance(table, Derived) else ()
            places = [at for at, (other, _) in enumerate(column[0].columns) if other.lower() == column[1]]
            inner = members[0] if len(members) == 1 and len(places) == 1 else None
            selected = [] if inner is None else inner.select_list[: places[0] + 1]
            has_star = any(item.word(len(item.items) - 1) == "*" for item, _ in selected)
            if inner is None or has_star or len(selected) <= places[0]:
                return expression
            return inner.definition(selected[-1][0], depth + 1)
        for query in self.enclosing() if last == 0 else ():
            items = [item for item, alias in query.select_list if alias.lower() == name.name(0).lower()]
            is_known = all(
                source.columns for source in query._readable
            )  # otherwise it may be a column of another table
            if items or not is_known:
                return query.definition(items[0], depth + 1) if is_known and len(items) == 1 else expression
        return expression

    def _table(self, schema: str, name: str) -> Relation | None:
        if not schema:
            return self.tables.get(name) or _TABLE_FUNCTIONS.get(name)
        hidden = name in self.common  # a common table expression has no schema
        return self.tables.get(in_schema(schema, name)) or (None if hidden else self.tables.get(name))

    def sources_in(self, part: Group) -> Iterator[TableReference]:
        """Yield the tables that a part of the query names after FROM, JOIN, UPDATE and INTO."""
        index, in_list = 0, False
        while index < len(part.items):
            word = part.clause(index)
            names_table = word in ("FROM", "JOIN", "INTO") or (
                word == "UPDATE" and part.word(index - 1) not in ("DO", "FOR", "ON")
            )
            if names_table:
                in_list = word in ("FROM", "JOIN")
                index += 2 if word == "UPDATE" and part.word(index + 1) == "OR" else 0
            elif word and word not in _OF_SOURCES:
                in_list = False
            index += 1
            if names_table or (in_list and part.word(index - 1) == ","):
                index = yield from self._source(part, index)

    def _source(self, part: Group, index: int) -> Generator[TableReference, None, int]:
        """Yield the table, the subquery or the joined tables in parentheses at an index; return the index after it."""
        inner, name, schema = part.group(index), "", ""
        if inner is not None and inner.items and inner.word(0) not in QUERY:
            joined = Group([Token("word", "FROM", 0), *inner.items])
            yield from Query(joined, self.tables, self.common, self, self.depth + 1).all_sources
            return index + 1
        if inner is None:
            if not part.is_name(index) or part.word(index) in _NO_TABLE:
                return index
            if part.word(index + 1) == "." and part.is_name(index + 2):
                schema, index = part.name(index), index + 2
            name = part.name(index)
            index += (has_arguments := part.group(index + 1) is not None)
        alias, index = _alias(part, index + 1)
        if inner is None:
            table = self._table(schema.lower(), name.lower())
            yield TableReference(alias or name, table, name, bool(schema), has_arguments)
        else:  # a subquery cannot use the other tables of the FROM
            if inner.derived is None or inner.derived[0] is not self.tables:
                inner.derived = (self.tables, tuple(queries_of(inner, self.tables, depth=self.depth + 1)))
            queries = inner.derived[1]
            yield TableReference(alias, _derived(alias, "subquery", compound_columns(queries), queries))
        return index


def in_schema(schema: str, name: str) -> str:
    """Return the key of a table of one schema; both names are in lower case."""
    return f"{schema}\0{name}"


def queries_of(group: Group, tables: Mapping[str, Relation], outer: Query | None = None, depth: int = 0) -> list[Query]:
    """Return the SELECTs of a compound query in a group, or the one query, statement or expression in it."""
    depth = depth if outer is None else outer.depth + 1
    common = _common_tables(group, tables, depth) if depth <= DEPTH else {}
    tables = {**tables, **common} if common else tables
    visible = common if outer is None else {**outer.common, **common}
    cuts = [-1, *(at for at, word in enumerate(group.words()) if word in COMPOUND), len(group.items)]
    return [Query(group.slice(start + 1, end), tables, visible, outer, depth) for start, end in pairwise(cuts)]


def compound_columns(queries: Sequence[Query]) -> TypedColumns:
    """Return the named columns of a subquery or common table expression: in SQLite, with the types of its last term."""
    if len(queries) == 1:
        return queries[0].columns
    places = zip_longest(queries[0]._places, queries[-1]._places, fillvalue=("", ""))
    return tuple((name, type_) for (name, _), (_, type_) in places if name)


def all_queries(group: Group, tables: Mapping[str, Relation], outer: Query | None = None) -> Iterator[Query]:
    """Yield the queries of a statement and of all parentheses in it, to a depth of DEPTH."""
    for query in queries_of(group, tables, outer):
        if query.depth > DEPTH:
            return
        yield query
        for item in query.part.items:
            if isinstance(item, Group):
                yield from all_queries(item, query.tables, query)


def query_at(cursor: Position, tables: Mapping[str, Relation]) -> Query:
    """Return the innermost query at a cursor, with those around it; ``tables`` by their names in lower case."""
    path = [cursor]
    while (group := path[-1].group).parent is not None:
        path.append(Position(group.parent, group.index))
    query: Query | None = None
    for group, index in reversed(path):
        queries = queries_of(group, tables if query is None else query.tables, query)
        for query in queries:
            index -= len(query.part.items) + 1
            if index < 0:
                break
    assert query is not None
    return query


def _common_tables(group: Group, tables: Mapping[str, Relation], depth: int) -> dict[str, Relation]:
    """Return the common table expressions at the beginning of a query, by their names in lower case."""
    definitions: dict[str, Relation] = {}
    words = group.words()[:_BEFORE_WITH]
    if "WITH" not in words:
        return definitions
    start = words.index("WITH") + 1
    visible = dict(tables)  # with the tables of the WITH, each of which can read all of them
    for definition in group.slice(start + (group.word(start) == "RECURSIVE")).split():
        if not definition.is_name(0):
            break
        header = definition.group(1)
        names = [] if header is None else [header.name(at) for at in range(len(header.items)) if header.is_name(at)]
        at = 1 if header is None else 2
        while definition.word(at) in ("AS", "NOT", "MATERIALIZED"):
            at += 1
        body = definition.group(at)
        queries = [] if body is None else queries_of(body, visible, depth=depth + 1)
        if body is not None or names:
            name = definition.name(0)
            if len(queries) > 1:  # the last one may be recursive, and then reads the columns of the first one
                own = _derived(name, "common table", _columns_of(queries[:1], names), queries[:1])
                queries = queries_of(body or Group(), {**visible, name.lower(): own}, depth=depth + 1)
            table = _derived(name, "common table", _columns_of(queries, names), queries)
            visible[name.lower()] = definitions[name.lower()] = table
        if len(definition.items) > at + 1:
            break
    return definitions


def _columns_of(queries: Sequence[Query], names: Sequence[str]) -> TypedColumns:
    """Return the columns of a common table expression, which may have ``names`` of its own."""
    if not names:
        return compound_columns(queries) if queries else ()
    types = [queries[-1].declared_at(at) or "" for at in range(len(names))] if queries else []
    return tuple(zip_longest(names, types, fillvalue=""))


_EACH = ("key", "value", "type", "atom", "id", "parent", "fullkey", "path")
_TABLE_FUNCTIONS = {
    name: Relation.of(name, [(column, "") for column in columns], "table function")
    for name, columns in {"json_each": _EACH, "json_tree": _EACH, "generate_series": ("value",)}.items()
}


def _alias(part: Group, index: int) -> tuple[str, int]:
    """Return the alias at an index or '', and the index after it."""
    if part.word(index) == "AS" and part.is_name(index + 1):
        return part.name(index + 1), index + 2
    if part.is_name(index) and part.word(index) not in KEYWORDS:
        return part.name(index), index + 1
    return "", index
