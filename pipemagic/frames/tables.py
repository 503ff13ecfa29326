"""A result -> the kind of table that is wanted: pandas, Polars or Arrow. Each is imported when it is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pipemagic.errors import UnsupportedError
from pipemagic.frames.parts import Texts
from pipemagic.frames.reading import Note, to_frame
from pipemagic.frames.texts import arrow_texts
from pipemagic.frames.typed import Kind, Typed, typed_columns
from pipemagic.hrana.messages import StmtResult

if TYPE_CHECKING:
    import polars
    import pyarrow

TYPES = ("pandas", "polars", "arrow")
_PACKAGES = {"polars": "polars", "arrow": "pyarrow"}


def check_type(kind: str) -> None:
    """UnsupportedError if tables of this kind cannot be made here: before anything is sent to a server."""
    package = _PACKAGES.get(kind)
    if package is not None and find_spec(package) is None:
        raise UnsupportedError(f"{package} is not installed", hint=f"%pip install {package}, then run the cell again")


def import_package(kind: str) -> None:
    """Import what makes tables of this kind, if it is installed: the first one need not wait for that then."""
    package = _PACKAGES.get(kind, "pandas")
    if find_spec(package) is not None:
        import_module(package)


def to_table(result: StmtResult, kind: str, *, note: Note | None = None) -> Any:
    """Turn a result into a table of one of TYPES (which types columns get: `pipemagic.frames.reading`, `.typed`)."""
    match kind:
        case "polars":
            return to_polars(result, note=note)
        case "arrow":
            return to_arrow(result, note=note)
    return to_frame(result, note=note)


def to_arrow(result: StmtResult, *, note: Note | None = None, unique: bool = False) -> pyarrow.Table:
    """Turn a result into an Arrow table; duplicate names are kept, or with ``unique`` get a number."""
    import pyarrow as pa

    columns = typed_columns(result, note)
    kinds: dict[Kind, Any] = {
        "integer": pa.int64(), "float": pa.float64(), "text": pa.string(), "binary": pa.binary(),
        "boolean": pa.bool_(), "moment": pa.timestamp("us"), "instant": pa.timestamp("us", "UTC"), "nothing": pa.null(),
    }  # fmt: skip
    names = _unique(columns, note) if unique else [column.name for column in columns]
    fields = [pa.field(name, kinds[column.kind]) for name, column in zip(names, columns, strict=True)]
    chunks = [_arrow_array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    if not columns:
        return pa.table({})
    return pa.Table.from_arrays(chunks, schema=pa.schema(fields))


def to_polars(result: StmtResult, *, note: Note | None = None) -> polars.DataFrame:
    """Turn a result into a Polars frame, which takes no two columns of one name: later ones get a number, and a note.

    Arrow is not needed for it.
    """
    import polars as pl

    columns = typed_columns(result, note)
    kinds: dict[Kind, Any] = {
        "integer": pl.Int64(), "float": pl.Float64(), "text": pl.String(), "binary": pl.Binary(),
        "boolean": pl.Boolean(), "moment": pl.Datetime("us"), "instant": pl.Datetime("us"), "nothing": pl.Null(),
    }  # fmt: skip
    names = _unique(columns, note)
    series = {
        name: _in_zone(_polars_series(name, column, kinds[column.kind]), column)
        for name, column in zip(names, columns, strict=True)
    }
    return pl.DataFrame(series)


def _arrow_array(column: Typed, kind: Any) -> Any:
    import pyarrow as pa

    if isinstance(column.values, Texts):
        return arrow_texts(column.values, column.missing).cast(kind)
    return pa.array(column.values, type=kind, mask=column.missing, from_pandas=False)


def _polars_series(name: str, column: Typed, kind: Any) -> Any:
    import polars as pl

    values = column.values.strings() if isinstance(column.values, Texts) else column.values
    series = pl.Series(name, values, dtype=kind, strict=True)
    return series if column.missing is None else series.set(pl.Series(column.missing), None)


def _in_zone(series: Any, column: Typed) -> Any:
    return series.dt.replace_time_zone("UTC") if column.kind == "instant" else series


def _unique(columns: Sequence[Typed], note: Note | None) -> list[str]:
    """Give each column a name of its own."""
    names = [column.name for column in columns]
    taken, seen, unique = set(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        new, number = name, seen[name]
        while seen[name] > 1 and new in taken:
            new, number = f"{name}_{number}", number + 1
        if new != name and note is not None:
            note(f"another column is named {name}, too; it is {new} here")
        taken.add(new)
        unique.append(new)
    return unique
