"""Convert results to DataFrames, by the logical types of their columns (`pipemagic.frames.logical_types`).

| logical type | without NULL | with NULL |
|--------------|--------------|-----------|
| integer      | int64        | Int64     |
| float        | float64      | float64   |
| text         | str          | str       |
| binary       | object       | object    |
| boolean      | boolean      | boolean   |
| moment       | datetime64[us], or [ns] | the same |
| instant      | datetime64[us, UTC], or [ns, UTC] | the same |
| mixed        | object, and a note | the same |
| nothing      | object       | object    |

``str`` is the default type of pandas for text: ``object`` before pandas 3, ``str`` since. The types are the same
with and without pyarrow. Duplicate and empty column names are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pipemagic.frames.columnar import ColumnarRows
from pipemagic.frames.columns import TextArray, with_nulls
from pipemagic.frames.logical_types import LogicalColumn, Note, logical_columns
from pipemagic.hrana.messages import StmtResult

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow


def to_frame(result: StmtResult, *, note: Note | None = None) -> pd.DataFrame:
    """Convert a result to a DataFrame: a column for each of ``cols``, a row for each of ``rows``.

    ``note`` is called with a sentence for each column that could not be converted to its type.
    Raise ProtocolError for rows with another number of values than ``cols`` and for invalid values.
    """
    say, rows = note or (lambda _: None), result.rows
    shares = isinstance(rows, ColumnarRows)
    arrays = [_array(column, say, shares=shares) for column in logical_columns(result, say)]
    frame = _frame_of([col.name or "" for col in result.cols], arrays, len(rows))
    if isinstance(rows, ColumnarRows):
        rows.frames.append(_sharing(frame))
    return frame


def _sharing(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame that shares the numbers of ``frame``; pandas copies them before a change in place.

    Copy-on-write does so because one frame is derived from the other. Only plain numbers share the memory of the rows;
    the other columns would stay in memory as long as the rows do.
    """
    return frame.select_dtypes(["int64", "float64"])


def _frame_of(names: Sequence[str], arrays: Sequence[Any], count: int) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    labels = _labels(tuple(names)).view()
    if len(arrays) == 1 and arrays[0].dtype in (np.int64, np.float64):  # as of a count(*): a quarter of the time
        return pd.DataFrame(arrays[0].reshape(count, 1), columns=labels, copy=False)
    # First by number: a dict would drop duplicate names.
    frame = pd.DataFrame(dict(enumerate(arrays)), index=pd.RangeIndex(count), copy=False)
    frame.columns = labels
    return frame


@lru_cache(maxsize=64)
def _labels(names: tuple[str, ...]) -> pd.Index[Any]:
    """Return the labels of columns. Each frame needs its own view, since the name of an Index can be changed.

    They are cached, since they take a tenth of the time of a cell with a small result.
    """
    import pandas as pd

    return pd.Index(list(names), dtype=None if names else object)


def _array(column: LogicalColumn, note: Note, *, shares: bool) -> Any:
    """Return the array of one column; with ``shares`` its values are also used elsewhere."""
    import numpy as np
    import pandas as pd

    size, values, missing = column.size, column.values, column.missing
    match column.type:
        case "integer" if missing is not None:  # an array with a mask may be changed without pandas
            return pd.arrays.IntegerArray(*((values.copy(), missing.copy()) if shares else (values, missing)))
        case "integer" | "float":
            unsafe = shares and not (_pandas_version() >= 3 and values.flags.writeable)
            return values.copy() if unsafe else values
        case "boolean":
            return pd.arrays.BooleanArray(values, np.zeros(size, bool) if missing is None else missing.copy())
        case "text":
            return _strings(values, missing)
        case "mixed" | "binary" | "nothing":
            if column.type == "mixed":
                column.note_mixture(note, "its dtype is object")
            return np.array(values, dtype=object)
    return values


def _strings(texts: TextArray, missing: Any) -> Any:
    """Return the pandas array for text; with pyarrow it is created without a Python object for each."""
    import numpy as np
    import pandas as pd

    if _pandas_version() >= 3 and pd.StringDtype(na_value=math.nan).storage == "pyarrow":
        import pyarrow as pa

        dtype: Any = pd.StringDtype("pyarrow", na_value=math.nan)
        make: Any = pd.arrays.ArrowStringArray
        return make(pa.chunked_array([arrow_texts(texts, missing)]), dtype=dtype)
    strings = with_nulls(texts.strings(), missing)
    objects = np.array(strings, dtype=object)
    # By its full name: with pandas' string inference off, "str" is numpy's type, which has no missing values.
    return objects if _pandas_version() < 3 else pd.array(objects, dtype=pd.StringDtype(na_value=math.nan))


def arrow_texts(texts: TextArray, missing: Any) -> pyarrow.Array:
    """Return texts as an Arrow array with 64-bit offsets, which shares the memory. ``missing`` is True for NULL."""
    import numpy as np
    import pyarrow as pa

    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)]
    return pa.Array.from_buffers(pa.large_string(), len(texts.offsets) - 1, buffers)


@lru_cache(maxsize=1)
def _pandas_version() -> int:
    import pandas as pd

    return int(pd.__version__.split(".")[0])
