"""Why a statement finds no row: the condition that no row fulfils, and the value that was perhaps meant.

Also why it finds other groups than the ones that are wanted.

Each reason is proved by queries on the data, which the caller runs. Nothing is said about what the text does not show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice

from pipemagic.explore.conditions import literal, with_literals
from pipemagic.explore.lint.dates import readings
from pipemagic.explore.lint.expressions import (
    comparable,
    grouping_terms,
    is_call,
    kind_of_call,
    number_value,
    places,
    without_parentheses,
    written,
)
from pipemagic.explore.lint.truth_values import null_list
from pipemagic.explore.query import Derived, Query, TableReference, queries_of
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import KEYWORDS, UNRESERVED, quote_if_needed
from pipemagic.explore.token_tree import QUERY, Group, nest
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, parse
from pipemagic.suggestions import nearest
from pipemagic.text import join_words, shorten

Select = Callable[[str], Sequence[Sequence[SqlValue]] | None]
"""Run a query and return its rows; None if it fails, or if no more queries may run."""

_SHOWN = 80  # characters of a condition
_VALUE = 40  # characters of a value
_FEW = 5  # distinct values that are listed
_MANY = 500  # distinct values in which a misspelt one is looked for
_TERMS = 6  # conditions that are combined
_LONGEST = 10_000  # characters of a statement

_SIGN = re.compile(r"(?:(?<=[=<>,] )|(?<=\()|(?<=AND )|(?<=LIKE )|(?<=GLOB )|(?<=BETWEEN )|(?<=IS ))- (?=[\d.])")
"""Matches the minus of a number behind an operator, AND or BETWEEN, with the blank after it."""

_EQUAL = ("=", "==", "IS")
_ORDERED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNEQUAL = ("<>", "!=")
_OPERATORS = {*_EQUAL, *_ORDERED, *_UNEQUAL, "LIKE", "GLOB", "IN", "BETWEEN"}
_WORDS = {*(KEYWORDS - UNRESERVED), "NULL", "TRUE", "FALSE"}  # are no columns
_BLANKS = "char(9, 10, 13, 32, 160)"
_JOINS = ("INNER", "CROSS", "NATURAL", ",")
_AFTER_FROM = ("WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "RETURNING")


def reason(text: str, args: Mapping[str, SqlValue], tables: Mapping[str, Relation], select: Select) -> str:
    """Return why a SELECT, UPDATE or DELETE finds no row; '' if it is not certain.

    ``args`` are the values of its parameters by ``:name``, ``tables`` the known tables by their names in lower case.
    """
    read = _read(text, args, tables, select)
    return read.reason() if read is not None else ""


def unmatched(text: str, args: Mapping[str, SqlValue], tables: Mapping[str, Relation], select: Select) -> str:
    """Return a value in a list, or a condition beside OR, that no row has, and the value that was perhaps meant.

    That is for a statement that finds rows, but not all that are wanted; '' if every value is found.
    """
    read = _read(text, args, tables, select)
    return next(read.unmatched(), "") if read is not None else ""


def mixed_group(text: str, args: Mapping[str, SqlValue], tables: Mapping[str, Relation], select: Select) -> str:
    """Return a selected column that has different values in one group, so that it shows only one of them; '' if none.

    Its value is then that of an arbitrary row of the group.
    """
    read = _read(text, args, tables, select)
    return read.mixed_group() if read is not None else ""


def _read(
    text: str, args: Mapping[str, SqlValue], tables: Mapping[str, Relation], select: Select
) -> _Statement | None:  # fmt: skip
    statement = parse(with_literals(text, args))
    if len(text) > _LONGEST or not (statement.is_query or statement.verb in ("UPDATE", "DELETE")):
        return None
    top = nest((token for token in statement.tokens if token.kind != "semi"), cases=True).top
    queries = queries_of(top, tables)
    start = next((at for at, word in enumerate(top.words()) if word == statement.verb), 0)
    return _Statement(queries[0], written(top.slice(0, start)), select) if len(queries) == 1 else None


@dataclass(frozen=True)
class _Statement:
    """A SELECT, UPDATE or DELETE; ``before`` is the WITH before it."""

    query: Query
    before: str
    select: Select

    # -- its parts

    @property
    def source(self) -> str:
        """The tables of the statement as they are written, '' for none, or if they are not read."""
        part = self.query.part
        if part.word(0) == "UPDATE" or "UPDATE" in part.words():
            names = self.query.all_sources
            return _table(names[0]) if len(names) == 1 else ""
        start = next((at for at in range(len(part.items)) if part.clause(at) == "FROM"), None)
        if start is None:
            return ""
        end = next((at for at in range(start, len(part.items)) if part.word(at) in _AFTER_FROM), len(part.items))
        return written(part.slice(start + 1, end))

    def _end(self, start: int) -> int:
        """Return the index of the keyword that ends the clause at an index."""
        part = self.query.part
        ends = (at for at in range(start + 1, len(part.items)) if part.clause(at) or part.word(at) in _JOINS)
        return next(ends, len(part.items))

    @cached_property
    def rows(self) -> str:
        """The source of the rows that WHERE is about, with the aliases of the SELECT list that WHERE names."""
        where = self.query.clause("WHERE")
        names = {group.name(at).lower() for group, at in places(where) if group.is_name(at)}
        names.difference_update(name.lower() for table in self.query.sources for name in table.names)
        aliases = [
            f"{written(item)} AS {quote_if_needed(alias)}"
            for item, alias in self.query.select_list
            if alias.lower() in names
        ]
        return f"(SELECT *, {', '.join(aliases)} FROM {self.source})" if aliases else self.source

    @property
    def where(self) -> list[Group]:
        """The conditions after WHERE that all must be true."""
        return list(_split(self.query.clause("WHERE"), "AND"))

    def exists(self, source: str, condition: Group | str = "", columns: str = "1", after: str = "") -> bool | None:
        """Return True if there is a row; None if that is not known."""
        condition = condition if isinstance(condition, str) else written(condition)
        where = f" WHERE {condition}" if condition else ""
        rows = self.select(f"{self.before} SELECT {columns} FROM {source}{where}{after} LIMIT 1")
        return None if rows is None else bool(rows)

    # -- why there is no row

    def reason(self) -> str:
        """Return why the statement finds no row."""
        source, limit = self.source, self.query.clause("LIMIT")
        if len(limit.items) in (1, 3) and number_value(limit.slice(-1)) == 0:
            return f"LIMIT {written(limit)} returns no rows"
        if not source:
            return ""
        if self.exists(source) is False:
            return self._of_source()
        terms = self.where
        for term in terms:
            scope = self.scope(term)
            if self.exists(scope.source, term) is False:
                return scope.describe(term)
        if len(terms) > 1 and (why := self._of_two(terms[:_TERMS])):
            return why
        if len(terms) == 1 and self.exists(source, terms[0]) is False:
            return f"no row of the join {_verb(terms[0])} {_shown(terms[0])}"
        return self._of_groups(source)

    def _of_source(self) -> str:
        """Return why the tables have no row together."""
        sources, words = self.query.all_sources, self.query.part.words()
        for table in sources[: 1 if {"LEFT", "RIGHT", "FULL"} & {*words} else None]:  # others may be empty
            members = table.table.queries if isinstance(table.table, Derived) else ()
            rows = _table(table) if table.name else f"({written(members[0].part)})" if len(members) == 1 else ""
            if rows and not table.has_arguments and self.exists(rows) is False:
                why = replace(self, query=members[0]).reason() if len(members) == 1 else ""
                empty = f"{table.name or table.label or 'the subquery'} has no rows"
                return f"{empty}: {why}" if why else empty
        if {"LEFT", "RIGHT", "FULL"} & {*words}:
            return ""
        conditions = [self.query.part.slice(at + 1, self._end(at)) for at, word in enumerate(words) if word == "ON"]
        terms = [term for condition in conditions for term in _split(condition, "AND")]
        for term in terms:
            scope = self.scope(term)
            if scope.of and self.exists(scope.source, term) is False:
                return scope.describe(term)
        if len(terms) == 1 and words.count("JOIN") == 1:
            return f"ON {_shown(terms[0])} is true for no rows of the tables{self._samples(terms[0])}"
        return ""

    def _samples(self, term: Group) -> str:
        """Return a value of each of two columns that are compared."""
        words = term.words()
        at = next((at for at, word in enumerate(words) if word in ("=", "==")), None)
        if at is None:
            return ""
        texts = []
        for side in (term.slice(0, at), term.slice(at + 1)):
            column = self.query.column(side, len(side.items) - 1) if len(side.items) in (1, 3) else None
            name = written(side)
            rows = column and self.select(
                f"{self.before} SELECT {name} FROM {_table(column[0])} WHERE {name} IS NOT NULL LIMIT 1"
            )
            if not rows:
                return ""
            texts.append(f"{name} is {_value(rows[0][0])}")
        return f": for example, {join_words(texts)}"

    def _of_two(self, terms: Sequence[Group]) -> str:
        """Return two conditions that no row fulfils, or that all of them together."""
        for first, second in combinations(terms, 2):
            both = f"({written(first)}) AND ({written(second)})"
            if self.exists(self.rows, both) is False:
                left, right = _comparison(first), _comparison(second)
                values = [written(side.right) for side in (left, right) if side and side.operator in ("=", "==")]
                if (
                    len(values) == 2
                    and left
                    and right
                    and left.text == right.text
                    and left.has_value
                    and right.has_value
                ):
                    return f"{left.text} cannot be both {join_words(values)}: write IN ({', '.join(values)})"
                return f"no row{self._name_of()} fulfils both {_shown(first)} and {_shown(second)}"
        together = " AND ".join(f"({written(term)})" for term in terms)
        if len(terms) > 2 and self.exists(self.rows, together) is False:
            return "each condition after WHERE is true for some rows, but no row fulfils all of them"
        return ""

    def _of_groups(self, source: str) -> str:
        """Return the condition after HAVING that no group fulfils, or that OFFSET skips all rows."""
        having, where = self.query.clause("HAVING"), self.query.clause("WHERE")
        condition = f" WHERE {written(where)}" if where.items else ""
        grouped = self.query.clause("GROUP")
        after = f"{condition} GROUP {written(grouped)}" if grouped.items else condition
        columns = written(self.query.clause("SELECT"))
        if grouped.items:
            for term in _split(having, "AND"):
                if self.exists(source, "", columns, f"{after} HAVING {written(term)}") is False:
                    column = self._compared_column(term)
                    mixed = f"{after} HAVING min({column}) IS NOT max({column})"
                    if column and self.exists(source, "", columns, mixed):
                        compares = f"HAVING {_shown(term)} compares {column} of an arbitrary row of each group"
                        return f"{compares}: write WHERE, or an aggregate function of {column}"
                    return f"no group {_verb(term)} {_shown(term)}{self._largest(source, columns, after, term)}"
        if having.items or not ("OFFSET" in self.query.part.words() or "," in self.query.clause("LIMIT").words()):
            return ""
        total = self.select(f"{self.before} SELECT count(*) FROM (SELECT {columns} FROM {source}{after})")
        return f"OFFSET skips all {_value(total[0][0])} rows" if total else ""

    def _compared_column(self, term: Group) -> str:
        """Return the column that a condition after HAVING compares, of an arbitrary row; '' for anything else."""
        comparison = _comparison(term)
        aliases = {alias.lower() for _, alias in self.query.select_list}
        if comparison is None or comparison.text.lower() in aliases or self._takes_its_row():
            return ""
        left = nest(parse(comparison.text).tokens).top
        is_column = len(left.items) in (1, 3) and self.query.column(left, len(left.items) - 1) is not None
        return comparison.text if is_column else ""

    def _takes_its_row(self) -> bool:
        """Return True if the query has one min() or max(): the other columns are then those of its row."""
        parts = [*(expression for expression, _ in self.query.select_list), self.query.clause("HAVING")]
        calls = [(group, at) for part in parts for group, at in places(part) if is_call(group, at)]
        names = [group.name(at).lower() for group, at in calls if kind_of_call(group, at) == "aggregate"]
        return sum(name in ("min", "max") for name in names) == 1

    def _largest(self, source: str, columns: str, after: str, term: Group) -> str:
        comparison = _comparison(term)
        if comparison is None or comparison.operator not in _ORDERED or not comparison.has_value:
            return ""
        which = "max" if comparison.operator[0] == ">" else "min"
        subquery = f"SELECT {comparison.text} AS pipemagic_value, {columns} FROM {source}{after}"
        if comparison.text in (alias for _, alias in self.query.select_list):
            subquery = f"SELECT {comparison.text} AS pipemagic_value FROM (SELECT {columns} FROM {source}{after})"
        rows = self.select(f"{self.before} SELECT {which}(pipemagic_value) FROM ({subquery})")
        name = "largest" if which == "max" else "smallest"
        return f": the {name} is {_value(rows[0][0])}" if rows and rows[0][0] is not None else ""

    def unmatched(self) -> Iterator[str]:
        """Yield each value in a list and each condition beside OR that no row has, if another value was meant."""
        for term in self.where if self.source else ():
            scope = self.scope(term)
            for part in _alternatives(term):
                if self.exists(scope.source, part) is False and (what := scope.meant(part)):
                    yield f"no row{scope.of} {_verb(part)} {_shown(part)}{what}"

    # -- why there are other groups

    def mixed_group(self) -> str:
        """Return a selected column that has different values in one group."""
        query, terms = self.query, {*map(comparable, grouping_terms(self.query))}
        if not terms or not self.source or self._takes_its_row():
            return ""
        grouped, columns = f"GROUP {written(query.clause('GROUP'))}", written(query.clause("SELECT"))
        where, having = (written(query.clause(name)) for name in ("WHERE", "HAVING"))
        for position, (expression, _) in enumerate(query.select_list, 1):
            name, last = written(expression), len(expression.items) - 1
            is_column = last in (0, 2) and query.column(expression, last) is not None
            if not is_column or {comparable(expression), str(position)} & terms:
                continue
            differs = " AND ".join(filter(None, [having and f"({having})", f"min({name}) IS NOT max({name})"]))
            if self.exists(self.source, where, columns, f" {grouped} HAVING {differs}"):
                mixes = f"{shorten(grouped, _SHOWN)} puts different values of {name} into one group"
                return f"{mixes}: is {name} missing in it?"
        return ""

    # -- the tables of a condition

    def _name_of(self) -> str:
        sources = self.query.all_sources
        return f" of {sources[0].name}" if len(sources) == 1 and sources[0].name else ""

    def scope(self, term: Group) -> _Scope:
        """Return the rows that a condition is about: those of one table if it names no other."""
        sources, words = self.query.all_sources, self.query.part.words()
        used: set[TableReference | None] = set()
        for group, at in places(term):
            if group.is_name(at) and not is_call(group, at) and group.word(at + 1) != ".":
                column = self.query.column(group, at)
                used |= {column[0]} if column else set()
        has_query = any(group.word(0) in QUERY for group in _groups(term))
        is_inner = not {"LEFT", "RIGHT", "FULL"} & {*words}
        table = next(iter(used)) if len(used) == 1 else None
        is_alone = len(sources) > 1 and table in sources and is_inner and not has_query and self.rows == self.source
        if is_alone and table and table.name and not table.is_qualified and not table.has_arguments:
            return _Scope(self, _table(table), f" of {table.name}")
        return _Scope(self, self.rows, self._name_of())


@dataclass(frozen=True)
class _Scope:
    """The rows that a condition is about; ``of`` is `` of NAME`` if they are those of one table."""

    statement: _Statement
    source: str
    of: str

    def describe(self, term: Group) -> str:
        """Return that no row fulfils a condition, and what was perhaps meant."""
        comparison = _comparison(term)
        if why := _of_null_values(term):
            return why
        if comparison is not None and comparison.right.words() == ["NULL"] and comparison.operator != "IS":
            tests = {"=": "IS NULL", "==": "IS NULL", "<>": "IS NOT NULL", "!=": "IS NOT NULL"}
            instead = tests.get(comparison.operator)
            return f"{comparison.operator} NULL is never true" + (f": write {instead}" if instead else "")
        parts = _alternatives(term) or [term]
        what = max(map(self.meant, parts), key=lambda text: (text.startswith(";"), bool(text)))
        return f"no row{self.of} {_verb(term)} {_shown(term)}{what}"

    def meant(self, term: Group) -> str:
        """Return what the rows have instead, from ``; there is 'Dream'`` to ``: the largest is 5``; '' for nothing."""
        term = without_parentheses(term)
        words = term.words()
        if words[-2:] == ["IS", "NULL"] or words[-1:] == ["ISNULL"]:
            expression = written(term.slice(0, -2 if words[-1] == "NULL" else -1))
            return self._there_is(
                expression, f"lower(trim({expression}, {_BLANKS})) IN ('', 'null', 'na', 'n/a', 'nan', 'none')"
            )
        comparison = _comparison(term)
        if why := _of_null_values(term):
            return f": {why}"
        if comparison is None or comparison.is_negated:
            return ""
        text, operator = comparison.text, comparison.operator
        bounds = self._row(f"SELECT min({text}), max({text}) FROM {self.source} WHERE {text} IS NOT NULL")
        if bounds is not None and bounds[0] is None:
            return f": {text} is NULL in every row"
        if operator in _ORDERED or operator == "BETWEEN":
            return self._of_range(comparison, bounds) if comparison.has_value else ""
        value = self._value_of(comparison.right)
        if value is None or isinstance(value, bytes):
            return ""
        if operator in ("LIKE", "GLOB"):
            return self._of_pattern(comparison, str(value))
        if operator not in _EQUAL:
            return ""
        return self._like_value(text, value) or self._of_values(text, value, bounds)

    # -- values that look like the one of a comparison

    def _like_value(self, text: str, value: SqlValue) -> str:
        """Return the values of an expression that differ from a value by case, blanks, type, form or spelling."""
        as_sql = literal(value)
        is_text = f"typeof({text}) = 'text'"
        if isinstance(value, str):
            same = f"{is_text} AND lower(trim({text}, {_BLANKS})) = lower(trim({as_sql}, {_BLANKS}))"
            if there := self._there_is(text, same):
                return there
        if there := self._there_is(text, f"CAST({text} AS TEXT) = CAST({as_sql} AS TEXT)", typed=True):
            return there
        if str(value).isdigit():
            digits = f"{text} NOT GLOB '*[^0-9]*' AND CAST({text} AS INTEGER) = CAST({as_sql} AS INTEGER)"
            return self._there_is(text, f"{is_text} AND {digits}")
        if not isinstance(value, str):
            return ""
        for day in readings(value):
            if there := self._there_is(text, f"{text} = {literal(day)}"):
                return there
        if "%" in value and self._exists(f"{text} LIKE {as_sql}"):
            return f": = does not know %; write {text} LIKE {as_sql}"
        if len(value.strip()) > 2:
            within = f"{is_text} AND instr(lower({text}), lower(trim({as_sql})))"
            if there := self._there_is(text, within):
                return there
        rows = self._rows(f"SELECT DISTINCT {text} FROM {self.source} WHERE {is_text} LIMIT {_MANY + 1}") or []
        known = [str(row[0]) for row in rows]
        other = nearest(value, known) if len(known) <= _MANY else ""
        return f"; there is {_value(other)}" if other else ""

    def _of_values(self, text: str, value: SqlValue, bounds: Sequence[SqlValue] | None) -> str:
        """Return the values of an expression if they are few, the range or the nearest one of numbers."""
        few = self._rows(
            f"SELECT DISTINCT {text} FROM {self.source} WHERE {text} IS NOT NULL ORDER BY 1 LIMIT {_FEW + 1}"
        )
        if few and len(few) <= _FEW:
            values = join_words([_value(row[0]) for row in few])
            return f": the only value is {values}" if len(few) == 1 else f": the values are {values}"
        numbers = [number for number in (value, *(bounds or ())) if isinstance(number, int | float)]
        if len(numbers) < 3:
            return ""
        wanted, low, high = numbers
        if not low <= wanted <= high:
            return f": the values are from {_value(low)} to {_value(high)}"
        near = f"SELECT {text} FROM {self.source} WHERE {text} IS NOT NULL ORDER BY abs({text} - {literal(value)})"
        row = self._row(f"{near} LIMIT 1")
        return f": the nearest value is {_value(row[0])}" if row else ""

    def _of_range(self, comparison: _Comparison, bounds: Sequence[SqlValue] | None) -> str:
        """Return the largest or smallest value of an expression that is compared with < or >, or BETWEEN."""
        if bounds is None:
            return ""
        if comparison.operator == "BETWEEN":
            low, high = (written(part) for part in _split(comparison.right, "AND"))
            row = self._row(f"SELECT ({low}) > ({high})")
            if row and row[0]:
                return ": BETWEEN needs the smaller value first"
            return f": the values are from {_value(bounds[0])} to {_value(bounds[1])}"
        if comparison.operator[0] == ">":
            return f": the largest is {_value(bounds[1])}"
        return f": the smallest is {_value(bounds[0])}"

    def _of_pattern(self, comparison: _Comparison, pattern: str) -> str:
        """Return the pattern that would find something instead of one of LIKE or GLOB."""
        text, operator = comparison.text, comparison.operator
        if operator == "GLOB":
            if there := self._there_is(text, f"lower({text}) GLOB lower({literal(pattern)})"):
                return f"{there}: GLOB is case-sensitive"
            other = pattern.replace("%", "*")
            is_better = other != pattern and self._exists(f"{text} GLOB {literal(other)}")
            return f": the wildcard of GLOB is *, write GLOB {literal(other)}" if is_better else ""
        other = pattern.replace("*", "%").replace("?", "_")
        if other != pattern and self._exists(f"{text} LIKE {literal(other)}"):
            return f": the wildcards of LIKE are % and _, write LIKE {literal(other)}"
        core = pattern.strip("%_ ")
        if not core or any(sign in core for sign in "%_"):
            return ""
        for other in (f"{core}%", f"%{core}%"):
            if other != pattern and self._exists(f"{text} LIKE {literal(other)}"):
                why = "without % it compares the whole text; " if core == pattern else ""
                return f": {why}LIKE {literal(other)} finds rows"
        return self._like_value(text, core) or self._of_values(text, core, None)

    def _there_is(self, text: str, condition: str, *, typed: bool = False) -> str:
        """Return the first values of an expression that fulfil a condition; with their types if they are ``typed``."""
        rows = self._rows(f"SELECT DISTINCT {text} FROM {self.source} WHERE {condition} LIMIT 3")
        if not rows:
            return ""
        values = [_value(row[0]) for row in rows]
        kinds = ["text" if isinstance(row[0], str) else "number" for row in rows]
        if typed:
            values = [f"the {kind} {value}" for kind, value in zip(kinds, values, strict=True)]
        blanks = any(isinstance(row[0], str) and row[0] != row[0].strip() for row in rows)
        there = f"; there {'is' if len(rows) == 1 else 'are'} {join_words(values)}"
        return f"{there}, with blanks" if blanks and not typed else there

    def _value_of(self, right: Group) -> SqlValue:
        """Return the value of the right side of a comparison; None if it is NULL, or has no value of its own."""
        names = _names(right)
        is_string = len(names) == len(right.items) == 1 and written(right)[0] == '"'  # in double quotes
        if not right.items or (names and not (is_string and self.statement.query.column(*names[0]) is None)):
            return None
        row = self._row(f"SELECT {written(right)}")
        return row[0] if row else None

    def _exists(self, condition: str) -> bool:
        return bool(self.statement.exists(self.source, condition))

    def _rows(self, query: str) -> Sequence[Sequence[SqlValue]] | None:
        return self.statement.select(f"{self.statement.before} {query}")

    def _row(self, query: str) -> Sequence[SqlValue] | None:
        rows = self._rows(query)
        return rows[0] if rows else None


# -- conditions


@dataclass(frozen=True)
class _Comparison:
    """An expression, as ``text``, with an operator and its right side."""

    text: str
    operator: str
    right: Group
    is_negated: bool = False

    @property
    def has_value(self) -> bool:
        """True if the right side is the same for all rows: it names no column."""
        return not _names(self.right)


def _comparison(term: Group) -> _Comparison | None:
    """Return the only comparison of a condition, the value on its right; None for any other condition."""
    term = without_parentheses(term)
    words = term.words()
    if {"OR", "NOT"} & {*words[:1]} or "OR" in words:
        return None
    at = [at for at, word in enumerate(words) if word in _OPERATORS]
    if len(at) != 1 or not at[0]:
        return None
    index, is_negated = at[0], "NOT" in words
    left, right = term.slice(0, index - (words[index - 1] == "NOT")), term.slice(index + 1)
    if not left.items or not right.items or (words[index] != "BETWEEN" and "AND" in words):
        return None
    operator = words[index]
    if not _names(left):
        if not _names(right) or operator not in (*_EQUAL, *_UNEQUAL, *_ORDERED):
            return None
        left, right, operator = right, left, _ORDERED.get(operator, operator)
    return _Comparison(written(left), operator, right, is_negated)


def _of_null_values(term: Group) -> str:
    """Return why a condition with NULL in a list, or as a bound of BETWEEN, is never true; '' if it may be true."""
    term = without_parentheses(term)
    is_negated = term.word(0) == "NOT"
    comparison = _comparison(term.slice(1) if is_negated else term)
    if comparison is None:
        return ""
    listed, is_negated = comparison.right.group(0), is_negated is not comparison.is_negated
    if comparison.operator == "IN" and listed is not None:
        return null_list(listed, is_negated=is_negated)
    bounds = [part.words() for part in _split(comparison.right, "AND")] if comparison.operator == "BETWEEN" else []
    return "" if is_negated or ["NULL"] not in bounds else "BETWEEN with NULL as a bound is never true"


def _names(expression: Group) -> list[tuple[Group, int]]:
    """Return the places of what may have another value in each row or group: columns, and aggregates."""
    return [
        (group, at)
        for group, at in places(expression)
        if group.is_name(at)
        if (kind_of_call(group, at) == "aggregate" if is_call(group, at) else group.word(at) not in _WORDS)
    ]


def _split(condition: Group, keyword: str) -> Iterator[Group]:
    """Yield the conditions between AND or OR, without the parentheses around them."""
    condition = without_parentheses(condition)
    start, between, words = 0, False, condition.words()
    if keyword == "AND" and "OR" in words:
        yield condition
        return
    for at, word in enumerate(words):
        if word == "BETWEEN":
            between = True
        elif word == "AND" and between:
            between = False
        elif word == keyword:
            yield from _split(condition.slice(start, at), keyword)
            start = at + 1
    if start:
        yield from _split(condition.slice(start), keyword)
    elif condition.items:
        yield condition


def _alternatives(term: Group) -> list[Group]:
    """Return the conditions beside OR, and a comparison for each value of a list; none for another condition."""
    parts = list(_split(term, "OR")) if "OR" in without_parentheses(term).words() else [term]
    conditions = []
    for part in parts:
        comparison = _comparison(part)
        values = comparison.right.group(0) if comparison and comparison.operator == "IN" else None
        if values is not None and comparison is not None and not comparison.is_negated and values.word(0) not in QUERY:
            left = without_parentheses(part)
            at = left.words().index("IN")
            conditions += [
                Group([*left.items[:at], Token("op", "=", 0), *value.items], left.parent, left.index)
                for value in islice(values.split(), 10)
            ]
        elif len(parts) > 1:
            conditions.append(part)
    return conditions


def _groups(term: Group) -> Iterator[Group]:
    for item in term.items:
        if isinstance(item, Group):
            yield item
            yield from _groups(item)


def _table(source: TableReference) -> str:
    alias = f" AS {quote_if_needed(source.label)}" if source.label.lower() != source.name.lower() else ""
    return f"{quote_if_needed(source.name)}{alias}"


def _verb(term: Group) -> str:
    return "has" if _comparison(term) else "fulfils"


def _shown(term: Group) -> str:
    return shorten(_SIGN.sub("-", written(without_parentheses(term))), _SHOWN)


def _value(value: SqlValue) -> str:
    """Return a value as SQL, shortened."""
    return shorten(literal(value), _VALUE)
