"""Convert results to Polars or Arrow tables. Each package is imported when it is needed.

Arrow and Polars support the logical types of `pipemagic.frames.logical_types`; a mixed column becomes text, or binary
if it has a BLOB, with a note. Numbers that become text are written with all their digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pipemagic.errors import UnsupportedError
from pipemagic.frames.columns import TextArray
from pipemagic.frames.logical_types import LogicalColumn, Note, logical_columns
from pipemagic.frames.to_pandas import arrow_texts
from pipemagic.hrana.messages import StmtResult

if TYPE_CHECKING:
    import polars
    import pyarrow

TYPES = ("pandas", "polars", "arrow")
_PACKAGES = {"polars": "polars", "arrow": "pyarrow"}


def check_type(kind: str) -> None:
    """Raise UnsupportedError, before anything is sent, if the package for tables of this kind is missing."""
    package = _PACKAGES.get(kind)
    if package is not None and find_spec(package) is None:
        raise UnsupportedError(f"{package} is not installed", hint=f"%pip install {package}, then run the cell again")


def import_package(kind: str) -> None:
    """Import the package for tables of this kind, if it is installed, before the first table needs it."""
    package = _PACKAGES.get(kind, "pandas")
    if find_spec(package) is not None:
        import_module(package)


def converter(kind: str) -> Callable[..., Any]:
    """Return `to_polars` or `to_arrow`; raise UnsupportedError without the package."""
    check_type(kind)
    return to_polars if kind == "polars" else to_arrow


def to_arrow(result: StmtResult, *, note: Note | None = None, unique: bool = False) -> pyarrow.Table:
    """Convert a result to an Arrow table; duplicate names are kept, or with ``unique`` get a number."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "integer": pa.int64(), "float": pa.float64(), "text": pa.string(), "binary": pa.binary(),
        "boolean": pa.bool_(), "nothing": pa.null(),
    }  # fmt: skip
    columns = _columns(result, note)
    if not columns:
        return pa.table({})
    names = _unique(columns, note) if unique else [column.name for column in columns]
    zones = {"moment": None, "instant": "UTC"}

    def type_of(column: LogicalColumn) -> Any:
        return pa.timestamp(_unit(column), zones[column.type]) if column.type in zones else types[column.type]

    fields = [pa.field(name, type_of(column)) for name, column in zip(names, columns, strict=True)]
    arrays = [_arrow_array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def to_polars(result: StmtResult, *, note: Note | None = None) -> polars.DataFrame:
    """Convert a result to a Polars frame; duplicate column names, which Polars rejects, get a number and a note.

    It does not need Arrow.
    """
    import polars as pl

    types: dict[str, Any] = {
        "integer": pl.Int64(), "float": pl.Float64(), "text": pl.String(), "binary": pl.Binary(),
        "boolean": pl.Boolean(), "nothing": pl.Null(),
    }  # fmt: skip
    columns = _columns(result, note)
    series = {}
    for name, column in zip(_unique(columns, note), columns, strict=True):
        values = column.values.strings() if isinstance(column.values, TextArray) else column.values
        dtype = types.get(column.type) or pl.Datetime(_unit(column))
        converted = pl.Series(name, values, dtype=dtype, strict=True)
        converted = converted if column.missing is None else converted.set(pl.Series(column.missing), None)
        series[name] = converted.dt.replace_time_zone("UTC") if column.type == "instant" else converted
    return pl.DataFrame(series)


def _columns(result: StmtResult, note: Note | None) -> list[LogicalColumn]:
    say = note or (lambda _: None)
    return [_without_pandas(column, say) for column in logical_columns(result, say)]


def _without_pandas(column: LogicalColumn, note: Note) -> LogicalColumn:
    """Return a column without pandas arrays, and with a common type for mixed values."""
    if column.type == "instant":
        return column._replace(values=column.values.tz_localize(None).to_numpy())
    if column.type != "mixed":
        return column
    binary = "BLOB" in column.mixes
    column.note_mixture(note, f"it becomes {'binary' if binary else 'text'}")
    texts = [value if value is None or isinstance(value, bytes) else as_text(value) for value in column.values]
    values = [text.encode() if binary and isinstance(text, str) else text for text in texts]
    return column._replace(type="binary" if binary else "text", values=values)


def _unit(column: LogicalColumn) -> Any:
    """Return the unit of moments or instants: us or ns."""
    import numpy as np

    return np.datetime_data(column.values.dtype)[0]


def _arrow_array(column: LogicalColumn, kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(column.values, TextArray):
        return arrow_texts(column.values, column.missing).cast(kind)
    return pa.array(column.values, type=kind, mask=column.missing, from_pandas=False)


def _unique(columns: Sequence[LogicalColumn], note: Note | None) -> list[str]:
    """Return a unique name for each column."""
    names = dict.fromkeys(column.name for column in columns)
    unique: dict[str, None] = {}
    for column in columns:
        new, number = column.name, 1
        while new in unique or (number > 1 and new in names):
            number += 1
            new = f"{column.name}_{number}"
        if new != column.name and note is not None:
            note(f"Duplicate column name {column.name}: renamed to {new}.")
        unique[new] = None
    return list(unique)


def as_text(value: int | float | str) -> str:
    """Convert a value to exact text, with 17 digits of a float if necessary."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return str(value)
