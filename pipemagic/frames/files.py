"""A result -> a CSV or Parquet file, which appears whole or not at all; an earlier file of the name is replaced.

CSV holds the values as the database does: integers with all digits also beside NULLs, floats with as many as they need,
dates as their text, truth values as 0 and 1. NULL is an empty field, an empty text ``""``. Lines end with a line feed,
the encoding is UTF-8. Bytes have no form in it and are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pipemagic.errors import SessionError, UnsupportedError
from pipemagic.frames.parts import Part
from pipemagic.frames.reading import Note, note_infinities
from pipemagic.frames.stored import StoredRows, stored
from pipemagic.frames.typed import as_text
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import Float, Integer, SqlValue, Text, Value

if TYPE_CHECKING:
    import pyarrow

Rows = Iterable[Sequence[Value]]

_ROWS_AT_ONCE = 10_000

_SPECIAL = re.compile('[",\r\n]')

EMPTY = '""'
"""The field of an empty text, and of NULL where it would be an empty line."""


def check_path(path: Path) -> None:
    """SessionError if a file cannot be made there."""
    if path.is_dir():
        raise SessionError(f"{path} is a folder", hint="name a file in it")
    if not path.parent.is_dir():
        raise SessionError(f"there is no folder {path.parent}", hint="make it first")


@contextmanager
def new_file(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield the path of a draft, which becomes ``path`` if the block succeeds and is removed if it fails.

    Without ``overwrite``, raise `SessionError` if ``path`` exists, also if another program creates it meanwhile.
    """
    check_path(path)
    exists = SessionError(f"{path} exists already", hint="choose another name, or overwrite the file with --force")
    if path.exists() and not overwrite:
        raise exists
    try:
        with TemporaryDirectory(prefix=".pipemagic-", dir=path.parent) as folder:
            draft = Path(folder) / path.name
            yield draft
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
            if overwrite:
                draft.replace(path)
            else:
                _publish(draft, path)
    except FileExistsError:
        raise exists from None
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error.strerror or error}") from None


def _publish(draft: Path, path: Path) -> None:
    """Rename a draft; raise `FileExistsError` for an existing file."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: an empty file reserves the name
        path.touch(exist_ok=False)
        try:
            draft.replace(path)
        except BaseException:
            path.unlink()
            raise


def write_csv(path: Path, cols: Sequence[Col], rows: Rows, *, note: Note | None = None) -> int:
    """Write rows, as they come, under a line with the columns' names; gives how many.

    Of rows that come one by one only some are in memory at a time.
    ``note`` is called with a line for each column that holds infinities, whose sign the server does not send: they are
    NaN in the file. UnsupportedError for bytes, SessionError for a file that cannot be written; nothing is left of it
    then.
    """
    infinite: set[int] = set()
    count = 0
    with new_file(path) as draft, draft.open("x", encoding="utf-8", newline="") as file:
        file.writelines(_lines([[_quoted(col.name or "")] for col in cols], 1))
        for some in _some(cols, rows):
            count += len(some)
            infinite |= {at for at, parts in enumerate(some.columns) if any(part.lacks_sign for part in parts)}
            fields = [
                [field for part in parts for field in _fields(part, col)]
                for col, parts in zip(cols, some.columns, strict=True)
            ]
            file.writelines(_lines(fields, len(some)))
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
    with new_file(path) as draft:
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


def _lines(columns: Sequence[Sequence[str]], count: int) -> Iterable[str]:
    if len(columns) == 1:  # readers pass over an empty line
        return [f"{field or EMPTY}\n" for field in columns[0]]
    return map("{}\n".format, map(",".join, zip(*columns, strict=True))) if columns else ["\n"] * count


def _fields(part: Part, col: Col) -> list[str]:
    """Return the fields of some values of a column, '' for NULL."""
    if part.kinds == {Integer} or part.kinds == {Float}:
        fields = list(map(repr, part.values.tolist()))
        if part.infinite:
            fields = ["NaN" if field == "nan" else field for field in fields]
    elif part.kinds == {Text}:
        texts = part.values.strings()
        quoted = {text: _quoted(text) for text in set(texts)}
        fields = [quoted[text] for text in texts]
    else:
        return [_field(item, col) for item in part.items()]
    if part.missing is not None:
        for row in part.missing.nonzero()[0].tolist():
            fields[row] = ""
    return fields


def _field(item: SqlValue, col: Col) -> str:
    """Return the field of a value of a column that holds several kinds of them."""
    if item is None:
        return ""
    if isinstance(item, bytes):
        raise UnsupportedError(
            f"column {col.name} holds bytes, which CSV has no form for; no file was written",
            hint="write hex(column) in the query, or use --to-parquet",
        )
    return _quoted(item) if isinstance(item, str) else as_text(item)


def _quoted(text: str) -> str:
    if text and text == text.strip() and not _SPECIAL.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'
