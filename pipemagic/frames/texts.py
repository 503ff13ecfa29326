"""Stored texts -> the array that pandas takes for text, or one of dates: what `pipemagic.frames.reading` makes of them.

With pyarrow the bytes become pandas' array as they lie, without a Python object for each text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipemagic.frames import reading
from pipemagic.frames.dates import parse_alike, parse_dates
from pipemagic.frames.parts import Part, Texts

if TYPE_CHECKING:
    import pyarrow


def text_array(part: Part, decltype: str) -> Any:
    """Give the array of a column of texts: of dates, if it is declared so and all of them are."""
    dates = stored_dates(part) if reading.is_date(decltype) else None
    if dates is not None:
        return dates
    return _arrow_strings(part) if _uses_arrow() else reading.text_array(part.items(), "")  # type: ignore[arg-type]


def stored_dates(part: Part) -> Any | None:
    """Give a column of dates (`pipemagic.frames.dates`); None if any text is none."""
    dates = _dates_alike(part)
    return parse_dates(part.items()) if dates is None else dates  # type: ignore[arg-type]


def _dates_alike(part: Part) -> Any | None:
    """Give dates that are all written alike, without an object for each; None if they are not."""
    import numpy as np

    present = np.ones(part.size, bool) if part.missing is None else ~part.missing
    data, offsets = part.values
    lengths = np.diff(offsets)
    width = int(lengths[present][0])
    if not width or (lengths != np.where(present, width, 0)).any():
        return None
    parsed = parse_alike(bytes(data[offsets[0] : offsets[-1]]), width)
    if parsed is None:
        return None
    dates = np.full(part.size, "NaT", "datetime64[us]")
    dates[present] = parsed
    return dates


def _uses_arrow() -> bool:
    """Tell whether pandas has a type for text and keeps it as Arrow does."""
    import pandas as pd

    return reading.pandas_version() >= 3 and bool(pd.StringDtype(na_value=float("nan")).storage == "pyarrow")


def _arrow_strings(part: Part) -> Any:
    import pandas as pd
    import pyarrow as pa

    dtype: Any = pd.StringDtype("pyarrow", na_value=float("nan"))
    make: Any = pd.arrays.ArrowStringArray
    return make(pa.chunked_array([arrow_texts(part.values, part.missing)]), dtype=dtype)


def arrow_texts(texts: Texts, missing: Any) -> pyarrow.Array:
    """Give texts as Arrow has them, with 64-bit offsets; the memory is shared. ``missing`` tells which are NULL."""
    import numpy as np
    import pyarrow as pa

    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)]
    return pa.Array.from_buffers(pa.large_string(), len(texts.offsets) - 1, buffers)
