"""Stored texts -> the array that pandas takes for text, or one of dates: what `pipemagic.frames.reading` makes of them.

With pyarrow the bytes become pandas' array as they lie, without a Python object for each text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipemagic.frames import reading
from pipemagic.frames.parts import Part, Texts

if TYPE_CHECKING:
    import pyarrow


def text_array(part: Part, decltype: str) -> Any:
    """Give the array of a column of texts: of dates, if it is declared so and all of them are."""
    if not reading.is_date(decltype) and _uses_arrow():
        return _arrow_strings(part)
    return reading.text_array(part.items(), decltype)  # type: ignore[arg-type]


def _uses_arrow() -> bool:
    """Tell whether pandas has a type for text and keeps it as Arrow does."""
    import pandas as pd

    return reading.pandas_version() >= 3 and bool(pd.StringDtype(na_value=float("nan")).storage == "pyarrow")


def _arrow_strings(part: Part) -> Any:
    import pandas as pd
    import pyarrow as pa

    dtype: Any = pd.StringDtype("pyarrow", na_value=float("nan"))
    make: Any = pd.arrays.ArrowStringArray
    return make(pa.chunked_array([arrow_texts(part)]), dtype=dtype)


def arrow_texts(part: Part) -> pyarrow.Array:
    """Give the texts as Arrow has them, with 64-bit offsets; the memory is shared."""
    import numpy as np
    import pyarrow as pa

    assert isinstance(part.values, Texts)
    data, offsets = part.values
    valid = None if part.missing is None else pa.py_buffer(np.packbits(~part.missing, bitorder="little"))
    return pa.Array.from_buffers(
        pa.large_string(), part.size, [valid, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    )
