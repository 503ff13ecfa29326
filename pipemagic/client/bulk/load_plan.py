"""Plan a load: read the table, check that the values fit, and choose the statements."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from pipemagic.client.bulk.schema_objects import (
    ANY,
    MAYBE_TEXT,
    STAGING,
    TEXT,
    Dependents,
    KeyColumn,
    SchemaSnapshot,
    Table,
    TargetColumn,
    broken_objects,
    check_indexed,
    check_not_referred_to,
    definition_of,
    dependents,
    has_constraints,
    inspect_table,
    rows,
)
from pipemagic.errors import LoadError, StatementError
from pipemagic.frames.columns import ColumnChunk
from pipemagic.frames.encoder import has_signed_zero
from pipemagic.frames.from_pandas import IN_UTC, WITHOUT_ZONE, FrameColumn, Problem, check_problems, without
from pipemagic.frames.moments import Moments
from pipemagic.hrana.values import Float, Integer, SqlValue, Text, is_integer
from pipemagic.sql import Definition, folded, quote
from pipemagic.sql.type_affinity import affinity, is_date, is_number

if TYPE_CHECKING:
    from pipemagic.client.database import Database

IfExists: TypeAlias = Literal["fail", "append", "replace", "upsert"]
"""What to do if the table exists."""

_ROWID = ("rowid", "_rowid_", "oid")
_EXACT = 2**53
_LOOKED_AT = 1000  # stored values
_TERMS = 100  # of a compound SELECT; SQLite takes 500
_NUMBER = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*\Z", re.ASCII)
_TYPE = re.compile(r"[^\W\d]\w*(?: [^\W\d]\w*)*(?: ?\( ?[+-]?\d+ ?(?:, ?[+-]?\d+ ?)?\))?\Z")


@dataclass(frozen=True)
class LoadPlan:
    """The plan of a load.

    ``definition`` is that of the staging table, which becomes the table unless rows are added ``into`` one. ``types``
    are the columns to write, with their declared types in the resulting table. ``snapshot`` is the schema when it
    was read: the switch fails if it has changed since. ``drops`` and ``creates`` are the statements of the switch
    before and after the staging table gets its name. ``keeps`` is True if a replaced table keeps its definition.
    ``broken`` are views and triggers that are not valid: they are dropped first and created again, because SQLite
    renames no table beside them; the switch fails if this would change a view or trigger of the database. ``columns``
    are those of a frame, with the values in the form of these types.
    """

    table: str
    types: tuple[tuple[str, str], ...]
    definition: Definition
    snapshot: SchemaSnapshot
    into: Literal["", "append", "upsert"] = ""
    keys: tuple[KeyColumn, ...] = ()
    drops: tuple[str, ...] = ()
    creates: tuple[str, ...] = ()
    keeps: bool = False
    broken: Dependents | None = None
    columns: tuple[FrameColumn, ...] = field(default=(), repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns to write."""
        return tuple(name for name, _ in self.types)

    @property
    def rowid(self) -> str | None:
        """The name of the rowid in the staging table, which counts the rows; None if the columns have all its names."""
        return next((alias for alias in _ROWID if alias not in {folded(name) for name in self.names}), None)

    def texts_among_numbers(self) -> Iterator[tuple[str, str, int, str]]:
        """Yield the columns of numbers that get texts: the name, its declared type, the first row from 1, its text."""
        declared = {folded(name): type_ for name, type_ in self.types}
        for column in self.columns:
            type_ = declared[folded(column.name)]
            if Text in column.values.kinds and is_number(type_):
                texts = enumerate(column.values.each(), start=1)
                row, text = next((row, value) for row, value in texts if isinstance(value, str))
                yield column.name, type_, row, text

    def create(self, staging: str) -> str:
        """Return the SQL that creates the staging table."""
        return self.definition.renamed(staging)

    def switch(self, staging: str, total: int) -> list[str]:
        """Return the statements that move the staged rows into the table, for one transaction."""
        check = self.snapshot.check()
        if self.into:
            return [check, self.insert(staging), self._all_added(total), f"DROP TABLE {quote(staging)}"]
        rename = f"ALTER TABLE {quote(staging)} RENAME TO {quote(self.table)}"
        drops = [text.replace(STAGING, staging) for text in self.drops]
        if self.broken is None:
            return [check, *drops, rename, *self.creates]
        is_same = self.broken.snapshot.check()
        others = [text for text in self.broken.drops_of_users() if text not in self.drops]
        again = [text for text in self.broken.creates(indexes=False) if text not in self.creates]
        return [check, is_same, *others, *drops, rename, *again, *self.creates, is_same]

    def around_broken(self, database: Database, error: StatementError) -> LoadPlan | None:
        """Return the plan that sets the invalid view or trigger of an error aside; None for another error."""
        broken = None if self.into else broken_objects(database, error.message, self.broken)
        return None if broken is None else replace(self, broken=broken)

    def insert(self, staging: str, first: int | None = None) -> str:
        """Return the statement that adds the staged rows to the table, or only the ``first`` of them."""
        names = ", ".join(map(quote, self.names))
        rowid = self.rowid
        limit = "" if first is None else f" LIMIT {first}"
        order = f" ORDER BY {rowid}" if rowid else ""
        added = f"SELECT {names} FROM {quote(staging)} WHERE true{order}{limit}"
        return f"INSERT INTO {quote(self.table)} ({names}) {added}{self._on_conflict()}"

    def _all_added(self, total: int) -> str:
        """Return a statement that fails if a constraint or a trigger of the table skipped rows."""
        only_keys = self.into == "upsert" and len(self.keys) == len(self.names)  # existing rows are kept
        return "SELECT 1" if only_keys else f"SELECT json(iif(changes() <> {total}, 'fewer', NULL))"

    def _on_conflict(self) -> str:
        if self.into != "upsert":
            return ""
        keys = {folded(key.name) for key in self.keys}
        sets = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in self.names if folded(name) not in keys)
        target = ", ".join(quote(key.name) for key in self.keys)
        return f" ON CONFLICT ({target}) DO " + (f"UPDATE SET {sets}" if sets else "NOTHING")

    def explain(self, error: StatementError) -> LoadError:
        """Convert the error of a switch to the error of the load."""
        checks = [self.snapshot.check(), *([self.broken.snapshot.check()] if self.broken else [])]
        if error.sql in checks and "malformed JSON" in error.message:
            if self.broken is not None and error.index >= len(checks):  # the last statement
                return LoadError(
                    f"{self.broken.names} would not stay as they are; nothing was changed",
                    hint="SQLite renames a table only if all views and triggers are valid: change or drop these first",
                )
            return LoadError(f"another connection changed {self.table} meanwhile; nothing was changed by this load")
        if self.into and error.index == 2 and "malformed JSON" in error.message:
            return LoadError(
                f"a constraint of {self.table} or a trigger on it skips some of the rows; nothing was changed",
                hint="look for ON CONFLICT IGNORE and RAISE(IGNORE) in its schema",
            )
        hint = error.hint
        if any(error.sql == text for text in self.creates):
            hint = f"an object of {self.table} does not fit its new columns: drop it first"
        return LoadError(f"{error.message}; nothing was changed", hint=hint, extended_code=error.extended_code)


def plan_load(
    database: Database,
    table: str,
    columns: Sequence[FrameColumn],
    if_exists: IfExists = "fail",
    *,
    keys: Sequence[str] = (),
    types: Mapping[str, str] | None = None,
) -> LoadPlan:
    """Read the target and return the plan; raise LoadError for a load that cannot be exact and atomic."""
    check_name(table)
    if if_exists not in get_args(IfExists):
        raise LoadError(f"if_exists must be 'fail', 'append', 'replace' or 'upsert', not {if_exists!r}")
    declarations = _check_types(columns, types or {})
    relation = inspect_table(database, table)
    if (if_exists == "upsert") != bool(keys):
        raise LoadError(
            "keys=... names the columns that identify a row, and requires if_exists='upsert'",
            hint="load(frame, table, if_exists='upsert', keys=['id'])",
        )
    if keys:
        keys = _check_keys(keys, columns)
    if relation is None:
        declared, columns = _of_new_table(columns, declarations)
        return LoadPlan(table, declared, new_definition(declared, keys), SchemaSnapshot(table), columns=tuple(columns))
    if relation.kind != "table":
        raise LoadError(f"{relation.name} is a {relation.kind}, not a table", hint="choose another name")
    if if_exists == "fail":
        raise LoadError(
            f"table {table} already exists",
            hint="--append adds the rows, --upsert KEY updates those with the same key, --replace replaces the table "
            "(in Python: if_exists=...)",
        )
    if if_exists == "replace":
        return _replace(database, relation, columns, declarations)
    if types:
        raise LoadError(f"table {table} already exists; types=... is for a new table")
    return _add(database, relation, columns, keys)


def check_name(table: str) -> None:
    """Raise LoadError for an invalid table name."""
    if not table or "\0" in table or table.lower().startswith("sqlite_"):
        raise LoadError(f"{table!r} cannot be the name of a table")


def new_definition(types: Sequence[tuple[str, str]], keys: Sequence[str] = ()) -> Definition:
    """Return the definition of a table for columns with declared types."""
    defined = [f"{quote(name)} {_type(declared)}".rstrip() for name, declared in types]
    if keys:
        defined.append(f"PRIMARY KEY ({', '.join(map(quote, keys))})")
    text = f'CREATE TABLE "t" ({", ".join(defined)})'
    return definition_of("table", "t", "t", text, "use other names and types")


def _type(declared: str) -> str:
    """Return a declared type as SQL: one that is more than words and numbers is a name in quotes, as in SQLite."""
    return declared if not declared or _is_type(declared) else quote(declared)


def _is_type(text: str) -> bool:
    return _TYPE.match(text) is not None and not has_constraints(text)


def _of_new_table(
    columns: Sequence[FrameColumn], types: Mapping[str, str]
) -> tuple[tuple[tuple[str, str], ...], Sequence[FrameColumn]]:
    """Return the declared types of a new table, and the columns in their form; raise LoadError for impossible ones."""
    declared = tuple((column.name, types.get(column.name, column.declared)) for column in columns)
    columns = [
        column.for_type(types[column.name], requested=True) if column.name in types else column for column in columns
    ]
    check_problems(columns)
    for column in columns:
        if column.name in types:
            _check_affinity(column, types[column.name])
    return declared, columns


def _add(database: Database, relation: Table, columns: Sequence[FrameColumn], keys: Sequence[str]) -> LoadPlan:
    """Return the plan to add rows to a table."""
    names = [column.name for column in columns]
    if problem := differences(relation, names, nullable=bool(keys)):
        raise LoadError(f"the columns do not match: {problem}; nothing was changed", hint="rename or add them")
    _check_generated(relation, columns)
    of_dates = [column.name for column in columns if isinstance(column.source, Moments)]
    columns = _for_types_of(relation, columns, stored_forms(database, relation, of_dates))
    plain = [(column.name, column.declared) for column in columns]
    return LoadPlan(
        relation.name, _types(relation, columns), new_definition(plain), relation.snapshot,
        into="upsert" if keys else "append", keys=_unique_key(database, relation, keys) if keys else (),
        columns=tuple(columns),
    )  # fmt: skip


def _replace(database: Database, relation: Table, columns: Sequence[FrameColumn], types: Mapping[str, str]) -> LoadPlan:
    """Return the plan to replace a table; its indexes and triggers, and the views on it, are created again.

    A table with constraints and the columns of the frame keeps its definition; another one gets a new definition.
    """
    check_not_referred_to(database, relation)
    others = dependents(database, relation)
    creates, drops, names = others.creates(), others.drops(relation), [column.name for column in columns]
    if not types and _keeps(relation, names):
        columns = _for_types_to_keep(relation, columns)
        hint = f"drop it first: DROP TABLE {quote(relation.name)}"
        own = definition_of("table", relation.name, relation.name, relation.sql, hint)
        return LoadPlan(
            relation.name, _types(relation, columns), own, others.snapshot, drops=drops, creates=creates, keeps=True,
            columns=tuple(columns),
        )  # fmt: skip
    if relation.has_foreign_keys:
        raise LoadError(
            f"{relation.name} has foreign keys, which other columns or types would lose; nothing was changed",
            hint="empty the table and append",
        )
    check_indexed(database, relation, names)
    declared, columns = _of_new_table(columns, types)
    creates += others.checks(relation, names)
    return LoadPlan(
        relation.name, declared, new_definition(declared), others.snapshot, drops=drops, creates=creates,
        columns=tuple(columns),
    )  # fmt: skip


def _keeps(relation: Table, names: Sequence[str]) -> bool:
    """Return True if a table that is replaced keeps its definition: it has constraints, and columns of these names."""
    return relation.is_ordinary and has_constraints(relation.sql) and not differences(relation, names)


def _for_types_to_keep(relation: Table, columns: Sequence[FrameColumn]) -> Sequence[FrameColumn]:
    _check_generated(relation, columns)
    try:
        return _for_types_of(relation, columns, {})
    except LoadError as error:
        hint = "convert the column in the frame, or pass types=... for a new definition of the table"
        raise error.replace(hint="\n".join(filter(None, [error.hint, hint]))) from None


def _for_types_of(
    relation: Table, columns: Sequence[FrameColumn], forms: Mapping[str, StoredForm]
) -> Sequence[FrameColumn]:
    """Return the columns in the form of the types that a table declares, and of the moments stored in it.

    Raise LoadError for values that have no such form, and for those that the types would change.
    """
    converted = [_for_column(column, relation, forms.get(column.name)) for column in columns]
    check_problems(converted)
    for column in converted:
        there = relation.columns[folded(column.name)]
        _check_affinity(column, there.declared, relation.name)
        if there.is_rowid and column.declared != "INTEGER":
            _check_rowids(column, f"{relation.name}.{there.name}")
    return converted


def _check_generated(relation: Table, columns: Sequence[FrameColumn]) -> None:
    """Raise LoadError for generated columns."""
    generated = [column for column in columns if relation.columns[folded(column.name)].generated]
    fix = without(generated) if generated else ""
    check_problems(
        replace(column, problem=Problem(f"it is generated in {relation.name} and cannot be written", fix))
        for column in generated
    )


def _for_column(column: FrameColumn, relation: Table, form: StoredForm | None) -> FrameColumn:
    there, table = relation.columns[folded(column.name)], relation.name
    converted = column.for_type(there.declared, table)
    if not isinstance(column.source, Moments):
        return converted
    if converted.problem is not None and not column.source.aware:  # a time of day for a DATE
        fix = (
            f"{converted.problem.fix} when the table is created again, or convert it:\n{_as_datetime(relation, there)}"
        )
        return replace(converted, problem=Problem(converted.problem.reason, fix))
    if form is None or converted.problem is not None:
        return converted
    if form.numbers:
        epoch = "pandas.Timestamp(0, tz='UTC')" if column.source.aware else "pandas.Timestamp(0)"
        return column.with_problem(
            f"the values of {table} are numbers, not dates as text",
            f"import pandas; {{0}} = ({{0}} - {epoch}) // pandas.Timedelta('1s')  # if they are seconds",
        )
    if column.source.aware and form.naive and not form.aware:
        return column.with_problem(
            f"the times of {table} have no offset, and those of the frame have one", WITHOUT_ZONE
        )
    if not column.source.aware and form.aware and not form.naive:
        return column.with_problem(f"the times of {table} have an offset, and those of the frame have none", IN_UTC)
    if form.timed and not is_date(there.declared):  # a TEXT column, whose times say what days look like
        return replace(converted, values=column.source.chunk(days=False))
    return converted


def _as_datetime(relation: Table, there: TargetColumn) -> str:
    """Return the statements of libSQL that make a DATE column a DATETIME column.

    They would drop the constraints of the column: for a table that may have some, they end in dots, and do not run.
    """
    name, column = quote(relation.name), quote(there.name)
    constraints = " ..., with its constraints" if has_constraints(relation.sql) else ""
    return (
        f"ALTER TABLE {name} ALTER COLUMN {column} TO {column} DATETIME{constraints}; "
        f"UPDATE {name} SET {column} = {column} || ' 00:00:00' WHERE {column} = date({column})"
    )


class StoredForm(NamedTuple):
    """What the first values of a column are: numbers, texts with an offset, texts without one, only times."""

    numbers: bool
    aware: bool
    naive: bool
    timed: bool


def stored_forms(database: Database, table: Table, names: Sequence[str]) -> dict[str, StoredForm]:
    """Return the form of the stored values of some columns of dates."""
    parts = []
    for name in names:
        value = quote(name)
        text, offset = f"typeof({value}) = 'text'", f"substr({value}, 11) GLOB '*[Zz+-]*'"
        first = f"(SELECT {value} FROM {quote(table.name)} WHERE {value} IS NOT NULL LIMIT {_LOOKED_AT})"
        parts.append(
            f"SELECT total(typeof({value}) IN ('integer', 'real')) > 0 AND total({text}) = 0, "
            f"total({text} AND {offset}) > 0, total({text} AND NOT {offset}) > 0, "
            f"total({text} AND length({value}) > 10) > 0 AND total({text} AND length({value}) <= 10) = 0 FROM {first}"
        )
    forms: list[tuple[object, ...]] = []
    for at in range(0, len(parts), _TERMS):
        forms += rows(database, " UNION ALL ".join(parts[at : at + _TERMS]), types=[ANY] * 4)
    return {name: StoredForm(*map(bool, form)) for name, form in zip(names, forms, strict=True)}


def _types(relation: Table, columns: Sequence[FrameColumn]) -> tuple[tuple[str, str], ...]:
    return tuple((column.name, relation.columns[folded(column.name)].declared) for column in columns)


def differences(table: Table, names: Sequence[str], source: str = "the frame", *, nullable: bool = False) -> str:
    """Return how columns with these names differ from those of the table; '' if the rows can be written.

    With ``nullable`` columns that may be NULL can be missing, too.
    """
    folded_names = {folded(name) for name in names}
    unknown = [name for name in names if folded(name) not in table.columns]
    missing = [
        column.name
        for name, column in table.columns.items()
        if name not in folded_names and not column.has_default and not (nullable and not column.required)
    ]
    what = [f"the table has no {', '.join(unknown)}"] if unknown else []
    what += [f"{source} has no {', '.join(missing)}"] if missing else []
    return "; ".join(what)


# -- values: changes by a column's declared type (datatype3.html, section 3)


def writable(table: Table, name: str) -> TargetColumn:
    """Return the column of this name; raise LoadError if it is generated."""
    there = table.columns[folded(name)]
    if there.generated:
        raise LoadError(f"column {there.name} of {table.name} is generated and cannot be written; nothing was changed")
    return there


def _check_types(columns: Sequence[FrameColumn], types: Mapping[str, str]) -> dict[str, str]:
    """Return the requested types by column; raise LoadError for an invalid type."""
    there = {folded(column.name): column for column in columns}
    declarations = {}
    for name, declared in types.items():
        column = there.get(folded(name))
        if column is None:
            raise LoadError(f"the frame has no column {name} to give a type; nothing was changed")
        if not _is_type(declared):
            raise LoadError(
                f"column {name}: {declared[:60]!r} is not a type; nothing was changed",
                hint="a type is INTEGER, TEXT, DECIMAL(10, 2) and the like; constraints require a CREATE TABLE",
            )
        declarations[column.name] = declared
    return declarations


def _check_affinity(column: FrameColumn, declared: str, table: str = "") -> None:
    """Raise LoadError for a column with values that SQLite would change in a column of this declared type.

    A REAL and an INTEGER of the same value count as the same; there is no such INTEGER for -0.0.
    """
    is_date = isinstance(column.source, Moments)  # whose texts are not numbers
    row = None if is_date else changed_row(column.values, affinity(declared))
    if row is not None:
        (changed,) = column.values.cut(row, row + 1).items()
        where, zero = f"{table} declares it" if table else "declared", _is_negative_zero(changed)
        raise LoadError(
            f"column {column.name}: {where} {declared}, where {'-0.0' if zero else str(changed)[:40]!r} would become "
            "another value; nothing was changed",
            hint="adding 0.0 to the column makes it 0.0" if zero else "convert the column in the frame first",
            columns=[column.name],
            declared=declared,
        )


def changed_row(values: ColumnChunk, kind: str) -> int | None:
    """Return the row of a value that a column of this affinity ('' for none) would change; None if there is none.

    Rows count from 0.
    """
    zero = Float in values.kinds and (len(values.kinds) > 1 or has_signed_zero(values.values))
    changes: dict[type, bool] = {
        Text: kind in ("INTEGER", "REAL", "NUMERIC"), Integer: kind in ("TEXT", "REAL"),
        Float: kind == "TEXT" or (kind not in ("", "BLOB") and zero),
    }  # fmt: skip
    if not any(changes.get(type_) for type_ in values.kinds):
        return None
    return next((row for row, value in enumerate(values.each()) if _would_change(value, kind)), None)


def _would_change(value: SqlValue, kind: str) -> bool:
    if value is None or isinstance(value, bytes):
        return False
    if isinstance(value, str):
        return kind != "TEXT" and _NUMBER.match(value) is not None
    if _is_negative_zero(value):  # a numeric column would drop its sign
        return True
    return kind == "TEXT" or (kind == "REAL" and isinstance(value, int) and abs(value) > _EXACT)


def _is_negative_zero(value: SqlValue) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0


def _check_rowids(column: FrameColumn, name: str) -> None:
    """Raise LoadError for values that the INTEGER PRIMARY KEY of this name cannot store."""
    for row, value in enumerate(column.values.each(), start=1):
        if not is_integer(value):
            excerpt = repr(value[:40]) if isinstance(value, str | bytes) else str(value)
            raise LoadError(
                f"row {row}: {name} is an INTEGER PRIMARY KEY and cannot hold {excerpt}; nothing was changed",
                hint="convert the column in the frame first",
                columns=[column.name],
                declared="INTEGER",
            )


# -- the keys of an upsert


def _check_keys(keys: Sequence[str], columns: Sequence[FrameColumn]) -> tuple[str, ...]:
    """Return the keys as spelt in the frame; raise LoadError for one that is missing, or NULL in a row."""
    there = {folded(column.name): column for column in columns}
    unknown = [key for key in keys if folded(key) not in there]
    if unknown:
        raise LoadError(f"the frame has no key column {', '.join(unknown)}; nothing was changed")
    for key in keys:
        row = next((row for row, value in enumerate(there[folded(key)].values.each(), start=1) if value is None), None)
        if row is not None:
            raise LoadError(f"column {key}: the key of row {row} is NULL; nothing was changed", hint="fill or drop it")
    return tuple(there[folded(key)].name for key in keys)


def _unique_key(database: Database, table: Table, keys: Sequence[str]) -> tuple[KeyColumn, ...]:
    """Return the columns of the unique index on exactly these; raise LoadError without one, which ON CONFLICT needs."""
    key_names = {folded(key) for key in keys}
    if missing := [key for key in keys if folded(key) not in table.columns]:
        raise LoadError(f"table {table.name} has no key column {', '.join(missing)}; nothing was changed")
    primary = rows(database, "SELECT name FROM temp.pragma_table_xinfo(?) WHERE pk > 0", table.name, types=(TEXT,))
    indexed: dict[str, dict[str, str]] = {}
    index_columns = rows(
        database,
        """SELECT l.name, x.name, x.coll FROM temp.pragma_index_list(?) AS l, temp.pragma_index_xinfo(l.name) AS x
        WHERE l."unique" AND NOT l.partial AND x.key""",
        table.name,
        types=(TEXT, MAYBE_TEXT, TEXT),
    )
    for index, column, collation in index_columns:  # an expression has no name
        indexed.setdefault(index, {})[folded(column or "")] = collation
    for columns in indexed.values():
        if set(columns) == key_names:
            return tuple(KeyColumn(key, columns[folded(key)]) for key in keys)
    if {folded(name) for (name,) in primary} == key_names:  # the rowid itself, which has no index
        return tuple(KeyColumn(key, "BINARY") for key in keys)
    key_list = ", ".join(map(quote, keys))
    raise LoadError(
        f"{table.name} has no unique index on {', '.join(keys)}, which an upsert requires; nothing was changed",
        hint=f"CREATE UNIQUE INDEX ... ON {quote(table.name)}({key_list})",
    )


def check_unique(database: Database, staging: str, keys: Sequence[KeyColumn]) -> None:
    """Raise LoadError for several rows with the same key."""
    by = ", ".join(f"{quote(key.name)} COLLATE {quote(key.collation)}" for key in keys)
    names = ", ".join(quote(key.name) for key in keys)
    query = f"SELECT {names} FROM {quote(staging)} GROUP BY {by} HAVING count(*) > 1 LIMIT 1"
    twice = rows(database, query, types=[ANY] * len(keys))
    for values in twice:
        key_text = ", ".join(f"{key.name} = {str(value)[:40]!r}" for key, value in zip(keys, values, strict=True))
        raise LoadError(
            f"several rows have the same key ({key_text}); nothing was changed",
            hint="keep one of each, as with .drop_duplicates(subset=[...], keep='last')",
        )
