"""Copy a table from one database to another: all rows or none, every value as it is.

The rows come by cursor from one moment of the source and go to a staging table on the target, as when a frame is
loaded; one short transaction at the end makes them the table's. A new table has the source's definition and indexes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pipemagic.client import definitions, surroundings
from pipemagic.client import staging as stagings
from pipemagic.client.affinities import would_change
from pipemagic.client.chunks import Chunk, Chunks
from pipemagic.client.load import nothing_changed, send, staged, switch
from pipemagic.client.surroundings import Seen, Table
from pipemagic.client.targets import Plan, check_name
from pipemagic.errors import LoadError, StatementError
from pipemagic.frames.cells import of_values
from pipemagic.frames.reading import affinity
from pipemagic.hrana.faults import RESPONSE_TOO_LARGE
from pipemagic.hrana.values import Float, SqlValue, Value, decode
from pipemagic.sql import quote

if TYPE_CHECKING:
    from pipemagic.client.database import Database, IfExists

_MOST = 900
"""Columns beyond which infinite numbers cannot be copied: their question would be too long an expression."""

_TOGETHER = 100  # conditions in one pair of parentheses: SQLite limits how deep an expression may be


def copy(
    source: Database,
    target: Database,
    table: str,
    new: str | None = None,
    *,
    if_exists: IfExists = "fail",
    progress: Callable[[int], None] | None = None,
) -> int:
    """Copy a table, or the rows of a view, to another database; gives the number of rows.

    ``new`` is its name there. ``if_exists`` says what to do with a table of that name: ``fail``, ``append``, or
    ``replace`` it by one that is as the source's; the triggers and views on it stay. The triggers of the source are not
    copied. ``progress`` is called with the number of rows copied so far. LoadError, and nothing changed, for what
    cannot be done exactly and atomically.
    """
    new = new or table
    check_name(new)
    target.check_writable("copy")
    with nothing_changed("before the rows were read"):
        found, plan, kinds = _looked_at(source, target, table, new, if_exists)
        stagings.remove_leftovers(target)
    with staged(target, plan) as staging:
        with nothing_changed("while the rows came"):
            total = _fill(source, target, found, plan, kinds, staging, progress)
        switch(target, plan, staging, total)
    return total


def _looked_at(
    source: Database, target: Database, table: str, new: str, if_exists: IfExists
) -> tuple[Table, Plan, list[str]]:
    """Look at both ends; LoadError for what cannot be done. Changes nothing."""
    found = surroundings.look(source, table)
    if found is None:
        raise LoadError(f"there is no table {table} to copy; nothing was changed")
    if source.url == target.url and found.name.lower() == new.lower():
        raise LoadError(f"{table} cannot be copied onto itself", hint="give the copy another name")
    names, types = _columns(source, found)
    return found, *_plan(source, target, found, new, names, types, if_exists)


def _columns(source: Database, found: Table) -> tuple[list[str], list[str]]:
    """Give names and declared types of what is to be copied: not what is computed from it."""
    if definitions.is_ordinary(found.sql):
        columns = [column for column in found.columns.values() if not column.generated]
        return [column.name for column in columns], [column.declared for column in columns]
    question = f"SELECT * FROM {quote(found.name)} LIMIT 0"
    with nothing_changed("before the rows were read"), source.cursor(question) as cursor:
        return list(cursor.columns), [col.decltype or "" for col in cursor.cols]


def _plan(
    source: Database, target: Database, found: Table, new: str, names: list[str], types: list[str], if_exists: IfExists
) -> tuple[Plan, list[str]]:
    """Give the plan, and the affinities that could change a value on its way ('' where none can)."""
    there = surroundings.look(target, new)
    if there is not None and there.kind != "table":
        raise LoadError(f"{there.name} is a {there.kind}, not a table", hint="choose another name")
    ordinary = definitions.is_ordinary(found.sql)
    text = found.sql if ordinary else _definition(names, types)
    kinds = [""] * len(names) if ordinary else [affinity(declared) for declared in types]
    pairs = tuple(zip(names, types, strict=True))
    if there is None:
        makes = _indexes(source, target, found, new)
        return Plan(new, tuple(names), pairs, text, Seen(new), makes=makes), kinds
    match if_exists:
        case "append":
            return _append(there, names)
        case "replace":
            surroundings.check_not_referred_to(target, there)
            around = surroundings.around(target, there)
            drops, kept = around.drops(there), around.without_indexes()
            makes = (*_indexes(source, target, found, there.name), *kept.makes(), *kept.checks(there, names))
            return Plan(there.name, tuple(names), pairs, text, around.seen, drops=drops, makes=makes), kinds
        case "fail":
            raise LoadError(f"there is a table {new} already", hint="--append adds the rows, --replace gives it up")
    raise LoadError(f"a copy can fail, append or replace, not {if_exists!r}")


def _append(there: Table, names: list[str]) -> tuple[Plan, list[str]]:
    unknown = [name for name in names if name.lower() not in there.columns]
    given = {name.lower() for name in names}
    missing = [one.name for name, one in there.columns.items() if name not in given and not one.fills_itself]
    if unknown or missing:
        raise LoadError(
            f"the columns do not match: {', '.join([*unknown, *missing])} is in one table only; nothing was changed"
        )
    columns = [there.columns[name.lower()] for name in names]
    if made := [column.name for column in columns if column.generated]:
        raise LoadError(f"column {made[0]} of {there.name} is generated and cannot be written; nothing was changed")
    pairs = tuple((column.name, column.declared) for column in columns)
    text = _definition(names, [""] * len(names))
    plan = Plan(there.name, tuple(names), pairs, text, there.seen, into="append")
    return plan, [affinity(column.declared) for column in columns]


def _definition(names: Sequence[str], types: Sequence[str]) -> str:
    listed = ", ".join(f"{quote(name)} {declared}".rstrip() for name, declared in zip(names, types, strict=True))
    return f'CREATE TABLE "t" ({listed})'


def _indexes(source: Database, target: Database, found: Table, new: str) -> tuple[str, ...]:
    """Give the source's indexes for the new table; one whose name is taken there gets the table's before it."""
    own = surroundings.rows(
        source,
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND lower(tbl_name) = lower(?) "
        "ORDER BY rowid",
        found.name,
    )
    others = "SELECT lower(name) FROM sqlite_master WHERE NOT (type = 'index' AND lower(tbl_name) = lower(?))"
    taken = {str(name) for (name,) in surroundings.rows(target, others, new)} | {new.lower()}
    made = []
    for name, text in own:
        free = _free(str(name), new, taken)
        taken.add(free.lower())
        made.append(definitions.index_under_name(str(text), free, new))
    return tuple(made)


def _free(name: str, table: str, taken: set[str]) -> str:
    candidate, number = name, 1
    while candidate.lower() in taken:
        candidate = f"{table}_{name}" if number == 1 else f"{table}_{name}_{number}"
        number += 1
    return candidate


def _fill(
    source: Database,
    target: Database,
    found: Table,
    plan: Plan,
    kinds: list[str],
    staging: str,
    progress: Callable[[int], None] | None,
) -> int:
    """Send all rows while they come; gives their number. Both are done here, so that an interrupt reaches them."""
    sent = 0
    chunks = Chunks(target, staging, plan.names)
    try:
        with nothing_changed("while the rows came"), source.cursor(_question(found.name, plan.names)) as cursor:
            for chunk in _chunks(chunks, cursor, plan, kinds):
                arrived, given = send(target, chunk, plan, staging), chunk.stop - chunk.start
                if arrived != given:
                    raise LoadError(f"{given} rows were sent and {arrived} arrived; nothing was changed")
                sent += arrived
                if progress is not None:
                    progress(sent)
    except StatementError as error:
        hint = error.hint
        if error.code == RESPONSE_TOO_LARGE:
            hint = "its server has no cursors: copy views of parts of it, with append"
        raise LoadError(f"{found.name}: {error.message}; nothing was changed", hint=hint) from None
    return sent


def _question(table: str, names: Sequence[str]) -> str:
    """Ask for all rows, and in a last column for the signs of infinite numbers, which the wire does not carry."""
    quoted = [quote(name) for name in names]
    listed = ", ".join(quoted)
    if len(names) > _MOST:
        return f"SELECT {listed}, NULL FROM {quote(table)}"
    tests = [f"(typeof({name}) = 'real' AND abs({name}) = 9e999)" for name in quoted]
    groups = [" OR ".join(tests[at : at + _TOGETHER]) for at in range(0, len(tests), _TOGETHER)]
    pairs = zip(tests, quoted, strict=True)
    signs = " || ".join(f"CASE WHEN {test} AND {name} > 0 THEN '+' ELSE '-' END" for test, name in pairs)
    infinite = " OR ".join(f"({group})" for group in groups)
    return f"SELECT {listed}, CASE WHEN {infinite} THEN {signs} END FROM {quote(table)}"


def _chunks(chunks: Chunks, batches: Iterable[Sequence[list[Value]]], plan: Plan, kinds: list[str]) -> Iterator[Chunk]:
    """Give the statements that insert rows as they come; each is made when the one before was sent."""
    waiting: list[list[SqlValue]] = []
    start = 0
    for batch in batches:
        waiting += [_decoded(row) for row in batch]
        while len(waiting) >= chunks.rows:
            rows, waiting = waiting[: chunks.rows], waiting[chunks.rows :]
            yield from _made(chunks, start, rows, plan, kinds)
            start += len(rows)
    if waiting:
        yield from _made(chunks, start, waiting, plan, kinds)


def _made(chunks: Chunks, start: int, rows: list[list[SqlValue]], plan: Plan, kinds: list[str]) -> Iterator[Chunk]:
    columns = list(zip(*rows, strict=True))
    _check(start, columns, plan, kinds)
    return chunks.of([of_values(column) for column in columns], len(rows), first=start)


def _check(start: int, columns: Sequence[Sequence[SqlValue]], plan: Plan, kinds: list[str]) -> None:
    for (name, declared), kind, column in zip(plan.types, kinds, columns, strict=True):
        changed = next((value for value in column if would_change(value, kind)), None)
        if changed is not None:
            raise LoadError(
                f"column {name}: {plan.table} declares it {declared}, where {str(changed)[:40]!r} would "
                f"become another value (row {start + column.index(changed) + 1}); nothing was changed"
            )


def _decoded(row: list[Value]) -> list[SqlValue]:
    values = [decode(value) for value in row[:-1]]
    signs = decode(row[-1])
    if isinstance(signs, str):
        for number, (value, sign) in enumerate(zip(row, signs, strict=False)):
            if isinstance(value, Float) and value.value is None:
                values[number] = math.inf if sign == "+" else -math.inf
    elif any(isinstance(value, float) and value != value for value in values):
        raise LoadError("an infinite number came without its sign; nothing was changed")
    return values
