"""Recognize frames of other libraries and convert them to pandas DataFrames with exact types.

| frame | read by |
|---|---|
| `pandas.DataFrame` and its subclasses | pandas |
| Polars DataFrame, Arrow Table and RecordBatch | pyarrow |
| an object with ``__arrow_c_stream__``: a DuckDB relation, nanoarrow, ... | pyarrow |

The columns that pyarrow reads get a `pandas.ArrowDtype`: a conversion to NumPy would change integers with NULL,
decimals and dates. `pipemagic.frames.from_pandas` converts these columns to SQL.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pipemagic.errors import LoadError, PipemagicError, UnsupportedError
from pipemagic.text import plural

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class ArrowStream(Protocol):
    """A table of any package that offers the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule that contains an ArrowArrayStream."""


Frame: TypeAlias = "pd.DataFrame | ArrowStream"
"""What `as_pandas` accepts."""

_STREAM = "__arrow_c_stream__"


def is_frame(value: object) -> bool:
    """Return True if `as_pandas` accepts a value.

    It reads only the class of the value, so it can be called for every variable of a notebook: it imports nothing, and
    no code of the value runs.
    """
    kind = type(value)
    if _is_a(kind, "pandas", "DataFrame"):
        return True
    if _is_column(kind) or _is_a(kind, "polars", "LazyFrame"):
        return False
    frame = _is_a(kind, "polars", "DataFrame") or _is_a(kind, "pyarrow", "Table", "RecordBatch")
    return frame or any(_STREAM in vars(ancestor) for ancestor in kind.__mro__)


def typed_columns(value: Any) -> list[tuple[str, str]]:
    """Return the columns of a frame as a load names them, with their dtypes; none for a frame that has to be read."""
    kind = type(value)
    if _is_a(kind, "pandas", "DataFrame"):
        from pipemagic.frames.from_pandas import holds_row_numbers

        index = value.index
        levels = (
            () if holds_row_numbers(index) else zip(index.names, getattr(index, "dtypes", [index.dtype]), strict=True)
        )
        columns = [*(("index" if name is None else name, dtype) for name, dtype in levels), *value.dtypes.items()]
    elif _is_a(kind, "polars", "DataFrame"):
        columns = [*value.schema.items()]
    else:
        is_table = _is_a(kind, "pyarrow", "Table", "RecordBatch")
        columns = [(field.name, field.type) for field in value.schema] if is_table else []
    return [(str(name), str(dtype)) for name, dtype in columns]


def kind_of(value: object) -> str:
    """Return the kind of a value in a sentence, with an article: ``a Polars DataFrame``, ``an int``."""
    if value is None:
        return "None"
    kind = type(value)
    packages = {"polars": "Polars ", "pyarrow": "Arrow "}
    package = packages.get(str(kind.__module__).partition(".")[0], "")
    name = "DataFrame" if _is_a(kind, "pandas", "DataFrame") else f"{package}{kind.__name__}"
    return f"{'an' if name.startswith((*'AEIOUaeiou', 'nd')) else 'a'} {name}"


def as_pandas(value: object, name: str = "frame") -> pd.DataFrame:
    """Convert a frame of any kind to a pandas DataFrame; ``name`` is its name in messages.

    The values are not copied if the kind allows it. Raise LoadError for a value that is not a frame, or that pyarrow
    cannot read; UnsupportedError if pyarrow is missing.
    """
    import pandas as pd

    if issubclass(type(value), pd.DataFrame):
        # A subclass may define columns, indexing and copies in its own way.
        pandas_frame: Any = value
        return _decoded(pandas_frame if type(value) is pd.DataFrame else pd.DataFrame(pandas_frame))
    if not is_frame(value):
        expression = conversion(value, name)
        hint = f"load {expression}" if expression else "load accepts pandas and Polars DataFrames and Arrow tables"
        raise LoadError(f"{name} is {kind_of(value)}, not a DataFrame", hint=hint)
    table = _arrow_table(value, name)
    arrays = [pd.arrays.ArrowExtensionArray(_decode(column)) for column in table.columns]
    # By number first: a dict would drop duplicate names, which the load refuses.
    frame = pd.DataFrame(dict(enumerate(arrays)), index=pd.RangeIndex(table.num_rows), copy=False)
    frame.columns = pd.Index(table.column_names, dtype=object)
    return frame


@contextmanager
def fixes_of(value: object, name: str) -> Iterator[None]:
    """Adapt the hint of a LoadError that assigns to ``name``: the hint is written for a pandas DataFrame."""
    try:
        yield
    except LoadError as error:
        kind = type(value)
        if not assigns(error.hint, name) or _is_a(kind, "pandas", "DataFrame"):
            raise
        if (dropped := _DROP.fullmatch(error.hint)) and (method := _drop_method(kind)):
            raise error.replace(hint=f"{name} = {name}.{method}({dropped[1]})") from None
        if _is_a(kind, "pyarrow", "RecordBatchReader"):
            raise error.replace(hint=f"create {name} again, then load a DataFrame of {name}.read_all()") from None
        exact = "to_pandas(types_mapper=pandas.ArrowDtype, ignore_metadata=True)"
        if _is_a(kind, "polars", "DataFrame"):
            line = f"{name} = {name}.to_pandas(use_pyarrow_extension_array=True)"
        elif _is_a(kind, "pyarrow", "Table", "RecordBatch"):
            line = f"import pandas; {name} = {name}.{exact}"
        else:
            line = f"import pandas, pyarrow; {name} = pyarrow.table({name}).{exact}"
        raise error.replace(hint=f"{line}\n{error.hint}") from None


def assigns(hint: str, name: str) -> bool:
    """Return True if a hint contains a line that assigns to a frame or to its columns."""
    return f"{name}[" in hint or f"{name} = " in hint


_DROP = re.compile(r"\S+ = \S+\.drop\(columns=(.+)\)")


def _drop_method(kind: type) -> str:
    """Return the method of a frame that drops columns; '' if it is not known."""
    if _is_a(kind, "polars", "DataFrame"):
        return "drop"
    return "drop_columns" if _is_a(kind, "pyarrow", "Table", "RecordBatch") else ""


def conversion(value: object, name: str) -> str:
    """Return the Python expression that converts the variable ``name`` to a frame; '' if none is known."""
    kind = type(value)
    if _is_a(kind, "pandas", "Series"):
        return f"{name}.to_frame({'' if value.name is not None else repr('value')})"  # type: ignore[attr-defined]
    if _is_a(kind, "pandas", "Index"):
        named = _is_a(kind, "pandas", "MultiIndex") or value.name is not None  # type: ignore[attr-defined]
        return f"{name}.to_frame(index=False)" if named else f"{name}.to_frame(index=False, name='value')"
    if _is_a(kind, "polars", "Series"):
        return f"{name}.to_frame({'' if value.name else repr('value')})"  # type: ignore[attr-defined]
    if _is_a(kind, "polars", "LazyFrame"):
        return f"{name}.collect()"
    if _is_a(kind, "pyarrow", "Array", "ChunkedArray"):
        return f"pyarrow.table({{'value': {name}}})"
    for method in ("to_pandas", "toPandas"):  # of Spark
        if any(method in vars(ancestor) for ancestor in kind.__mro__):
            return f"{name}.{method}()"
    if issubclass(kind, Mapping):
        return _of_mapping(value, name)  # type: ignore[arg-type]
    if issubclass(kind, set | frozenset):
        return _of_rows(list(value), f"list({name})")  # type: ignore[call-overload]
    if issubclass(kind, list | tuple) or _is_a(kind, "numpy", "ndarray"):
        return _of_rows(value, name)
    return ""


def _is_a(kind: type, package: str, *names: str) -> bool:
    """Return True for a class of a package that is imported, or a subclass; `isinstance` may run code of the value."""
    module = sys.modules.get(package)
    classes = () if module is None else (vars(module).get(name) for name in names)
    return any(isinstance(member, type) and issubclass(kind, member) for member in classes)


def _is_column(kind: type) -> bool:
    return (
        _is_a(kind, "pandas", "Series", "Index")
        or _is_a(kind, "polars", "Series")
        or _is_a(kind, "pyarrow", "Array", "ChunkedArray")
    )


# -- values that are not frames


def _of_mapping(values: Mapping[Any, Any], name: str) -> str:
    items = dict(values)
    inner = next((key for key, value in items.items() if is_frame(value)), None)
    if inner is not None:  # as of read_excel(sheet_name=None)
        return f"{name}[{inner!r}]"
    if _has_columns(items):
        return f"pandas.DataFrame({name})"
    nested = any(issubclass(type(value), Mapping | list | tuple | set) for value in items.values())
    return "" if nested or not _has_columns([items]) else f"pandas.DataFrame([{name}])"  # one row


def _of_rows(values: Any, name: str) -> str:
    rows = getattr(values, "ndim", 1) > 1 or any(issubclass(type(item), Mapping | list | tuple) for item in values[:1])
    if rows:
        return f"pandas.DataFrame({name})" if _has_columns(values) else ""
    return f"pandas.DataFrame({{'value': {name}}})" if _has_columns({"value": values}) else ""


def _has_columns(data: Any) -> bool:
    """Return True if pandas can convert the data to a frame with columns."""
    import pandas as pd

    try:
        return len(pd.DataFrame(data).columns) > 0
    except (TypeError, ValueError):
        return False


# -- Arrow


def _arrow_table(value: Any, name: str) -> pa.Table:
    if find_spec("pyarrow") is None:
        raise UnsupportedError(
            f"{name} is {kind_of(value)}, which requires pyarrow to read, and pyarrow is not installed",
            hint="%pip install pyarrow, then run the cell again",
        )
    import pyarrow as pa

    try:
        if isinstance(value, pa.Table):
            return value
        if isinstance(value, pa.RecordBatch):
            return pa.Table.from_batches([value])
        if _is_a(type(value), "polars", "DataFrame"):
            _check_polars(value, name)
            return value.to_arrow()
        table = pa.table(value)
    except PipemagicError:
        raise
    except Exception as error:  # of any package, such as a query of DuckDB that fails
        raise LoadError(f"cannot read {name}, {kind_of(value)}: {error}") from error
    if isinstance(value, pa.RecordBatchReader) and not table.num_rows:
        raise LoadError(
            f"{name} has no rows left: a RecordBatchReader can be read only once",
            hint=f"create it again, then load {name}.read_all()",
        )
    return table


_CASTS = {
    "Int128": "cast(polars.Int64)", "UInt128": "cast(polars.Int64)",
    "Object": "map_elements(str, return_dtype=polars.String)",
}  # fmt: skip
"""Methods that convert a Polars column with a type that Arrow does not support."""


def _check_polars(frame: Any, name: str) -> None:
    """Raise LoadError if columns have types that Arrow does not support; the message names all of them."""
    unknown = {column: str(dtype) for column, dtype in frame.schema.items() if str(dtype) in _CASTS}
    if not unknown:
        return
    listed = ", ".join(f"{column} ({dtype})" for column, dtype in unknown.items())
    casts = ", ".join(f"polars.col({column!r}).{_CASTS[dtype]}" for column, dtype in unknown.items())
    raise LoadError(
        f"{name} has {plural(len(unknown), 'column')} with a type that Arrow does not support: {listed}",
        hint=f"load {name}.with_columns({casts})",
    )


def _decoded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without the encodings of Arrow that `_decode` removes."""
    import pandas as pd

    encoded = [
        at
        for at, dtype in enumerate(frame.dtypes)
        if isinstance(dtype, pd.ArrowDtype) and _is_encoded(dtype.pyarrow_dtype)
    ]
    if encoded:
        import pyarrow as pa

        frame = frame.copy(deep=False)
        for at in encoded:
            array: Any = pa.array(frame.iloc[:, at].array)
            chunked = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
            frame.isetitem(at, pd.arrays.ArrowExtensionArray(_decode(chunked)))
    return frame


_VIEWS = ("string_view", "binary_view")


def _is_encoded(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    encoded = types.is_dictionary(kind) or types.is_run_end_encoded(kind) or isinstance(kind, pa.BaseExtensionType)
    return encoded or str(kind) in _VIEWS


def _decode(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the same values in the simplest type: of a dictionary, of run ends, of a view, of an extension."""
    import pyarrow as pa

    kind = array.type
    if not _is_encoded(kind):
        return array
    if pa.types.is_dictionary(kind):
        parts = [_decode(pa.chunked_array([part.dictionary])).take(part.indices) for part in array.chunks]
        return _decode(_chunked(parts, kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        from pyarrow import compute

        return _decode(_chunked([compute.run_end_decode(part) for part in array.chunks], kind.value_type))
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return pa.chunked_array([[None if item is None else str(item) for item in array.to_pylist()]], pa.string())
        stored = _chunked([part.storage for part in array.chunks], kind.storage_type)
        return stored.cast(pa.bool_()) if kind.extension_name == "arrow.bool8" else _decode(stored)
    plain = pa.large_string() if str(kind) == "string_view" else pa.large_binary()
    try:
        return array.cast(plain)
    except pa.ArrowNotImplementedError:  # pyarrow 16
        return pa.chunked_array([pa.array(array.to_pylist(), plain)])


def _chunked(parts: Sequence[Any], kind: pa.DataType) -> pa.ChunkedArray:
    import pyarrow as pa

    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.chunked_array(chunks, chunks[0].type if chunks else kind)
