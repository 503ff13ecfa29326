"""A result -> a table of Polars or Arrow. Each package is imported when its type is wanted.

Arrow and Polars take the logical types of `pipemagic.frames.logical_types`; what is mixed becomes text, or binary where
a BLOB is among it, and a note. Numbers that become text are written with all their digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pipemagic.errors import UnsupportedError
from pipemagic.frames.columns import Texts
from pipemagic.frames.logical_types import LogicalColumn, Note, logical_columns
from pipemagic.frames.to_pandas import arrow_texts
from pipemagic.hrana.messages import StmtResult

if TYPE_CHECKING:
    import polars
    import pyarrow

TYPES = ("pandas", "polars", "arrow")
_PACKAGES = {"polars": "polars", "arrow": "pyarrow"}


def check_type(kind: str) -> None:
    """Raise UnsupportedError if tables of this kind cannot be made here: before anything is sent to a server."""
    package = _PACKAGES.get(kind)
    if package is not None and find_spec(package) is None:
        raise UnsupportedError(f"{package} is not installed", hint=f"%pip install {package}, then run the cell again")


def import_package(kind: str) -> None:
    """Import what makes tables of this kind, if it is installed, so that the first one does not wait for that."""
    package = _PACKAGES.get(kind, "pandas")
    if find_spec(package) is not None:
        import_module(package)


def converter(kind: str) -> Callable[..., Any]:
    """Return `to_polars` or `to_arrow`; UnsupportedError without the package."""
    check_type(kind)
    return to_polars if kind == "polars" else to_arrow


def to_arrow(result: StmtResult, *, note: Note | None = None, unique: bool = False) -> pyarrow.Table:
    """Turn a result into an Arrow table; duplicate names are kept, or with ``unique`` get a number."""
    import pyarrow as pa

    types: dict[str, Any] = {
        "integer": pa.int64(), "float": pa.float64(), "text": pa.string(), "binary": pa.binary(),
        "boolean": pa.bool_(), "moment": pa.timestamp("us"), "instant": pa.timestamp("us", "UTC"), "nothing": pa.null(),
    }  # fmt: skip
    columns = _columns(result, note)
    if not columns:
        return pa.table({})
    names = _unique(columns, note) if unique else [column.name for column in columns]
    fields = [pa.field(name, types[column.type]) for name, column in zip(names, columns, strict=True)]
    arrays = [_arrow_array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def to_polars(result: StmtResult, *, note: Note | None = None) -> polars.DataFrame:
    """Turn a result into a Polars frame, which takes no two columns of one name: later ones get a number, and a note.

    Arrow is not needed for it.
    """
    import polars as pl

    types: dict[str, Any] = {
        "integer": pl.Int64(), "float": pl.Float64(), "text": pl.String(), "binary": pl.Binary(),
        "boolean": pl.Boolean(), "moment": pl.Datetime("us"), "instant": pl.Datetime("us"), "nothing": pl.Null(),
    }  # fmt: skip
    columns = _columns(result, note)
    series = {}
    for name, column in zip(_unique(columns, note), columns, strict=True):
        values = column.values.strings() if isinstance(column.values, Texts) else column.values
        one = pl.Series(name, values, dtype=types[column.type], strict=True)
        one = one if column.missing is None else one.set(pl.Series(column.missing), None)
        series[name] = one.dt.replace_time_zone("UTC") if column.type == "instant" else one
    return pl.DataFrame(series)


def _columns(result: StmtResult, note: Note | None) -> list[LogicalColumn]:
    say = note or (lambda _: None)
    return [_without_pandas(column, say) for column in logical_columns(result, say)]


def _without_pandas(column: LogicalColumn, note: Note) -> LogicalColumn:
    """Return a column without pandas' arrays, and with one type for values of several."""
    if column.type == "instant":
        return column._replace(values=column.values.tz_localize(None).to_numpy())
    if column.type != "mixed":
        return column
    binary = "BLOB" in column.mixes
    cast = f"CAST({column.shown} AS ...) gives it a type of your choice"
    note(f"column {column.shown} mixes {column.mixes} values and becomes {'binary' if binary else 'text'}; {cast}")
    texts = [one if one is None or isinstance(one, bytes) else as_text(one) for one in column.values]
    values = [one.encode() if binary and isinstance(one, str) else one for one in texts]
    return column._replace(type="binary" if binary else "text", values=values)


def _arrow_array(column: LogicalColumn, kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(column.values, Texts):
        return arrow_texts(column.values, column.missing).cast(kind)
    return pa.array(column.values, type=kind, mask=column.missing, from_pandas=False)


def _unique(columns: Sequence[LogicalColumn], note: Note | None) -> list[str]:
    """Return a name of its own for each column."""
    names = dict.fromkeys(column.name for column in columns)
    unique: dict[str, None] = {}
    for column in columns:
        new, number = column.name, 1
        while new in unique or (number > 1 and new in names):
            number += 1
            new = f"{column.name}_{number}"
        if new != column.name and note is not None:
            note(f"another column is named {column.name}, too; it is {new} here")
        unique[new] = None
    return list(unique)


def as_text(value: int | float | str) -> str:
    """Write a value as text that says all of it: 17 digits of a float where they are needed."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    return str(value)
