"""Results <-> DataFrames. pandas is imported by functions, not with the modules; `from_pandas` and `encoder` import it.

| what is read                        | by | becomes |
|-------------------------------------|----|---------|
| the body of a response              | `typed_json`: large results by columns | rows of the wire, or `ColumnarRows` |
| columns of our own service          | `columns` | chunks of columns |
| rows that come one after another    | `columnar` | `ColumnarRows` |
| either of them                      | `logical_types` (`dates`) | columns, each of one type |
| these                               | `to_pandas`, `arrow_polars`, `files` | DataFrame, Arrow, Polars, CSV, Parquet |

A frame that is written goes the other way: `from_pandas` makes chunks of its columns, and `encoder` puts those into the
arguments of a statement.
"""

from pipemagic.frames.logical_types import Note
from pipemagic.frames.to_pandas import to_frame

__all__ = ["Note", "to_frame"]
