"""Notes on SQL that SQLite runs although other databases reject it or return something else.

Seven constructs are found: a double-quoted name that is not a column and is read as a string, ``= NULL``, a bare column
next to an aggregate, a division of two integers, a division by zero, a number that is compared with a TEXT column, and
a moment that is stored in a column of another form.
A note needs proof in the text and in the known tables, and usual correct code gets none. The time is bounded: each text
is read a fixed number of times, and long ones are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise

from pipemagic.explore.comparisons import ORDERED, Comparison, comparisons
from pipemagic.explore.query import DEPTH, QUERY, Group, Query, Source, all_queries, nest
from pipemagic.explore.schema import Column, Relation
from pipemagic.explore.sqlite_reference import BEFORE_OPERAND, FUNCTIONS, KEYWORDS, quote_if_needed
from pipemagic.hrana.values import SqlValue
from pipemagic.sql import Token, dates, normalize, parse, quote, significant, unquote
from pipemagic.sql.type_affinity import affinity, is_date, is_day_type, is_decimal
from pipemagic.text import looks_like, shorten, unseen_difference

LONGEST = 10_000
"""Characters of a statement that is read."""

_SHOWN = 60  # characters of an expression in a note
_ROWID = ("rowid", "oid", "_rowid_")
_QUALIFIER = re.compile(r"\b[A-Za-z_]\w*\.")


def lint(text: str, args: Mapping[str, SqlValue], tables: Mapping[str, Relation]) -> list[str]:
    """Return a note for each construct of a statement.

    ``args`` are the values of its parameters by ``:name``, ``tables`` the known tables by their names in lower case.
    """
    if len(text) > LONGEST:
        return []
    statement = parse(text)
    if not (statement.is_query or statement.changes_rows):
        return []
    found = [token for token in significant(text) if token.kind != "semi"]
    queries = list(all_queries(nest(found, cases=True).top, tables))
    rules = (
        _strings(queries, tables) if '"' in text else (),
        chain.from_iterable(map(_null_comparisons, queries)),
        chain.from_iterable(map(_bare_columns, queries)),
        _zero_divisions(queries, args),
        _integer_divisions(queries) if statement.is_query and "/" in text else (),
        _text_comparisons(queries, args) if args else (),
        chain.from_iterable(_stored_moments(query, args) for query in queries) if args else (),
    )
    return [note for notes in rules for note in islice(notes, 1)]


# -- expressions


def _next_to(group: Group, index: int) -> str:
    """Return the word or sign at an index in capitals, ``)`` for a group, ``(`` before the first one in a group."""
    if index < 0:
        return "(" if group.parent is not None else ""
    return ")" if group.group(index) is not None else group.word(index)


def _without_parentheses(term: Group) -> Group:
    """Return an expression without COLLATE and the parentheses around it."""
    while True:
        inner = term.group(0)
        if len(term.items) == 1 and inner is not None:
            term = inner
        elif term.word(len(term.items) - 2) == "COLLATE":
            term = term.slice(0, -2)
        else:
            return term


def _is_call(group: Group, index: int) -> bool:
    return group.is_name(index) and group.group(index + 1) is not None and group.word(index) not in KEYWORDS


def _kind(group: Group, index: int) -> str | None:
    """Return the kind of the function that is called at an index; None if it is unknown."""
    name, arguments = group.name(index).lower(), group.group(index + 1)
    several = arguments is not None and len(arguments.split()) > 1
    if several and name in ("min", "max"):
        return "function"
    function = FUNCTIONS.get(name)
    return None if function is None else function.kind


def _end_of_call(group: Group, index: int) -> int:
    """Return the index after a call with its FILTER and OVER."""
    end = index + 2
    while group.word(end) in ("FILTER", "OVER"):
        end += 2
    return end


def _number(operand: Group) -> float | None:
    """Return the value of a number; None for anything else."""
    try:
        return float(operand.word(0)) if len(operand.items) == 1 and operand.word(0)[:1] in "0123456789." else None
    except ValueError:  # a sign, a group, or a hexadecimal number
        return None


def _comparable(group: Group) -> str:
    """Return an expression for comparisons: in lower case, without qualifiers, a single name without quotes."""
    text = group.name(0) if len(group.items) == 1 and group.is_name(0) else _QUALIFIER.sub("", _text(group))
    return text.lower()


def _text(group: Group) -> str:
    text = ""
    for index, item in enumerate(group.items):
        piece = item.text if isinstance(item, Token) else _text(item)
        piece = f"({piece})" if isinstance(item, Group) and item.word(0) != "CASE" else piece
        is_call = piece[0] == "(" and group.is_name(index - 1) and group.word(index - 1) not in KEYWORDS - {"CAST"}
        joined = not text or is_call or piece in (".", ",") or text.endswith(".")
        text += piece if joined else f" {piece}"
    return text


# -- double-quoted strings


def _strings(queries: Sequence[Query], tables: Mapping[str, Relation]) -> Iterator[str]:
    """Yield the names in double quotes that the statement does not define: SQLite reads them as strings."""
    sources = [source for query in queries for source in query.sources]
    if not all(map(_is_known, sources)):
        return
    defined, quoted = {*_ROWID, *tables}, list[Token]()
    for source in sources:
        defined |= {source.label.lower(), *map(str.lower, source.names)}
        if source.table is not None:
            defined |= {column.name.lower() for column in source.table.columns}
    for query in queries:
        for name, table in query.common.items() if query.part.word(0) in QUERY else ():
            defined |= {name, *(column.lower() for column, _ in table.typed)}
        for index, token in enumerate(query.part.items):
            if isinstance(token, Token) and query.part.is_name(index):
                before, after = (_next_to(query.part, index + step) for step in (-1, 1))
                if before not in BEFORE_OPERAND or after in (".", ")"):
                    defined.add(normalize(token.text))
                elif token.text.startswith('"'):
                    quoted.append(token)
    has_subquery = sum(query.part.word(0) in QUERY for query in queries) > 1
    for token in quoted:
        name = unquote(token.text)
        # A column of a subquery may have any name.
        is_simple = re.fullmatch(r"[\w ]*", name) is not None and not name.lower().startswith("column")
        if name.lower() not in defined and (is_simple or not has_subquery):
            string, shown = (shorten(one, _SHOWN) for one in ("'" + name.replace("'", "''") + "'", token.text))
            other = looks_like(name, (column for source in sources for column in source.names))
            write = f"write {quote(other)};{unseen_difference(name, other)}" if other else "use single quotes"
            yield f"{shown} is not a column; SQLite reads it as the string {string}: {write}"


def _is_known(source: Source) -> bool:
    """Return True if all columns of a source are known."""
    table = source.table
    if table is None or not source.columns or table.kind == "table function":
        return False
    return table.parsed or table.kind in ("table", "view")


# -- comparisons with NULL


def _null_comparisons(query: Query) -> Iterator[str]:
    """Yield each ``= NULL`` and ``<> NULL``: neither is ever true."""
    clause, part = "", query.part
    for index, word in enumerate(part.words()):
        clause = part.clause(index) or clause
        if word in ("=", "==", "<>", "!="):
            assigns = clause == "SET" and part.word(index - 2) in ("SET", ",")
            if (part.word(index + 1) == "NULL" and not assigns) or part.word(index - 1) == "NULL":
                instead = "IS NULL" if word in ("=", "==") else "IS NOT NULL"
                yield f"{word} NULL is never true: write {instead}"


# -- bare columns


def _bare_columns(query: Query) -> Iterator[str]:
    """Yield each column next to an aggregate that no GROUP BY determines: its value is that of any row."""
    if not query.select_list or len(query.sources) != 1 or not _is_known(query.sources[0]):
        return  # one of several sources may have one row
    parts = [*(expression for expression, _ in query.select_list), query.clause("HAVING")]
    calls = [(one, at) for part in parts for one, at in _places(part) if _is_call(one, at)]
    kinds = [_kind(one, at) for one, at in calls if one.word(_end_of_call(one, at) - 2) != "OVER"]
    names = [one.name(at).lower() for one, at in calls if _kind(one, at) == "aggregate"]
    if "aggregate" not in kinds or None in kinds:  # an unknown function may be like min and max
        return
    if sum(name in ("min", "max") for name in names) == 1:  # the columns are those of its row
        return
    grouping, table = _grouping(query), query.sources[0].table
    if grouping and (table is None or table.parsed or table.kind != "table"):
        return  # a view or a subquery may have one row for each group
    compared, (alone, named) = _compared(query.clause("WHERE")), _grouped_columns(query, grouping)
    keys = [*((name,) for name in _ROWID), *(table.unique_keys if table is not None else ())]
    if grouping and any(key and set(map(str.lower, key)) <= alone | compared for key in keys):
        return
    fixed = compared | named  # an expression over grouped columns is usually a part of GROUP BY
    row = "an arbitrary row of each group" if grouping else "an arbitrary row"
    for expression, _ in query.select_list:
        last = len(expression.items) - 1
        for group, at in _places(expression):
            is_star = group is expression and at == last and group.word(at) == "*" and group.word(at - 1) in ("", ".")
            found = query.column(group, at)
            if is_star or (found is not None and found[0] in query.sources and found[1] not in fixed):
                name = "*" if is_star else quote_if_needed(group.name(at))
                yield f"{name} is neither aggregated nor grouped: it comes from {row}"


def _grouping(query: Query, keyword: str = "GROUP") -> list[Group]:
    """Return the terms of GROUP BY or PARTITION BY."""
    return [_without_parentheses(term) for term in query.clause(keyword).slice(1).split()]


def _grouped_columns(query: Query, grouping: Sequence[Group]) -> tuple[set[str], set[str]]:
    """Return the columns that are terms of GROUP BY themselves, and all columns in its terms."""
    alone, named = set[str](), set[str]()
    selected: dict[str, list[Group]] = {}
    for number, (expression, alias) in enumerate(query.select_list, 1):
        for key in (str(number), alias.lower()):
            selected.setdefault(key, []).append(_without_parentheses(expression))
    for term in grouping:
        for one in (term, *selected.pop(_comparable(term), ())):
            inside = {group.name(at).lower() for group, at in _places(one) if group.is_name(at)}
            named |= inside
            if len(one.items) in (1, 3):
                alone |= inside
    return alone, named


def _places(item: Group, depth: int = 0) -> Iterator[tuple[Group, int]]:
    """Yield each place of an expression outside its subqueries and the arguments of aggregates."""
    index = 0 if depth <= DEPTH and item.word(0) not in QUERY else len(item.items)
    while index < len(item.items):
        inner = item.group(index)
        if inner is None:
            yield item, index
            if _is_call(item, index):
                end, inner = _end_of_call(item, index), item.group(index + 1)
                if item.word(end - 2) != "OVER" and _kind(item, index) == "aggregate":
                    inner = None
                index = end - 1
        if inner is not None:
            yield from _places(inner, depth + 1)
        index += 1


def _compared(where: Group) -> set[str]:
    """Return the columns that a condition compares with a value: they may be the same in all rows."""
    return {
        group.name(at).lower()
        for group, index in _places(where)
        if group.word(index) in ("=", "==", "IS", "IN")
        for at in (index - 1, index + 1)
        if group.is_name(at)
    }


# -- divisions by 0


def _zero_divisions(queries: Sequence[Query], args: Mapping[str, SqlValue]) -> Iterator[str]:
    """Yield each division by 0, or by a parameter that is 0 and that no condition can have excluded."""
    parameters = [
        item.text for query in queries for item in query.part.items if isinstance(item, Token) and item.kind == "param"
    ]
    for query in queries:
        for index, word in enumerate(query.part.words()):
            if word in ("/", "%"):
                right = _without_parentheses(query.part.slice(index + 1, index + 2))
                shown = _text(right)
                if _number(right) == 0:
                    yield f"a division by {shown} is NULL: SQLite raises no error"
                elif args.get(shown, "") == 0 and parameters.count(shown) == 1:
                    yield f"a division by {shown}, which is 0, is NULL: SQLite raises no error"


# -- divisions of integers

_MOST = 20  # divisions of an expression that are compared
_SIGNS = ("+", "-", "DISTINCT")
_TIGHT = frozenset(["||", "->", "->>", "COLLATE"])  # operators that bind more tightly than a division
_CONDITION = frozenset(
    ["=", "==", "<>", "!=", "<", ">", "<=", ">=", "AND", "OR", "NOT", "IN", "IS", "LIKE", "GLOB", "BETWEEN", "EXISTS",
     "ISNULL", "NOTNULL"]
)  # fmt: skip
_OF_INTEGERS = frozenset(["sum", "min", "max", "abs", "coalesce", "ifnull", "nullif", "iif"])
"""Functions that return an integer if their arguments are integers."""
_FRACTIONS = _OF_INTEGERS | {"avg", "total", "round"}
"""Functions whose argument needs the fraction; others, such as floor and printf, may be called to drop it."""


def _integer_divisions(queries: Sequence[Query]) -> Iterator[str]:
    """Yield each division of integers in a SELECT list, unless usually only the whole part is needed.

    That is so where it is grouped by, multiplied again, or an argument of a function such as floor. A column of
    decimals stores 10.00 as an integer.
    """
    terms = [term for query in queries for keyword in ("GROUP", "PARTITION") for term in _grouping(query, keyword)]
    grouped = {_comparable(one) for term in terms for one in (term, term.slice(-1))}
    factors = _factors_of_products(queries)
    for query in queries:
        selected = query.select_list if query.clause("SELECT").word(0) != "DISTINCT" else ()
        for number, (item, alias) in enumerate(selected, 1):
            if {str(number), alias.lower(), _comparable(_without_parentheses(item))} & grouped:
                continue
            found: list[tuple[Group, Group]] = []
            _is_integer(query, item, found)
            for left, right in found[:_MOST]:
                division = f"{_comparable(left)} / {_comparable(right)}"
                if _comparable(right.slice(-1)) in factors:
                    continue  # x / 100 beside x % 100, x / 10 * 10
                if not _is_exact(left, right) and not any(division in term for term in grouped):
                    shown = shorten(f"{_text(left)} / {_text(right)}", _SHOWN)
                    decimals = next(chain(_decimals(query, left), _decimals(query, right)), "")
                    yield f"{shown} divides integers{decimals} and drops the fraction: write 1.0 * {shown}"


def _decimals(query: Query, group: Group) -> Iterator[str]:
    """Yield which values are integers for each column of decimals in an expression, for a note."""
    for index, item in enumerate(group.items):
        if isinstance(item, Group):
            yield from _decimals(query, item)
        elif (declared := query.declared(group.slice(index, index + 1))) and is_decimal(declared):
            yield f" where values of {shorten(item.text, _SHOWN)} ({declared}) are whole"


def _factors_of_products(queries: Sequence[Query]) -> set[str]:
    """Return the operands of * and %, without the divisor of a / b * c."""
    return {
        _comparable(query.part.slice(at, at + 1))
        for query in queries
        for index, word in enumerate(query.part.words())
        if word in ("*", "%")
        for at in (index - 1, index + 1)
        if at > index or (at >= 0 and "/" not in map(query.part.word, range(at - 3, at)))
    }


def _is_exact(left: Group, right: Group) -> bool:
    """Return True if a division by a number leaves no fraction, or is rounded up on purpose: (x + 2) / 3."""
    divisor, dividend = _number(_without_parentheses(right)), _number(left)
    if not divisor or divisor == 1 or (dividend is not None and dividend % divisor == 0):
        return divisor is not None
    inner = left.group(len(left.items) - 1) or Group()
    last = len(inner.items) - 1
    return inner.word(last - 1) in ("+", "-") and inner.word(last).isdecimal()


def _is_integer(query: Query, group: Group, found: list[tuple[Group, Group]] | None, depth: int = 0) -> bool:
    """Return True if each expression of a list is known to be an integer.

    Adds the operands of the divisions of integers to ``found``, unless it is None: the whole part is then needed.
    """
    if depth > DEPTH or group.word(0) in QUERY:
        return depth <= DEPTH and _is_count(group)
    integers = [_is_integer_expression(query, item, found, depth) for item in group.split()]
    return bool(integers) and all(integers)


def _is_integer_expression(query: Query, item: Group, found: list[tuple[Group, Group]] | None, depth: int) -> bool:
    if not _CONDITION.isdisjoint(item.words()):
        return True  # in a condition usually only the whole part is needed
    start, is_product, result = 0, True, True  # of the term that is being read
    for sign, begin, end in _operands(item):
        operand = item.slice(begin, end)
        integer = _is_integer_operand(query, operand, found, depth)
        if sign in ("+", "-"):
            start, is_product = begin, True
        elif sign == "/" and is_product and integer and found is not None and len(found) < _MOST:
            found.append((item.slice(start, begin - 1), operand))
        is_product, result = is_product and integer, result and integer
    return result


def _operands(item: Group) -> Iterator[tuple[str, int, int]]:
    """Yield the operands of +, -, *, / and % as the operator before, '+' for the first, and their start and end."""
    sign, start, is_open = "+", 0, False
    for at, word in enumerate(item.words()):
        if is_open and word in ("+", "-", "*", "/", "%"):
            yield sign, start, at
            sign, start, is_open = word, at + 1, False
        elif word not in _SIGNS:
            is_open = True
    yield sign, start, len(item.items)


def _is_integer_operand(query: Query, part: Group, found: list[tuple[Group, Group]] | None, depth: int) -> bool:
    part = part.slice(next((at for at, word in enumerate(part.words()) if word not in _SIGNS), 0))
    inner, last = part.group(0), len(part.items) - 1
    if not part.items or not _TIGHT.isdisjoint(part.words()):
        return False
    if inner is not None and last == 0:
        if inner.word(0) == "CASE":
            values = [_is_integer(query, value, found, depth + 1) for value in _values_of_case(inner)]
            return all(values)
        return len(inner.split()) == 1 and _is_integer(query, inner, found, depth + 1)
    arguments = part.group(1)
    if part.word(0) == "CAST" and arguments is not None:
        cut = next((at for at, word in enumerate(arguments.words()) if word == "AS"), 0)
        to_integer = "INT" in _comparable(arguments.slice(cut)).upper()
        value = arguments.slice(0, cut)
        _is_integer(query, value, None if to_integer else found, depth + 1)
        is_column = len(value.items) in (1, 3) and value.group(0) is None
        return to_integer and is_column  # the cast of a part of a text is often exact
    if arguments is not None and _is_call(part, 0) and _end_of_call(part, 0) > last:
        name = part.name(0).lower()
        integers = _is_integer(query, arguments, found if name in _FRACTIONS else None, depth + 1)
        return name in ("count", "length") or (integers and name in _OF_INTEGERS)
    if last in (0, 2, 4) and (column := query.column(part, last)) is not None:
        table = column[0].table
        columns = () if table is None or table.parsed else table.columns
        types = [one.type for one in columns if one.name.lower() == column[1]]
        # SQLite gives a column INTEGER affinity if its type contains INT.
        return bool(types) and ("INT" in types[0].upper() or is_decimal(types[0]))
    return last == 0 and part.word(0).isdecimal()


def _values_of_case(case: Group) -> list[Group]:
    words = case.words()
    cuts = [at for at, word in enumerate(words) if word in ("WHEN", "THEN", "ELSE", "END")]
    return [case.slice(start + 1, end) for start, end in pairwise(cuts) if words[start] in ("THEN", "ELSE")]


def _is_count(query: Group) -> bool:
    """Return True for SELECT count(...) FROM ... without a GROUP BY."""
    return query.word(1) == "COUNT" and query.group(2) is not None and query.clause(3) == "FROM"


# -- numbers compared as text


def _text_comparisons(queries: Sequence[Query], args: Mapping[str, SqlValue]) -> Iterator[str]:
    """Yield each comparison of a TEXT column with a number, which SQLite converts to text: '10' < '9.5'.

    An integer equals the text of its digits, so = and IN with integers are left out.
    """
    for found in comparisons(queries):
        values = _values_of(found.parameter.text, args)
        is_number = any(isinstance(value, float) for value in values)
        if found.operator in (*ORDERED, "BETWEEN"):
            is_number = is_number or any(isinstance(value, int) for value in values)
        declared = found.declared if is_number and found.other.word(0) not in ("MIN", "MAX") else None
        if declared and affinity(declared) == "TEXT":
            column, parameter = shorten(_text(found.other), _SHOWN), found.parameter.text
            what = "contains numbers" if parameter not in args else "is a number"
            compared = f"{column} is declared {declared} and {parameter} {what}, so {found.operator} compares text"
            yield f"{compared}: write {_as_number(found, column)}"


def _as_number(found: Comparison, column: str) -> str:
    cast, parameter, operator = f"CAST({column} AS REAL)", found.parameter.text, found.operator
    if operator in ("IS", "IN", "BETWEEN"):
        return f"{cast} instead of {column}"
    return f"{parameter} {operator} {cast}" if found.is_first else f"{cast} {operator} {parameter}"


def _values_of(parameter: str, args: Mapping[str, SqlValue]) -> list[SqlValue]:
    """Return the value of a parameter, or the values of a list, whose names end with their numbers."""
    if parameter in args:
        return [args[parameter]]
    return [value for name, value in args.items() if re.fullmatch(rf"{re.escape(parameter)}_+\d+", name)]


# -- moments that are stored in a column of another form

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d.*", re.ASCII)


def _stored_moments(query: Query, args: Mapping[str, SqlValue]) -> Iterator[str]:
    """Yield each parameter with a time that is stored in a DATE column, or a day in a column of times."""
    for column, parameter in _stored(query):
        value, name, declared = args.get(parameter), quote_if_needed(column.name), column.type
        if not isinstance(value, str) or not is_date(declared):
            continue
        if is_day_type(declared) and _MOMENT.fullmatch(value):
            yield f"{name} is declared {declared} and {parameter} has a time ({value}): write date({parameter})"
        elif not is_day_type(declared) and dates.is_day(value):
            yield f"{name} is declared {declared} and {parameter} has no time ({value}): write datetime({parameter})"


def _stored(query: Query) -> Iterator[tuple[Column, str]]:
    """Yield the columns that INSERT and UPDATE fill with a parameter itself, and the parameter."""
    part, table = query.part, query.sources[0].table if query.sources else None
    if table is None:
        return
    by_name = {column.name.lower(): column for column in table.columns}
    for name, value in chain(_assigned(part), _inserted(part, [column.name for column in table.visible])):
        item = value.items[0] if len(value.items) == 1 else None
        if name.lower() in by_name and isinstance(item, Token) and item.kind == "param":
            yield by_name[name.lower()], item.text


def _assigned(part: Group) -> Iterator[tuple[str, Group]]:
    """Yield the names and values of ``SET name = value, ...``."""
    words = part.words()
    for start in (at + 1 for at, word in enumerate(words) if word == "SET"):
        end = next((at for at in range(start, len(words)) if part.clause(at)), len(words))
        for item in part.slice(start, end).split():
            if item.is_name(0) and item.word(1) == "=":
                yield item.name(0), item.slice(2)


def _inserted(part: Group, names: Sequence[str]) -> Iterator[tuple[str, Group]]:
    """Yield the names and values of ``INTO table (name, ...) VALUES (value, ...), ...``; ``names`` are all columns."""
    words = part.words()
    if "INTO" not in words or "VALUES" not in words:
        return
    start = words.index("VALUES")
    listed = next((part.group(at) for at in range(words.index("INTO"), start) if part.group(at) is not None), None)
    if listed is not None:
        names = [item.name(0) if item.is_name(0) else "" for item in listed.split()]
    for at in range(start + 1, len(words)):
        row = part.group(at)
        if row is None and words[at] != ",":
            return
        yield from zip(names, row.split() if row is not None else (), strict=False)
