"""Convert results to DataFrames and back.

Functions import pandas, modules do not, except `from_pandas`, `inference`, `delimited` and `grid`.

| input                               | module | output |
|-------------------------------------|--------|--------|
| the body of a response              | `typed_json`: large results by columns | wire rows, or `ColumnarRows` |
| columns of a pipemagic service      | `columns` | chunks of columns |
| rows that arrive one by one         | `columnar` | `ColumnarRows` |
| rows or columns                     | `logical_types` (`moments`) | columns, each of one type |
| typed columns                       | `to_pandas`, `arrow_polars`, `files` | DataFrame, Arrow, Polars, CSV, Parquet |

`readers` reads local files: CSV and TSV by `delimited` and `grid`, with the types that `inference` finds, and the
options of a load by `file_options`.

`delimited`, `grid`, `inference` and `file_options` are for `readers` alone; other parts use the other modules.

To write a frame, `any_frame` makes a DataFrame of one of another kind, `from_pandas` converts its columns to chunks,
and `encoder` converts these to the arguments of a statement.
"""

from pipemagic.frames.logical_types import Note
from pipemagic.frames.to_pandas import to_frame

__all__ = ["Note", "to_frame"]
