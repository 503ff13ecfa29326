"""Check rows against rules: one round trip if all rules pass, a second one to fetch the first failing rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipemagic.errors import ParameterError, PipemagicError, RulesError, StatementError, UnknownName
from pipemagic.explore import rules
from pipemagic.explore.conditions import args_of, quote_name
from pipemagic.explore.round_trip import run_queries
from pipemagic.explore.rules import RangeBound, Rule
from pipemagic.explore.schema import ForeignKey
from pipemagic.explore.schema_reader import read_relation
from pipemagic.frames import to_frame
from pipemagic.frames.logical_types import stored_with_time
from pipemagic.hrana.values import SqlValue
from pipemagic.text import escape_controls, plural

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database

ColumnNames = str | Sequence[str]


@dataclass(frozen=True, eq=False)
class Failure:
    """A failed rule: the number of failing rows (or duplicate values), the message, and the first of them.

    ``timed`` is True for each column of dates of which some are stored with a time.
    """

    rule: str
    count: int
    message: str
    frame: DataFrame
    timed: Sequence[bool] = ()

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class RulesResult:
    """The rules that passed, and the number of rows."""

    table: str
    rows: int
    rules: tuple[str, ...]

    def __str__(self) -> str:
        return f"{escape_controls(self.table)}: {plural(len(self.rules), 'rule')} passed, {plural(self.rows, 'row')}."


def check_rules(
    database: Database,
    table: str,
    *,
    not_null: Iterable[str] = (),
    unique: Iterable[ColumnNames] = (),
    ranges: Mapping[str, tuple[RangeBound, RangeBound]] | None = None,
    references: Mapping[ColumnNames, tuple[str, ColumnNames]] | None = None,
    foreign_keys: bool = False,
    rows: Iterable[str] = (),
    params: Mapping[str, SqlValue] | None = None,
    limit: int = 5,
) -> RulesResult:
    """Check the rows of a table or view.

    Raise RulesError with the failed rules and the first ``limit`` failing rows of each.

    ``not_null`` are columns, each of ``unique`` is a column or several together, ``ranges`` maps a column to its lowest
    and highest value (None: no bound), ``references`` maps a column, or a tuple of them, to a table and its column or
    columns, ``foreign_keys`` checks those that the table declares, ``rows`` are SQL expressions that are true for each
    row; ``params`` has the values of their parameters.

    Raise UnknownName for a wrong name, and StatementError for an invalid expression.
    """
    requested = [
        *(rules.not_null(table, name) for name in not_null),
        *(rules.unique(table, _as_tuple(names)) for names in unique),
        *(rules.in_range(table, name, low, high) for name, (low, high) in (ranges or {}).items()),
        *(
            rules.references(table, _as_tuple(names), other, _as_tuple(targets))
            for names, (other, targets) in (references or {}).items()
        ),
        *([rules.foreign_keys(table)] if foreign_keys else []),
        *(rules.expression(table, expression, args_of(expression, params or {})) for expression in rows),
    ]
    return check(database, table, requested, limit=limit)


def check(database: Database, table: str, requested: Sequence[Rule], *, limit: int = 5) -> RulesResult:
    """Check a table by rules of `pipemagic.explore.rules`. Raise the errors of `check_rules`."""
    if not requested:
        raise ParameterError("nothing to check", hint="add at least one rule, such as not_null=[...]")
    if "pragma_foreign_key_check" in database.lacks and any(rule.declared for rule in requested):
        keys = rules.each_foreign_key(_declared_keys(database, table))
        requested = [keys if rule.declared else rule for rule in requested]
    try:
        all_rows = f"SELECT count(*) FROM main.{quote_name(table)}"
        results, *_ = run_queries(database, [all_rows, *(rule.count for rule in requested)])
    except StatementError as error:
        if error.message.endswith("pragma_foreign_key_check"):
            database.lacks.add("pragma_foreign_key_check")
            return check(database, table, requested, limit=limit)
        raise _name_error(database, table, error, requested) from None
    total, *counts = [int(result.rows[0][0] or 0) for result in results]
    failed = [rule for rule, count in zip(requested, counts, strict=True) if count]
    if not failed:
        return RulesResult(table, total, tuple(rule.description for rule in requested))
    failures = _fetch_failures(database, _expand_foreign_keys(database, table, failed), limit)
    lines = "\n".join(f"  {failure}" for failure in failures)
    head = f"{escape_controls(table)}: {len(failed)} of {plural(len(requested), 'rule')} failed, {plural(total, 'row')}"
    raise RulesError(f"{head}\n{lines}", failures)


def _as_tuple(names: ColumnNames) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _expand_foreign_keys(database: Database, table: str, failed: Sequence[Rule]) -> list[Rule]:
    """Replace the rule of all foreign keys by a rule for each of them."""
    if not any(rule.declared for rule in failed):
        return list(failed)
    return [*(rule for rule in failed if not rule.declared), *_declared_keys(database, table)]


def _declared_keys(database: Database, table: str) -> list[Rule]:
    """Return a rule for each foreign key that the table declares."""
    return [_foreign_key_rule(database, table, key) for key in read_relation(database, table).foreign_keys]


def _foreign_key_rule(database: Database, table: str, key: ForeignKey) -> Rule:
    try:
        parent = read_relation(database, key.table)
    except UnknownName:
        return rules.missing_table(table, key.columns, key.table)
    return rules.references(table, key.columns, key.table, key.references or parent.primary_key)


def _fetch_failures(database: Database, failed: Sequence[Rule], limit: int) -> tuple[Failure, ...]:
    """Return the number of failing rows and the first of them, for each rule that fails."""
    results, *_ = run_queries(database, [statement for rule in failed for statement in (rule.count, rule.first(limit))])
    failures = []
    for rule, counted, first in zip(failed, results[::2], results[1::2], strict=True):
        count = int(counted.rows[0][0] or 0)
        if first.rows:
            message = escape_controls(rule.message(count))
            failures.append(
                Failure(rule.description, count, message, to_frame(first.wire), stored_with_time(first.wire))
            )
    return tuple(failures)


def _name_error(database: Database, table: str, error: StatementError, requested: Sequence[Rule]) -> PipemagicError:
    """Raise UnknownName with the nearest name if a table or column does not exist, otherwise return the error."""
    if "no such table: " in error.message:
        for name in (table, *(rule.other for rule in requested if rule.other)):
            read_relation(database, name)
    if "no such column: " in error.message:
        name = error.message.rpartition("no such column: ")[2]
        other = next((rule.other for rule in requested[error.index - 1 :] if rule.other), table)
        alias = table + rules.REFERENCED + "."
        relation = read_relation(database, other if name.startswith(alias) else table)
        relation.column(name.removeprefix(alias).removeprefix(f"{table}."))
    return error
