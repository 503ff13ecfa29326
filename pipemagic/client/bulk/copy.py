"""Copy a table from one database to another: all rows or none, every value unchanged.

Only rows that are appended to a table whose columns have other types of dates take the form of these types: a day
becomes a moment at midnight in a DATETIME column, and such a moment a day in a DATE column.

A cursor reads the rows from one snapshot of the source. They are inserted into a staging table on the target, as when a
frame is loaded, and one short transaction at the end moves them into the table. A new table gets the definition and the
indexes of the source.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal

from pipemagic.client.bulk.batches import batches_for
from pipemagic.client.bulk.load import nothing_changed, remove_leftovers, send, staged, switch
from pipemagic.client.bulk.load_plan import (
    IfExists,
    LoadPlan,
    changed_row,
    check_name,
    differences,
    new_definition,
    stored_forms,
    writable,
)
from pipemagic.client.bulk.schema_objects import (
    TEXT,
    SchemaSnapshot,
    Table,
    check_not_referred_to,
    definition_of,
    dependents,
    inspect_table,
    rows,
)
from pipemagic.client.statement_errors import may_be_invalid_text
from pipemagic.errors import LoadError, PipemagicError, StatementError
from pipemagic.frames.columnar import ColumnarRows, RowsBuilder
from pipemagic.frames.columns import ColumnChunk, InvalidText, chunk_of_items, concat
from pipemagic.hrana.faults import RESPONSE_TOO_LARGE
from pipemagic.hrana.values import Text
from pipemagic.sql import dates, folded, quote
from pipemagic.sql.type_affinity import affinity, is_date, is_day_type

if TYPE_CHECKING:
    from pipemagic.client.database import Database

_MOST = 900
"""The most columns with which infinite numbers can be copied: the query would become too long."""

_TOGETHER = 60
"""The maximum number of columns with their signs in one integer; SQLite also limits the depth of expressions."""

_AGAIN = "copy the table again"
_BY_HAND = "create the table yourself, and use append"

DateForm = Literal["", "day", "moment"]
"""The form in which dates of a column are stored: the form of the target's declared type, '' for the source's form."""

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")


def copy(
    source: Database,
    target: Database,
    table: str,
    new: str | None = None,
    *,
    if_exists: IfExists = "fail",
    progress: Callable[[int], None] | None = None,
) -> int:
    """Copy a table, or the rows of a view, to another database; return the number of rows.

    ``new`` is its name there. ``if_exists`` is what to do with a table of that name: ``fail``, ``append``, or
    ``replace`` it by one like that of the source; the triggers and views on it are kept. The triggers of the source are
    not copied. ``progress`` is called with the number of rows copied so far. Raise LoadError, with nothing changed, for
    a copy that cannot be exact and atomic.
    """
    new = new or table
    check_name(new)
    with nothing_changed("before the rows were read"):
        relation = inspect_table(source, table)
        if relation is None:
            raise LoadError(f"table {table} does not exist; nothing was changed")
        if source.url == target.url and folded(relation.name) == folded(new):
            raise LoadError(f"{table} cannot be copied onto itself", hint="choose another name for the copy")
        names, types = _columns(source, relation)
        plan, kinds = _plan(source, target, relation, new, names, types, if_exists)
        if plan.into:
            of_dates = [name for name, declared in zip(names, types, strict=True) if is_date(declared)]
            _check_offsets(source, target, relation, plan, of_dates)
        forms = [_form(*pair) for pair in zip(types, (type_ for _, type_ in plan.types), strict=True)]
        remove_leftovers(target)
    with staged(target, plan) as staging:
        with nothing_changed("while rows were received"):
            try:
                query = _query(relation.name, names, forms)
                total = _fill(
                    source, target, relation.name, query, plan, kinds, forms, staging, progress, as_bytes=False
                )
            except _InvalidText:
                target.execute(f"DELETE FROM {quote(staging)}")
                query = _query(relation.name, names, forms, as_bytes=True)
                total = _fill(
                    source, target, relation.name, query, plan, kinds, forms, staging, progress, as_bytes=True
                )
        switch(target, plan, staging, total)
    return total


def _check_offsets(source: Database, target: Database, relation: Table, plan: LoadPlan, names: Sequence[str]) -> None:
    """Raise LoadError if times with an offset would be added to those without one, or the reverse."""
    there = inspect_table(target, plan.table)
    ours = stored_forms(source, relation, names)
    theirs = stored_forms(target, there, names) if there is not None else {}
    for name in names:
        own, other = ours[name], theirs.get(name)
        if other is None or own.aware == own.naive or other.aware == other.naive or own.aware == other.aware:
            continue
        column = quote(name)
        converted = f"{column} || '+00:00'" if other.aware else f"replace({column}, '+00:00', '')"
        raise LoadError(
            f"column {name}: the times of {plan.table} have {'an' if other.aware else 'no'} offset, and those of "
            f"{relation.name} have {'one' if own.aware else 'none'}; nothing was changed",
            hint=f"if they are in UTC, copy a view with {converted} AS {column}",
        )


def _columns(source: Database, relation: Table) -> tuple[list[str], list[str]]:
    """Return the names and declared types of the columns to copy: all but generated ones."""
    if relation.is_ordinary:
        columns = [column for column in relation.columns.values() if not column.generated]
        names, types = [column.name for column in columns], [column.declared for column in columns]
    else:
        empty = f"SELECT * FROM {quote(relation.name)} LIMIT 0"
        with nothing_changed("before the rows were read"), source.cursor(empty) as cursor:
            names, types = list(cursor.columns), [col.decltype or "" for col in cursor.cols]
    if not all(names) or "\0" in "".join((*names, *types)):
        raise LoadError(
            f"a column of {relation.name} has no name that can be written; nothing was changed",
            hint="copy a view that names all columns",
        )
    return names, types


def _plan(
    source: Database, target: Database, relation: Table, new: str, names: list[str], types: list[str],
    if_exists: IfExists,
) -> tuple[LoadPlan, list[str]]:  # fmt: skip
    """Return the plan, and for each column the affinity that could change a value ('' if it cannot)."""
    there = inspect_table(target, new)
    if there is not None and there.kind != "table":
        raise LoadError(f"{there.name} is a {there.kind}, not a table", hint="choose another name")
    pairs = tuple(zip(names, types, strict=True))
    if relation.is_ordinary:
        kinds, own = [""] * len(names), definition_of("table", relation.name, relation.name, relation.sql, _BY_HAND)
    else:
        kinds, own = [affinity(declared) for declared in types], new_definition(pairs)
    if there is None:
        creates = _indexes(source, target, relation, new)
        return LoadPlan(new, pairs, own, SchemaSnapshot(new), creates=creates), kinds
    match if_exists:
        case "append":
            return _append(there, names)
        case "replace":
            check_not_referred_to(target, there)
            others = dependents(target, there)
            indexes = _indexes(source, target, relation, there.name)
            creates = (*indexes, *others.creates(indexes=False), *others.checks(there, names))
            drops = others.drops(there)
            return LoadPlan(there.name, pairs, own, others.snapshot, drops=drops, creates=creates), kinds
        case "fail":
            hint = "--append adds the rows, --replace replaces the table"
            raise LoadError(f"table {new} already exists", hint=hint)
    raise LoadError(f"if_exists must be 'fail', 'append' or 'replace', not {if_exists!r}")


def _append(there: Table, names: list[str]) -> tuple[LoadPlan, list[str]]:
    if problem := differences(there, names, "the source"):
        raise LoadError(f"the columns do not match: {problem}; nothing was changed")
    columns = [writable(there, name) for name in names]
    pairs = tuple((column.name, column.declared) for column in columns)
    own = new_definition([(name, "") for name in names])
    plan = LoadPlan(there.name, pairs, own, there.snapshot, into="append")
    return plan, [affinity(column.declared) for column in columns]


def _form(source: str, target: str) -> DateForm:
    """Return the form that the dates of a column take, from its declared types in the source and in the target."""
    if is_day_type(target):
        return "" if is_day_type(source) else "day"
    return "moment" if is_date(target) and (is_day_type(source) or not is_date(source)) else ""


def _indexes(source: Database, target: Database, relation: Table, new: str) -> tuple[str, ...]:
    """Return the indexes of the source for the new table, with the table's name as a prefix if a name is taken."""
    own = rows(
        source,
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND lower(tbl_name) = lower(?) "
        "ORDER BY rowid",
        relation.name,
        types=(TEXT, TEXT),
    )
    others = "SELECT lower(name) FROM sqlite_master WHERE NOT (type = 'index' AND lower(tbl_name) = lower(?))"
    names = {name for (name,) in rows(target, others, new, types=(TEXT,))} | {folded(new)}
    indexes = []
    for name, text in own:
        index, free = definition_of("index", name, relation.name, text, _BY_HAND), _free(name, new, names)
        names.add(folded(free))
        indexes.append(index.renamed(free, new))
    return tuple(indexes)


def _free(name: str, table: str, names: set[str]) -> str:
    candidate, number = name, 1
    while folded(candidate) in names:
        candidate = f"{table}_{name}" if number == 1 else f"{table}_{name}_{number}"
        number += 1
    return candidate


def _fill(
    source: Database, target: Database, table: str, query: str, plan: LoadPlan, kinds: Sequence[str],
    forms: Sequence[DateForm], staging: str, progress: Callable[[int], None] | None, *, as_bytes: bool,
) -> int:  # fmt: skip
    """Send rows as they arrive and return their number. One thread does both, so that interrupts reach it.

    ``as_bytes``: a text of the table may be invalid, so all texts are received as bytes.
    """
    sent, batches = 0, batches_for(target, staging, plan.names)
    encodings = [_encoding(database) for database in (source, target)] if as_bytes else []
    width = len(forms) + _count_of_signs(len(forms)) + as_bytes * _count_of_groups(len(forms))

    def send_all(rows: ColumnarRows) -> None:
        nonlocal sent
        columns = [concat(chunks) for chunks in rows.columns]
        if as_bytes:
            columns = _with_texts(columns, len(forms), encodings, plan.names, sent)
        columns = _with_signs(columns, len(forms))
        _check(sent, columns, plan, kinds, forms)
        for batch in batches.of(columns, len(rows), first=sent):
            count, size = send(target, batch, plan, staging), batch.stop - batch.start
            if count != size:
                raise LoadError(f"{size} rows were sent and {count} arrived; nothing was changed")
            sent += count
            if progress is not None:
                progress(sent)

    try:
        with (
            nothing_changed("while rows were received"),
            nullcontext() if as_bytes else _invalid_texts(),
            source.cursor(query) as cursor,
        ):
            if len(cursor.cols) != width:
                raise LoadError(f"the columns of {table} changed during the copy; nothing was changed", hint=_AGAIN)
            waiting = RowsBuilder(cursor.cols)
            for some in cursor:
                waiting.add(some)
                if len(waiting) >= batches.rows:
                    send_all(waiting.build())
            if len(waiting):
                send_all(waiting.build())
    except StatementError as error:
        hint = error.hint
        if error.code == RESPONSE_TOO_LARGE:
            hint = "its server has no cursors: copy views of parts of it, with append"
        message = f"{table}: {error.message}; nothing was changed"
        raise LoadError(message, hint=hint, extended_code=error.extended_code) from None
    return sent


class _InvalidText(Exception):
    """The source has probably a text that is not UTF-8."""


@contextmanager
def _invalid_texts() -> Iterator[None]:
    """Raise `_InvalidText` for the errors of servers that read such a text: sqld ends the connection."""
    try:
        yield
    except PipemagicError as error:
        if may_be_invalid_text(error):
            raise _InvalidText from None
        raise


def _encoding(database: Database) -> str:
    return str(database.execute("PRAGMA encoding").rows[0][0])


def _query(table: str, names: Sequence[str], forms: Sequence[DateForm], *, as_bytes: bool = False) -> str:
    """Return the query for all rows. Its last columns have the signs of infinite numbers, which some servers omit.

    It builds no values: a server may limit those to a smaller size than that of values that it stores. ``as_bytes``
    returns texts as bytes, and as many columns more whose bits say which values are texts.
    """
    quoted = [quote(name) for name in names]
    convert: dict[DateForm, Callable[[str], str]] = {"day": dates.midnights_as_days, "moment": dates.days_as_midnights}
    values = [convert.get(form, str)(name) for name, form in zip(quoted, forms, strict=True)]
    count = _count_of_signs(len(names))
    groups = [quoted[at : at + _TOGETHER] for at in range(0, len(names), _TOGETHER)]
    last = [*map(_signs, groups)] if len(groups) == count else ["NULL"]
    if as_bytes:
        values = [f"iif(typeof({value}) = 'text', CAST({value} AS BLOB), {value})" for value in values]
        last += map(_texts, groups)
    return f"SELECT {', '.join([*values, *last])} FROM {quote(table)}"


def _texts(names: Sequence[str]) -> str:
    """Return the SQL of an integer with a bit for each column, 1 for a text."""
    return " + ".join(f"(typeof({name}) = 'text') * {1 << at}" for at, name in enumerate(names))


def _count_of_signs(columns: int) -> int:
    """Return the number of columns that have the signs of so many columns; one of NULL if these are too many."""
    return 1 if columns > _MOST else _count_of_groups(columns)


def _count_of_groups(columns: int) -> int:
    return -(-columns // _TOGETHER)


def _signs(names: Sequence[str]) -> str:
    """Return the SQL of an integer with a bit for each column, 1 for positive infinity; NULL if none is infinite."""
    infinite = " OR ".join(f"(typeof({name}) = 'real' AND abs({name}) = 9e999)" for name in names)
    bits = " + ".join(f"(typeof({name}) = 'real' AND {name} = 9e999) * {1 << at}" for at, name in enumerate(names))
    return f"CASE WHEN {infinite} THEN {bits} END"


def _check(
    start: int, columns: Sequence[ColumnChunk], plan: LoadPlan, kinds: Sequence[str], forms: Sequence[DateForm]
) -> None:
    """Raise LoadError for values that the target's types would change, and for a time of day in a DATE column."""
    for (name, declared), kind, form, column in zip(plan.types, kinds, forms, columns, strict=True):
        late = (row for row, value in enumerate(column.each()) if isinstance(value, str) and _MOMENT.match(value))
        if form == "day" and Text in column.kinds and (row := next(late, None)) is not None:
            (value,) = column.cut(row, row + 1).items()
            raise LoadError(
                f"column {name}: {plan.table} declares it {declared}, but {str(value)[:40]!r} has a time of day "
                f"(row {start + row + 1}); nothing was changed",
                hint=f"copy a view that selects date({quote(name)}), or append to a table that declares it DATETIME",
            )
        if (row := changed_row(column, kind)) is not None:
            (value,) = column.cut(row, row + 1).items()
            raise LoadError(
                f"column {name}: {plan.table} declares it {declared}, where {str(value)[:40]!r} would "
                f"become another value (row {start + row + 1}); nothing was changed"
            )


def _with_texts(
    columns: list[ColumnChunk], count: int, encodings: Sequence[str], names: Sequence[str], first: int
) -> list[ColumnChunk]:
    """Return the columns with their texts, and the signs; the last columns say which of the bytes are texts.

    ``first`` is the number of the first row. Raise LoadError for an invalid text in a database that is not UTF-8.
    """
    signs = _count_of_signs(count)
    bits = [column.items() for column in columns[count + signs :]]
    decoded = []
    for at, column in enumerate(columns[:count]):
        values = list(column.items())
        for row, flags in enumerate(bits[at // _TOGETHER]):
            value = values[row]
            if isinstance(value, bytes) and isinstance(flags, int) and flags >> at % _TOGETHER & 1:
                try:
                    values[row] = value.decode(encodings[0].lower())
                except UnicodeDecodeError:
                    values[row] = InvalidText(value)
                    if set(encodings) != {"UTF-8"}:
                        where = f"column {names[at]}, row {first + row + 1}"
                        message = f"a text is not valid in the encoding of the source ({where}); nothing was changed"
                        raise LoadError(message, hint="correct the text first") from None
        decoded.append(chunk_of_items(values))
    return [*decoded, *columns[count : count + signs]]


def _with_signs(columns: list[ColumnChunk], count: int) -> list[ColumnChunk]:
    """Return the first ``count`` columns; the others have the signs of their infinite numbers."""
    columns, signs = columns[:count], columns[count:]
    if not any(column.lacks_sign for column in columns):
        return columns
    bits = [column.items() for column in signs]
    return [
        _with_sign(column, bits[min(at // _TOGETHER, len(bits) - 1)], at % _TOGETHER) if column.lacks_sign else column
        for at, column in enumerate(columns)
    ]


def _with_sign(column: ColumnChunk, signs: Sequence[object], bit: int) -> ColumnChunk:
    values = column.values.copy()
    for row, value in enumerate(column.items()):
        if value is not None and value != value:
            sign = signs[row]
            if not isinstance(sign, int):
                raise LoadError("an infinite number was received without its sign; nothing was changed")
            values[row] = math.inf if sign >> bit & 1 else -math.inf
    return column._replace(values=values)
