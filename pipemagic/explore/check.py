"""Does a table keep the rules? One round trip if it does; a second one fetches the first rows that do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipemagic.counts import plural
from pipemagic.errors import CheckError, ParameterError, PipemagicError, StatementError, UnknownName
from pipemagic.explore import rules
from pipemagic.explore.asking import ask
from pipemagic.explore.conditions import used
from pipemagic.explore.names import quoted
from pipemagic.explore.rules import Bound, Found, Rule
from pipemagic.explore.schema import ForeignKey, read_relation
from pipemagic.explore.values import one_line
from pipemagic.frames import to_frame
from pipemagic.hrana.values import SqlValue

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.database import Database

Columns = str | Sequence[str]


@dataclass(frozen=True, eq=False)
class Failure:
    """A rule that is broken: by how many rows (or values that are there more than once), and the first of them.

    ``str()`` names the columns (or the expression), what was found in them, and what is allowed.
    """

    rule: str
    count: int
    found: Found
    frame: DataFrame

    def __str__(self) -> str:
        found = self.found
        return f"{one_line(found.subject)}: {plural(self.count, found.noun)}{one_line(found.rest)}"


@dataclass(frozen=True)
class Checked:
    """What was checked and found right."""

    table: str
    rows: int
    rules: tuple[str, ...]

    def __str__(self) -> str:
        return f"{one_line(self.table)}: {plural(len(self.rules), 'check')} passed, {plural(self.rows, 'row')}."


def check(
    database: Database,
    table: str,
    *,
    not_null: Iterable[str] = (),
    unique: Iterable[Columns] = (),
    ranges: Mapping[str, tuple[Bound, Bound]] | None = None,
    references: Mapping[Columns, tuple[str, Columns]] | None = None,
    foreign_keys: bool = False,
    rows: Iterable[str] = (),
    params: Mapping[str, SqlValue] | None = None,
    limit: int = 5,
) -> Checked:
    """Check a table or view; CheckError tells which rules are broken, with the first ``limit`` rows of each.

    ``not_null`` are columns, each of ``unique`` is a column or several together, ``ranges`` maps a column to its lowest
    and highest value (None: no bound), ``references`` maps a column, or a tuple of them, to a table and its column or
    columns, ``foreign_keys`` checks those that the table declares, ``rows`` are SQL expressions that hold for each row;
    ``params`` has the values of their parameters.
    UnknownName for a wrong name, StatementError for a wrong expression.
    """
    wanted = [
        *(rules.not_null(table, name) for name in not_null),
        *(rules.unique(table, _listed(names)) for names in unique),
        *(rules.within(table, name, low, high) for name, (low, high) in (ranges or {}).items()),
        *(
            rules.references(table, _listed(names), other, _listed(targets))
            for names, (other, targets) in (references or {}).items()
        ),
        *([rules.foreign_keys(table)] if foreign_keys else []),
        *(rules.holds(table, expression, used(expression, params or {})) for expression in rows),
    ]
    return check_rules(database, table, wanted, limit=limit)


def check_rules(database: Database, table: str, wanted: Sequence[Rule], *, limit: int = 5) -> Checked:
    """Check a table by rules of `pipemagic.explore.rules`; raises what `check` does."""
    if not wanted:
        raise ParameterError("there is nothing to check", hint="say what every row of the table has to be")
    everything = f"SELECT count(*) FROM main.{quoted(table)}"
    try:
        results, _ = ask(database, [everything, *(rule.counting for rule in wanted)])
    except StatementError as error:
        raise _explained(database, table, error, wanted) from None
    total, *counts = [int(result.rows[0][0] or 0) for result in results]
    broken = [rule for rule, number in zip(wanted, counts, strict=True) if number]
    if not broken:
        return Checked(table, total, tuple(rule.told for rule in wanted))
    failures = _look(database, _each(database, table, broken), limit)
    told = "\n".join(f"  {failure}" for failure in failures)
    head = f"{one_line(table)}: {len(broken)} of {plural(len(wanted), 'check')} failed, {plural(total, 'row')}"
    raise CheckError(f"{head}\n{told}", failures)


def _listed(names: Columns) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _each(database: Database, table: str, broken: Sequence[Rule]) -> list[Rule]:
    """Put a rule for each foreign key in the place of the one for all of them."""
    if not any(rule.declared for rule in broken):
        return list(broken)
    keys = [_rule_of(database, table, key) for key in read_relation(database, table).foreign_keys]
    return [*(rule for rule in broken if not rule.declared), *keys]


def _rule_of(database: Database, table: str, key: ForeignKey) -> Rule:
    try:
        parent = read_relation(database, key.table)
    except UnknownName:
        return rules.filled(table, key.columns, key.table)
    return rules.references(table, key.columns, key.table, key.references or parent.primary_key)


def _look(database: Database, broken: Sequence[Rule], limit: int) -> tuple[Failure, ...]:
    """Fetch the first rows that break each rule, and how many there are; rules that are not broken are left out."""
    statements = [statement for rule in broken for statement in (rule.counting, rule.first(limit))]
    results, _ = ask(database, statements)
    pairs = zip(broken, results[::2], results[1::2], strict=True)
    return tuple(
        Failure(rule.told, int(counted.rows[0][0] or 0), rule.found, to_frame(first.wire))
        for rule, counted, first in pairs
        if first.rows
    )


def _explained(database: Database, table: str, error: StatementError, wanted: Sequence[Rule]) -> PipemagicError:
    """Say what name is wrong, if one is, with the nearest that there is: by raising that, or else the error itself."""
    if "no such table: " in error.message:
        for name in (table, *(rule.other for rule in wanted if rule.other)):
            read_relation(database, name)
    if "no such column: " in error.message:
        name = error.message.rpartition("no such column: ")[2]
        other = next((rule.other for rule in wanted[error.index - 1 :] if rule.other), table)
        alias = table + rules.REFERRED + "."
        relation = read_relation(database, other if name.startswith(alias) else table)
        relation.column(name.removeprefix(alias).removeprefix(f"{table}."))
    return error
