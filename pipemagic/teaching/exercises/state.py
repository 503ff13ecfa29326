"""Feedback on the state of a database in words, instead of the rows of SQLite's pragmas, and the labels of states."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipemagic import sql
from pipemagic.explore.query import queries_of
from pipemagic.explore.token_tree import nest
from pipemagic.teaching.exercises.advice import shown
from pipemagic.teaching.exercises.constructs import uses
from pipemagic.teaching.exercises.exercise import Kind, Probe
from pipemagic.text import join_words

if TYPE_CHECKING:
    from pandas import DataFrame

_LABELLED = re.compile(r"(?P<label>[^:]*\S)\s*:\s+(?P<query>(?:SELECT|WITH|VALUES)\b.*)", re.IGNORECASE | re.DOTALL)
_QUERY = re.compile(r"(?:SELECT|WITH|VALUES)\b", re.IGNORECASE)
_PRAGMA = re.compile(r"\bpragma_(\w+)\s*\(\s*(['\"]?)([\w.]+)\2\s*[,)]", re.IGNORECASE)
_NO_TABLE = re.compile(r"no such table: (?:main\.)?(.+)")
_PRAGMAS: dict[str, Kind] = {
    "table_info": "columns",
    "table_xinfo": "columns",
    "index_list": "indexes",
    "foreign_key_list": "foreign keys",
}

_PROPERTIES = {
    "column_name": "name", "name": "name", "type": "type", "in_key": "key", "pk": "key", "not_null": "not null",
    "notnull": "not null", "default_value": "default", "dflt_value": "default", "is_generated": "generated",
}  # fmt: skip
"""The properties of a column by the names that they have in results of ``pragma_table_info``."""


_ON_COLUMNS = re.compile(
    r"column .* (?:is missing|is unexpected|rename it with AS .*|instead of .*)|and [\d,]+ more", re.DOTALL
)
"""Advice on the columns of a result, which would be wrong on those of a table."""

# -- labels


def probes_of(states: Sequence[str]) -> list[Probe]:
    """Return the probes of ``-- state:`` lines, ``LABEL: SELECT ...`` or a query.

    Without a label, it is what the query returns, or the query itself if two return the same.
    """
    found = [_probe(text) for text in states]
    counts = Counter(probe.label for probe in found)
    return [
        probe if counts[probe.label] == 1 else Probe(shown(probe.sql), probe.sql, kind=probe.kind) for probe in found
    ]


def _probe(text: str) -> Probe:
    match = None if _QUERY.match(text) else _LABELLED.fullmatch(text)
    label, query = (match["label"], match["query"]) if match else ("", text)
    pragmas = _PRAGMA.findall(query)
    table = pragmas[0][2] if len(pragmas) == 1 else ""
    what = _PRAGMAS.get(pragmas[0][0].lower(), "") if table else ""
    if what == "columns":
        return Probe(label or table, query, kind=what)
    return Probe(label or (f"{what} of {table}" if what else _described(query)), query)


def _described(query: str) -> str:
    """Return what a query returns: ``rows of rebooking``, or ``n of penguins`` for aggregates without groups."""
    queries = queries_of(nest(sql.split(query)[-1].tokens).top, {}) if sql.split(query) else []
    tables = dict.fromkeys(source.name for part in queries for source in part.all_sources if source.name)
    aliases = [alias for _, alias in queries[0].select_list] if queries else []
    is_one = uses(query, "aggregate function") and not uses(query, "GROUP BY")
    what = join_words(aliases) if is_one and all(aliases) else "rows"
    return f"{what} of {join_words(list(tables))}" if tables else "state"


# -- words


def lines_of(probes: Sequence[Probe], results: Sequence[tuple[Any, Any, Sequence[str]]]) -> list[str]:
    """Return the feedback on all probes: each with its expected frame, its actual one, and the advice on their rows.

    An expected frame is None if only its digest is stored, an actual one is a text for a query that failed.
    """
    absent = {} if any(probe.kind == "objects" for probe in probes) else _missing_tables(probes, results)
    missing, of_other_kind = {*absent}, set[str]()
    lines = [*absent.values()]
    for probe, (expected, actual, found) in zip(probes, results, strict=True):
        if probe.kind == "rows" and isinstance(actual, str) and "no such table" in actual:
            missing.add(probe.label.lower())
            lines += [f"{probe.label} is missing"] * (expected is None)
        elif probe.kind == "objects" and found and expected is not None:
            of_other_kind |= {name for name, kind in _rows(actual) if dict(_rows(expected)).get(name, kind) != kind}
            lines += _of_objects(expected, actual, probe.created)
        elif probe.kind == "objects":
            lines += [] if lines else found
    with_columns = {probe.label for probe in probes if probe.kind == "columns"}
    keys: set[tuple[str, frozenset[str]]] = set()
    for probe, (expected, actual, found) in zip(probes, results, strict=True):
        name = probe.label.lower()
        is_known = bool(probe.kind) and (name in missing or (name in of_other_kind and probe.kind != "rows"))
        is_known = is_known or not absent.keys().isdisjoint(_tables_of(probe, actual))
        if not found or probe.kind == "objects" or is_known:
            continue
        words: Sequence[str] = found
        if expected is not None and not isinstance(actual, str):
            match probe.kind:
                case "columns":
                    words, wrong = _of_columns(expected, actual)
                    keys |= {(name, key) for key in wrong}
                case "indexes":
                    words = _of_indexes(expected, actual, {key for label, key in keys if label == name})
                case "foreign keys":
                    words = _of_foreign_keys(expected, actual)
                case "rows" if probe.label in with_columns:
                    words = [line for line in found if not _ON_COLUMNS.fullmatch(line)]
        lines += [f"{probe.label}: {line}" if probe.label else line for line in words]
    return list(dict.fromkeys(lines)) or [line for *_, found in results for line in found]


def _tables_of(probe: Probe, actual: Any) -> list[str]:
    """Return the tables that a probe's pragmas name and the one that its query does not find, in lower case."""
    match = _NO_TABLE.search(actual) if probe.sql and isinstance(actual, str) else None
    names = [match[1]] if match else [table for _, _, table in _PRAGMA.findall(probe.sql)]
    return [name.lower() for name in names]


def _missing_tables(probes: Sequence[Probe], results: Sequence[tuple[Any, Any, Sequence[str]]]) -> dict[str, str]:
    """Return a line on each table or view that queries on the state do not find, by its name."""
    lines: dict[str, str] = {}
    for probe, (expected, actual, _) in zip(probes, results, strict=True):
        is_empty = not isinstance(actual, str) and not len(actual)
        if isinstance(actual, str) or (probe.kind == "columns" and is_empty and expected is not None and len(expected)):
            is_table = probe.kind == "columns" and bool(_key(_by_name(expected)))  # a view has no key
            for name in _tables_of(probe, actual):
                line = f"{'table ' * is_table}{shown(name)} is missing"
                lines[name] = line if is_table else lines.get(name, line)
    return lines


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return list(frame.itertuples(index=False, name=None))


def _absent(expected: DataFrame, actual: DataFrame) -> list[tuple[str, str]]:
    """Return name and kind of the expected tables, views and triggers that are missing."""
    names = {name for name, _ in _rows(actual)}
    return [(name, kind) for name, kind in _rows(expected) if name not in names]


def _of_objects(expected: DataFrame, actual: DataFrame, created: Sequence[str]) -> list[str]:
    """Return words on tables, views and triggers that are missing, or that must not exist."""
    wanted, given = dict(_rows(expected)), dict(_rows(actual))
    lines = [
        f"{kind} {shown(name)} is missing" if name in created else f"the {kind} {shown(name)} must not be dropped"
        for name, kind in _absent(expected, actual)
    ]
    lines += [f"the {kind} {shown(name)} must be dropped" for name, kind in given.items() if name not in wanted]
    changed = [(name, kind) for name, kind in given.items() if wanted.get(name, kind) != kind]
    return lines + [f"{shown(name)} must be a {wanted[name]}, not a {kind}" for name, kind in changed]


def _of_columns(expected: DataFrame, actual: DataFrame) -> tuple[list[str], set[frozenset[str]]]:
    """Return words on the columns of a table, and the expected and the actual primary key if they differ."""
    wanted, given = _by_name(expected), _by_name(actual)
    lines = [f"column {shown(name)} is missing" for name in wanted if name not in given]
    lines += [f"column {shown(name)} is unexpected" for name in given if name not in wanted]
    key, other = _key(wanted), _key(given)
    is_wrong = all(name in given for name in key) and key != other
    if is_wrong and set(key) == set(other):
        lines.append(f"the columns of the PRIMARY KEY must be in the order {', '.join(map(shown, key))}")
    elif is_wrong:
        names, how = (key, "must be") if key else (other, "must not be")
        lines.append(f"{join_words(list(map(shown, names)))} {how} the PRIMARY KEY")
    for name in (name for name in wanted if name in given):
        for part, value in wanted[name].items():
            differs = part in given[name] and given[name][part] != value and part != "key"
            if differs and not (part == "not null" and is_wrong and name in key):
                lines.append(f"{shown(name)} {_must(part, value, given[name][part])}")
    return lines, {frozenset(key), frozenset(other)} if key != other else set()


def _by_name(frame: DataFrame) -> dict[str, dict[str, Any]]:
    """Return the properties of each column of a table."""
    parts = [_PROPERTIES.get(str(name).lower(), str(name)) for name in frame.columns]
    rows = [dict(zip(parts, row, strict=True)) for row in _rows(frame)] if "name" in parts else []
    return {str(row.pop("name")).lower(): row for row in rows}


def _key(columns: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the columns of the primary key in their order there."""
    return sorted((name for name, row in columns.items() if row.get("key")), key=lambda name: int(columns[name]["key"]))


def _must(part: str, value: Any, actual: Any) -> str:
    """Return what a property of a column must be."""
    match part:
        case "type":
            return (
                f"must be {shown(str(value))}{f', not {shown(str(actual))}' * bool(actual)}"
                if value
                else "must have no type"
            )
        case "not null":
            return "must be NOT NULL" if value else "must not be NOT NULL"
        case "default":
            return "must have no DEFAULT" if value is None else f"must have DEFAULT {shown(str(value))}"
        case "generated":
            return f"must{'' if value else ' not'} be a generated column"
    return f"must have {shown(part)} {shown(str(value))}, not {shown(str(actual))}"


def _of_indexes(expected: DataFrame, actual: DataFrame, keys: Container[frozenset[str]]) -> list[str]:
    """Return words on the indexes of a table, without those of a primary key that is wrong."""
    wanted, given = Counter(_rows(expected)), Counter(_rows(actual))
    missing, extra = (
        [row for row in rows.elements() if frozenset(row[2].split(",")) not in keys]
        for rows in (wanted - given, given - wanted)
    )
    lines = []
    for unique, partial, columns in missing:
        names = _columns(columns)
        same = next((row for row in extra if _names(row[2]) == _names(columns)), None)
        if same is None:
            lines.append(f"{names} must be UNIQUE" if unique else f"index on {names} is missing")
            continue
        extra.remove(same)
        if same[2] != columns:
            lines.append(f"the index on {_columns(same[2])} must be on {names}")
        if same[0] != unique:
            lines.append(f"{names} must{'' if unique else ' not'} be UNIQUE")
        if same[1] != partial:
            lines.append(f"the index on {names} must have {'a' if partial else 'no'} WHERE clause")
    for unique, _, columns in extra:
        names = _columns(columns)
        lines.append(f"{names} must not be UNIQUE" if unique else f"index on {names} is unexpected")
    return lines


def _names(columns: str) -> list[str]:
    """Return the names of the columns of an index in any order."""
    return sorted(name.removesuffix(" desc") for name in columns.split(","))


def _columns(columns: str) -> str:
    """Return the columns of an index as they are written in SQL; several in parentheses."""
    names = ", ".join(re.sub(r" desc$", " DESC", shown(name)) for name in columns.split(","))
    return f"({names})" if "," in names else names


def _of_foreign_keys(expected: DataFrame, actual: DataFrame) -> list[str]:
    """Return words on the foreign keys of a table."""
    wanted, given = Counter(_rows(expected)), Counter(_rows(actual))
    extra, lines = list((given - wanted).elements()), []
    for column, *target in (wanted - given).elements():
        same = next((row for row in extra if row[0] == column), None)
        if same:
            extra.remove(same)
        instead = f", not {_target(*same[1:])}" if same else ""
        lines.append(f"{shown(column)} must reference {_target(*target)}{instead}")
    return lines + [f"{shown(column)} must not reference {_target(*target)}" for column, *target in extra]


def _target(table: str, column: str | None) -> str:
    return f"{shown(table)}({shown(column)})" if column else shown(table)
