"""The largest value: of arguments, and of what SQL builds. A database file may hold larger ones.

SQLite has one limit, for values that it reads, too. In a database that is larger than the limit, it is therefore lifted
for statements that cannot build a value larger than those that they read: they do not concatenate, and call only
functions whose result is never larger than their arguments. So one mistake does not build a gigabyte, and what another
program stored can be read, changed, and copied within the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apsw

from pipemagic.hrana.values import SqlValue

LARGEST = 2**31 - 1
"""A limit of values in bytes, which SQLite reduces to the largest that it can have."""

_CALLS = frozenset({"Function", "PureFunc", "AggStep", "AggStep1", "AggInverse", "AggValue", "AggFinal"})
"""Instructions of SQLite's virtual machine that call a function, whose name is their fourth operand."""

_BUILDING_STATEMENTS = frozenset({
    "SELECT", "WITH", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE", "REINDEX",
})  # fmt: skip
"""The others, such as VACUUM, ALTER and PRAGMA, compute nothing but their own texts."""

_NEVER_LARGER = frozenset({
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "bm25", "ceil", "ceiling", "changes",
    "corr", "cos", "cosh", "count", "covar_pop", "covar_samp", "cume_dist", "current_date", "current_time",
    "current_timestamp", "date", "date_trunc", "datetime", "degrees", "dense_rank", "exp", "first_value", "floor",
    "glob", "instr", "json_array_length", "json_error_position", "json_type", "json_valid", "julianday",
    "lag", "last_insert_rowid", "last_value", "lead", "length", "like", "likelihood", "likely", "ln",
    "log", "log10", "log2", "lower", "ltrim", "max", "median", "min", "mod", "nth_value", "ntile", "nullif",
    "octet_length", "percent_rank", "percentile", "percentile_cont", "percentile_disc", "pi", "pow", "power",
    "radians", "random", "rank", "regexp", "regexpi", "round", "row_number", "rtrim", "sign", "sin", "sinh",
    "sqlite_version", "sqrt", "stddev", "stddev_pop", "stddev_samp", "substr", "substring", "subtype", "sum", "tan",
    "tanh", "time", "timediff", "total", "total_changes", "trim", "trunc", "typeof", "unhex", "unicode",
    "unixepoch", "unlikely", "upper", "var_pop", "var_samp", "variance", "->", "->>",
})  # fmt: skip
"""Functions whose result is a number, a short text, or at most as large as an argument.

That of ``->`` and of a letter that changes its case may take a few times the bytes, in another encoding. `json_extract`
is not one: with several paths, it returns an array of all that they find.
"""


def too_big() -> apsw.TooBigError:
    """Return the error of SQLite for a value that is too large."""
    error = apsw.TooBigError("string or blob too big")
    error.result = error.extendedresult = apsw.SQLITE_TOOBIG  # type: ignore[attr-defined]
    return error


def most_bytes(value: SqlValue) -> int:
    """Return an upper bound of the bytes of a value as text."""
    match value:
        case str():
            return len(value) if value.isascii() else 4 * len(value)
        case bytes():
            return len(value)
    return 32  # a number


def check_arguments(arguments: Iterable[SqlValue], limit: int) -> None:
    """Raise `apsw.TooBigError` if an argument has more bytes than the limit, as SQLite does below its own limit."""
    for value in arguments:
        if most_bytes(value) > limit and (isinstance(value, bytes) or len(str(value).encode()) > limit):
            raise too_big()


def may_build(connection: apsw.Connection, keyword: str, text: str, parameters: int) -> bool:
    """Return True if a statement may build a value larger than each that it reads, also in views and triggers.

    A statement with an error may: SQLite reports it when the statement runs.
    """
    if keyword not in _BUILDING_STATEMENTS:
        return False
    try:
        # Not cached: SQLite must not prepare an EXPLAIN again (see `Connection.run`).
        program = connection.execute(f"EXPLAIN {text}", (None,) * parameters, can_cache=False)
        return any(_builds(str(opcode), str(p4)) for _, opcode, _, _, _, p4, *_ in _readable(program))
    except (apsw.SQLError, apsw.TooBigError):  # TOOBIG: the text alone fits, with EXPLAIN it does not
        return True


def _readable(program: Iterator[tuple[SqlValue, ...]]) -> Iterator[tuple[SqlValue, ...]]:
    """Yield the instructions without those that hold a blob of the statement, which SQLite shows as text."""
    while True:
        try:
            yield next(program)
        except StopIteration:
            return
        except UnicodeDecodeError:
            continue


def _builds(opcode: str, p4: str) -> bool:
    """Return True for an instruction whose result may be larger than its operands."""
    return opcode == "Concat" or (opcode in _CALLS and p4.partition("(")[0].lower() not in _NEVER_LARGER)
