"""The same frames in pandas, Polars and Arrow, and DuckDB, which reads them as an oracle.

DuckDB reads the frames themselves, each through a view that says what pipemagic stores of it (`VIEW_TYPES`):

| column of the frame | in the view |
|---|---|
| NaN | NULL |
| categories | their texts, as DuckDB would order them by category |
| Decimal, float32 | DOUBLE |
| moments that are all midnights | DATE |
| other moments | TIMESTAMP |
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

UTC = dt.UTC

Columns: TypeAlias = list[tuple[str, str, list[Any]]]
"""The columns of a frame: the name, the kind, and the values of each, days and moments as texts."""

# Sums of the floats are exact in any order.
TABLES: dict[str, Columns] = {
    "sales": [
        ("id", "int", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        ("shop", "text", ["Rome", "Oslo", "Rome", None, "Łódź", "Oslo", "東京", "Rome", "", None, "Lima", "Oslo"]),
        ("total", "float", [12.5, 7.25, None, 3.0, 100.125, -4.5, 0.0, 12.5, 1e6, None, 0.5, 7.25]),
        ("amount", "int", [3, 1, None, 2, 10, -1, 0, 3, None, 7, 1, 2]),
        ("day", "date", [
            "2024-01-01", "2024-01-01", "2024-01-31", "2024-02-29", "2023-12-31", "2024-02-01", None,
            "2024-03-01", "2024-12-31", "2024-02-29", None, "1999-01-01"]),
        ("sold", "moment", [
            "2024-01-01 08:30:00", "2024-01-01 00:00:00", "2024-01-31 23:59:59.500001", None,
            "2023-12-31 12:00:00", "2024-02-01 07:00:01", "2024-02-01 07:00:00", None,
            "2024-12-31 23:00:00", "2024-02-29 10:00:00.000001", "1969-07-20 20:17:40", "2024-01-01 08:30:00"]),
        ("paid", "bool", [True, False, None, True, True, False, False, True, None, True, False, True]),
        ("grade", "category", ["b", "a", "b", None, "c", "a", "b", "c", "a", "b", None, "b"]),
        ("note", "text", ["", "it's", None, 'a "b"', "naïve 🐘", "line\nbreak", "100%", "a_b", "", "Zoë", "zoe",
            " x "]),
    ],
    "city": [
        ("shop", "text", ["Rome", "Oslo", "Łódź", "東京", "Paris", None, "", "rome"]),
        ("country", "text", ["IT", "NO", "PL", "JP", "FR", None, "??", "it"]),
        ("seats", "int", [40, 25, 10, None, 55, 1, 0, 40]),
        ("opened", "date", ["2024-01-01", "2020-05-17", None,
            "2024-02-29", "2001-01-01", "2024-12-31", "2023-12-31", "1999-01-01"]),
        ("rent", "float", [12.5, 7.25, 0.5, 1e6, None, 3.0, 0.25, -0.5]),
    ],
    "staff": [
        ("id", "int", [1, 2, 3, 4, 5, 6, 7]),
        ("boss", "int", [None, 1, 1, 2, 2, 3, 99]),
        ("name", "text", ["Ada", "Bob", "Cleo", "Dan", "Eve", "Ada", "Finn"]),
        ("shop", "text", ["Rome", "Rome", "Oslo", "Oslo", None, "東京", "Lima"]),
        ("pay", "float", [900.5, 700.0, 700.0, 350.25, 350.25, None, 10.0]),
        ("since", "date", ["2001-01-01", "2020-05-17", "2024-01-01", "2024-01-01", None,
            "2024-02-29", "2023-12-31"]),
    ],
    "extremes": [
        ("id", "int", [1, 2, 3, 4, 5, 6]),
        ("whole", "int", [-(2**63), 2**63 - 1, 2**53 + 1, -(2**53) - 1, 0, None]),
        ("real", "float", [0.1, 0.1 + 0.2, 1.7976931348623157e308, 5e-324, -2.2250738585072014e-308, None]),
        ("fine", "float", [1 / 3, 2 / 3, math.pi, 123456789.12345679, 1e-7 / 3, 9007199254740993.5]),
        ("endless", "float", [math.inf, -math.inf, 1.5, None, math.inf, 0.25]),
        ("zero", "float", [0.0, -0.0, 1.5, None, -1.5, -0.0]),
        ("text", "text", ["\U0010ffff", "\uffff", "e\u0301", "é", "\t", "a" * 500]),
    ],
    "kinds": [
        ("id", "int", [1, 2, 3, 4]),
        ("clock", "time", [dt.time(10, 30), dt.time(0, 0), None, dt.time(23, 59, 59, 999999)]),
        ("instant", "zoned", [
            "2024-01-01 00:00:00", "2024-06-30 22:00:00", None,
            "2024-06-30 23:30:00.250000"]),
        ("price", "decimal", [Decimal("1.25"), Decimal("-0.50"), None, Decimal("1234.75")]),
        ("data", "bytes", [b"\x00\xff", b"", None, b"abc"]),
        ("flag", "bool", [True, False, True, False]),
        ("small", "small", [-128, 127, 0, 5]),
        ("single", "single", [0.5, -0.25, None, 1024.125]),
        ("label", "category", ["z", "y", "z", "x"]),
        ("missing", "text", [None, None, None, None]),
    ],
    "shops": [("shop", "text", ["Rome", "東京", "Paris"])],
    "holes": [("shop", "text", ["Rome", None, "Oslo"])],
    "ids": [("id", "int", [1, 2, 3, 5, 8, 13])],
    "empty": [("id", "int", []), ("shop", "text", []), ("total", "float", []), ("day", "date", []), ("ok", "bool", [])],
    "wide": [(f"c{number}", ("int", "text", "float")[number % 3], [
        None if (number + row) % 7 == 0 else (number * row, f"t{number % 5}{row}", number / 4 + row)[number % 3]
        for row in range(5)]) for number in range(100)],
    "odd": [
        ("a b", "int", [1, 2, 3]), ("select", "text", ["x", "y", None]), ('qu"ote', "int", [4, None, 6]),
        ("Größe", "float", [1.5, 2.5, None]), ("group", "text", ["g", "g", "h"]), ("it's", "int", [7, 8, 9]),
        ("a.b", "int", [0, 1, 1]), ("x?", "text", ["?", ":a", "$1"]), (":y", "int", [5, 5, 5]),
        ("%", "bool", [True, None, False]),
    ],
    "order": [("from", "int", [3, 1, 2]), ("where", "text", ["c", "a", "b"])],
    "Größen": [("größe", "int", [1, 2]), ("名", "text", ["一", "二"])],
}  # fmt: skip

ARROW = {
    "int": pa.int64(), "small": pa.int8(), "float": pa.float64(), "single": pa.float32(), "text": pa.string(),
    "date": pa.date32(), "moment": pa.timestamp("us"), "zoned": pa.timestamp("us", "Europe/Paris"), "bool": pa.bool_(),
    "category": pa.dictionary(pa.int32(), pa.string()), "time": pa.time64("us"), "decimal": pa.decimal128(12, 2),
    "bytes": pa.binary(),
}  # fmt: skip
POLARS = {
    "int": pl.Int64, "small": pl.Int8, "float": pl.Float64, "single": pl.Float32, "text": pl.String, "date": pl.Date,
    "moment": pl.Datetime("us"), "zoned": pl.Datetime("us", "UTC"), "bool": pl.Boolean, "category": pl.Categorical,
    "time": pl.Time, "decimal": pl.Decimal(12, 2), "bytes": pl.Binary,
}  # fmt: skip
PANDAS = {
    "int": "Int64", "small": "int8", "float": "float64", "single": "Float32", "text": "str", "date": object,
    "moment": "datetime64[us]", "zoned": "datetime64[us, UTC]", "bool": "boolean", "category": "category",
    "time": object, "decimal": object, "bytes": object,
}  # fmt: skip
PLAIN = PANDAS | {"int": "int64", "text": "string", "date": "datetime64[ns]", "bool": bool, "moment": "datetime64[ns]"}
"""NumPy's types, for columns without NULL; nanoseconds."""


def in_pandas(kind: str, values: list[Any]) -> pd.Series:
    return pd.Series(values, dtype=PANDAS[kind])


def in_numpy(kind: str, values: list[Any]) -> pd.Series:
    """Return the types of NumPy; Polars and Arrow have none of them."""
    nullable = None in values and kind in ("int", "bool")
    series = pd.Series(values, dtype=PANDAS[kind] if nullable else PLAIN[kind])
    return series.astype("category") if kind == "text" and len(set(values)) < len(values) else series


def in_arrow_dtypes(kind: str, values: list[Any]) -> pd.Series:
    """Return pandas' dtypes of Arrow."""
    plain = "text" if kind == "category" else kind  # pandas 2 has no dictionaries of Arrow
    return pd.Series(pd.array(pa.array(values, ARROW[plain]).to_pylist(), dtype=pd.ArrowDtype(ARROW[plain])))


MAKERS = {
    "pandas": lambda columns: pd.DataFrame({name: in_pandas(kind, values) for name, kind, values in columns}),
    "numpy": lambda columns: pd.DataFrame({name: in_numpy(kind, values) for name, kind, values in columns}),
    "arrow dtypes": lambda columns: pd.DataFrame({
        name: in_arrow_dtypes(kind, values) for name, kind, values in columns}),
    "polars": lambda columns: pl.DataFrame({
        name: pl.Series(values, dtype=POLARS[kind], strict=True) for name, kind, values in columns}),
    "arrow": lambda columns: pa.table({name: pa.array(values, ARROW[kind]) for name, kind, values in columns}),
}  # fmt: skip
"""The forms of a frame."""


def frames(form: str) -> dict[str, Any]:
    """Return all frames in one form, by name."""
    return {
        name: MAKERS[form](
            [(column, kind, list(map(_READERS.get(kind, _same), values))) for column, kind, values in columns]
        )
        for name, columns in TABLES.items()
    }


def _same(value: Any) -> Any:
    return value


_READERS: dict[str, Any] = {
    "date": lambda text: text and dt.date.fromisoformat(text),
    "moment": lambda text: text and dt.datetime.fromisoformat(text),
    "zoned": lambda text: text and dt.datetime.fromisoformat(text).replace(tzinfo=UTC),
}


# -- DuckDB

_MACROS = """
CREATE MACRO iif(c, a, b) AS CASE WHEN c THEN a ELSE b END;
CREATE MACRO total(x) AS coalesce(sum(x), CAST(0 AS DOUBLE));
SET default_null_order = 'sqlite';
"""
_PARAMETER = re.compile(r"(?<![:\w\"']):(\w+)")


class Oracle:
    """DuckDB, with the frames as tables; ``NULL`` sorts as in SQLite."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self._connection = duckdb.connect()
        self._connection.execute(_MACROS)
        for name, frame in tables.items():
            self.register(name, frame)

    def register(self, name: str, frame: Any) -> None:
        """Let statements read a frame."""
        self._connection.register(f"frame of {name}", frame)
        described = self._connection.execute(f'DESCRIBE "frame of {name}"').fetchall()
        columns = ", ".join(self._viewed(name, column, kind) for column, kind, *_ in described)
        self._connection.execute(f'CREATE OR REPLACE VIEW {_quoted(name)} AS SELECT {columns} FROM "frame of {name}"')

    def _viewed(self, frame: str, column: str, kind: str) -> str:
        name = _quoted(column)
        if kind in ("DOUBLE", "FLOAT"):
            return f"CAST(CASE WHEN isnan({name}) THEN NULL ELSE {name} END AS DOUBLE) AS {name}"
        if kind.startswith("DECIMAL"):
            return f"CAST({name} AS DOUBLE) AS {name}"
        if kind.startswith("ENUM"):
            return f"CAST({name} AS VARCHAR) AS {name}"
        if kind == "TIMESTAMP" or kind.startswith("TIMESTAMP_"):
            return f"CAST({name} AS {'DATE' if self._are_days(frame, column) else 'TIMESTAMP'}) AS {name}"
        return name

    def _are_days(self, name: str, column: str) -> bool:
        """Return True if a column has moments, all of them midnights."""
        text = f"CAST({_quoted(column)} AS VARCHAR)"
        question = f"SELECT count({text}) > 0 AND bool_and({text} LIKE '____-__-__ 00:00:00') FROM \"frame of {name}\""
        return bool(self._connection.execute(question).fetchall()[0][0])

    def rows(self, statement: str, variables: Mapping[str, Any] | None = None) -> list[tuple[str, ...]]:
        """Run a statement, with parameters like ``:day``; return its rows as `comparable` does."""
        names = dict.fromkeys(_PARAMETER.findall(statement)) if variables else {}
        values = {name: variables[name] for name in names} if variables else None
        done = self._connection.execute(_PARAMETER.sub(r"$\1", statement) if names else statement, values or None)
        return comparable(done.fetchall())

    def execute(self, statement: str) -> None:
        """Run a statement that returns no rows."""
        self._connection.execute(statement)

    def close(self) -> None:
        self._connection.close()


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


# -- values

_MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d) 00:00:00")


def comparable(rows: Iterable[Sequence[Any]]) -> list[tuple[str, ...]]:
    """Return rows as texts that are equal only for equal values: of the same type, all digits and the sign of zero.

    The same are True and 1, a date and its text, a midnight and its date, and all of NULL, NaN and NaT.
    """
    return [tuple(repr(_plain(value)) for value in row) for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating | Decimal):  # a number with a point is a Decimal in DuckDB
        return float(value)
    if isinstance(value, dt.datetime):
        value = value if value.tzinfo is None else value.astimezone(UTC)
        value = dt.datetime.isoformat(value, " ")
    if isinstance(value, dt.date | dt.time):
        value = value.isoformat()
    return _MIDNIGHT.sub(r"\1", value) if _MIDNIGHT.fullmatch(value) else value


def rows_of(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the rows of a result as `comparable` does."""
    columns = [frame.iloc[:, at].astype(object).tolist() for at in range(frame.shape[1])]
    return comparable(zip(*columns, strict=True))


def in_order(statement: str) -> bool:
    """Return True if a statement ends in ORDER BY, outside of parentheses, which must then be a total order."""
    text, depth = re.sub(r"'[^']*'|\"[^\"]*\"", "''", statement), 0
    outside = []
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        outside.append(letter if depth == 0 else " ")
    return "ORDER BY" in "".join(outside)
