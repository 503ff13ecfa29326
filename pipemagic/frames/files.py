"""A result -> a CSV or Parquet file, which appears whole or not at all; an earlier file of the name is replaced.

CSV holds the values as the database does: integers with all digits also beside NULLs, floats with as many as they need,
dates as their text, truth values as 0 and 1. NULL is an empty field, an empty text ``""``. Lines end with a line feed,
the encoding is UTF-8. Bytes have no form in it and are refused.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.errors import SessionError, UnsupportedError
from pipemagic.frames.reading import Note, note_infinities
from pipemagic.frames.stored import StoredRows, items_of, stored
from pipemagic.frames.typed import as_text
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import SqlValue, Value

if TYPE_CHECKING:
    import pyarrow

Rows = Iterable[Sequence[Value]]

_ROWS_AT_ONCE = 10_000

_SPECIAL = re.compile('[",\r\n]')


def check_path(path: Path) -> None:
    """SessionError if a file cannot be made there."""
    if path.is_dir():
        raise SessionError(f"{path} is a folder", hint="name a file in it")
    if not path.parent.is_dir():
        raise SessionError(f"there is no folder {path.parent}", hint="make it first")


def write_csv(path: Path, cols: Sequence[Col], rows: Rows, *, note: Note | None = None) -> int:
    """Write rows, as they come, under a line with the columns' names; gives how many.

    Of rows that come one by one only some are in memory at a time.
    ``note`` is called with a line for each column that holds infinities, whose sign the server does not send: they are
    NaN in the file. UnsupportedError for bytes, SessionError for a file that cannot be written; nothing is left of it
    then.
    """
    infinite: set[int] = set()
    count = 0
    with _replaced(path) as draft, draft.open("x", encoding="utf-8", newline="") as file:
        file.write(_line([_quoted(col.name or "") for col in cols]))
        for some in _some(cols, rows):
            count += len(some)
            columns = [items_of(parts) for parts in some.columns]
            infinite |= {at for at, items in enumerate(columns) if any(item != item for item in items)}
            fields = [[_field(item, col) for item in items] for col, items in zip(cols, columns, strict=True)]
            file.writelines(map(_line, zip(*fields, strict=True) if fields else [()] * len(some)))
    if note is not None:
        for at in sorted(infinite):
            note_infinities(cols[at].name or f"number {at + 1}", note, "NaN in the file")
    return count


def write_parquet(path: Path, cols: Sequence[Col], rows: Rows, *, note: Note | None = None) -> int:
    """Write rows as Parquet, typed as an Arrow table is; gives how many.

    The types are known only when all rows are there: the last value of a column may make text of its numbers, and what
    is in the file cannot be changed. So all rows are in memory, by columns.
    UnsupportedError without pyarrow, SessionError for a file that cannot be written.
    """
    from pyarrow import parquet

    from pipemagic.frames.tables import to_arrow

    table: pyarrow.Table = to_arrow(StmtResult(list(cols), _stored(cols, rows)), note=note, unique=True)
    with _replaced(path) as draft:
        parquet.write_table(table, str(draft))
    return int(table.num_rows)


WRITERS: dict[str, Callable[..., int]] = {"csv": write_csv, "parquet": write_parquet}


def _stored(cols: Sequence[Col], rows: Rows) -> StoredRows:
    return rows if isinstance(rows, StoredRows) else stored(cols, [[list(row) for row in rows]])


def _some(cols: Sequence[Col], rows: Rows) -> Iterator[StoredRows]:
    """Give the rows, some at a time."""
    if isinstance(rows, StoredRows):
        yield from rows.some()
        return
    coming = iter(rows)
    while some := [list(row) for row in islice(coming, _ROWS_AT_ONCE)]:
        yield stored(cols, [some])


def _line(fields: Sequence[str]) -> str:
    if len(fields) == 1 and not fields[0]:
        return '""\n'  # readers pass over an empty line
    return ",".join(fields) + "\n"


def _field(plain: SqlValue, col: Col) -> str:
    if plain is None:
        return ""
    if isinstance(plain, bytes):
        raise UnsupportedError(
            f"column {col.name} holds bytes, which CSV has no form for; no file was written",
            hint="write hex(column) in the query, or use --to-parquet",
        )
    return _quoted(plain) if isinstance(plain, str) else as_text(plain)


def _quoted(text: str) -> str:
    if text and text == text.strip() and not _SPECIAL.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Give another name to write to, which becomes ``path`` when the block ends well and else is removed."""
    check_path(path)
    draft = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        yield draft
        with draft.open("r+b") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)
