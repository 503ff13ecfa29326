"""Results <-> DataFrames. pandas is imported by the functions, not by the import; `writing` imports it.

| what is read                       | by | becomes |
|------------------------------------|----|---------|
| a small result, wire value by wire value | `reading` | a DataFrame; decides the types, also for the others |
| the body of an answer              | `answers`: cuts out the rows of large results | |
| their JSON, from any server        | `grid` | `parts` of columns |
| columns of our own service         | `columns` | `parts` of columns |
| parts as they come                 | `growing` | columns, joined in place |
| all columns of a large result      | `stored` (`texts`, `dates`) | a DataFrame |
| either of them                     | `typed`, `tables`, `files` | Arrow, Polars, CSV, Parquet |

A frame that is written goes the other way: `writing` and `objects` tell what each column is, `cells` what its values
are, `records` puts them into arguments of a statement.
"""

from pipemagic.frames.reading import Note, to_frame

__all__ = ["Note", "to_frame"]
