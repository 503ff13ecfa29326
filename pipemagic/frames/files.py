"""Write results to CSV or Parquet files, atomically and replacing existing files.

CSV contains the values of the database: integers with all digits also beside NULLs, floats with as many as they need,
dates as their text, booleans as 0 and 1. NULL is an empty field, an empty string ``""``. Lines end with a line feed,
the encoding is UTF-8 unless another one is named. Bytes are refused, and so is text that the encoding does not have.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from pipemagic.errors import SessionError, UnsupportedError
from pipemagic.frames.arrow_polars import as_text, to_arrow
from pipemagic.frames.columnar import ColumnarRows, columnar
from pipemagic.frames.columns import ColumnChunk, with_nulls
from pipemagic.frames.logical_types import Note, note_infinities
from pipemagic.hrana.messages import Col, StmtResult
from pipemagic.hrana.values import Float, Integer, SqlValue, Text, Value
from pipemagic.text import shorten

_NO_FILES = {"idna", "punycode", "raw_unicode_escape", "raw-unicode-escape", "unicode_escape", "unicode-escape"}
"""Python codecs from text to bytes that are not meant for files."""

_SPECIAL = re.compile('[",\r\n]')

EMPTY = '""'
"""The field of an empty string, and of a NULL that would be an empty line."""


def check_path(path: Path) -> None:
    """Raise SessionError if a file cannot be created there."""
    if path.is_dir():
        raise SessionError(f"{path} is a folder", hint="name a file in it")
    if not path.parent.is_dir():
        raise SessionError(f"folder {path.parent} does not exist", hint="create it first")


@contextmanager
def new_file(path: Path, *, overwrite: bool = True, option: str = "--force") -> Iterator[Path]:
    """Yield the path of a temporary file, which becomes ``path`` if the block succeeds and is removed if it fails.

    Without ``overwrite``, which the user sets with ``option``, raise `SessionError` if ``path`` exists, also if another
    program creates it meanwhile.
    """
    check_path(path)
    exists = SessionError(f"{path} already exists", hint=f"choose another name, or overwrite the file with {option}")
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
        raise SessionError(f"cannot write {path}: {error.strerror or error}") from None


def _publish(draft: Path, path: Path) -> None:
    """Rename the temporary file; raise `FileExistsError` for an existing file."""
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


def is_encoding(name: str) -> bool:
    """Return True if Python can write text files in this encoding."""
    try:
        codec = codecs.lookup(name)
        return codec.name not in _NO_FILES and _has("a,\n", codec.name)
    except (LookupError, ValueError):  # the codec does not exist, or converts bytes
        return False


def write_csv(
    path: Path,
    cols: Sequence[Col],
    batches: Iterable[Sequence[list[Value]]],
    *,
    note: Note | None = None,
    encoding: str = "utf-8",
) -> int:
    """Write batches of rows as they arrive, below a line with the column names; return the number of rows.

    ``note`` is called with a sentence for each column with infinities whose sign the server does not send: they are
    NaN in the file. Raise UnsupportedError for bytes and for text that the encoding does not have, SessionError for a
    file that cannot be written; no file is left then.
    """
    has_all = codecs.lookup(encoding).name.startswith("utf")
    infinite: set[int] = set()
    count = 0
    with new_file(path) as draft, draft.open("x", encoding=encoding, newline="") as file:
        names = [[_quoted(col.name or "")] for col in cols]
        if not has_all:
            _check_names(cols, encoding)
        file.writelines(_lines(names, 1))
        rows = (batch if isinstance(batch, ColumnarRows) else columnar(cols, [batch]) for batch in batches)
        for some in chain.from_iterable(batch.batches() for batch in rows):
            infinite |= {at for at, chunks in enumerate(some.columns) if any(chunk.lacks_sign for chunk in chunks)}
            fields = [
                [field for chunk in chunks for field in _fields(chunk, col)]
                for col, chunks in zip(cols, some.columns, strict=True)
            ]
            if not has_all:
                _check_fields(fields, cols, encoding, count)
            count += len(some)
            file.writelines(_lines(fields, len(some)))
    if note is not None:
        for at in sorted(infinite):
            note_infinities(cols[at].name or f"number {at + 1}", note, "NaN in the file")
    return count


def write_parquet(path: Path, result: StmtResult, *, note: Note | None = None) -> int:
    """Write the rows of a result as Parquet, with the types of an Arrow table; return their number.

    All rows are in memory, by columns, because the last value of a column may change its type, and a file cannot be
    changed.
    Raise UnsupportedError without pyarrow, SessionError for a file that cannot be written.
    """
    from pyarrow import parquet

    table = to_arrow(result, note=note, unique=True)
    with new_file(path) as draft:
        parquet.write_table(table, str(draft))
    return int(table.num_rows)


def _has(text: str, encoding: str) -> bool:
    """Return True if an encoding keeps a text; some replace characters: ¥ is a backslash in shift_jis."""
    try:
        return text.encode(encoding).decode(encoding) == text
    except UnicodeError:
        return False


def _check_names(cols: Sequence[Col], encoding: str) -> None:
    """Raise UnsupportedError for a column name that the encoding does not have."""
    for col in cols:
        if not _has(col.name or "", encoding):
            raise _not_encodable(f"the column name {col.name!r}", encoding)


def _check_fields(columns: Sequence[Sequence[str]], cols: Sequence[Col], encoding: str, before: int) -> None:
    """Raise UnsupportedError for a field that the encoding does not have; ``before`` rows precede these."""
    for number, (fields, col) in enumerate(zip(columns, cols, strict=True), start=1):
        if not _has("\n".join(fields), encoding):
            rows = (row for row, field in enumerate(fields, start=before + 1) if not _has(field, encoding))
            row = next(rows, before + 1)
            name = col.name or f"number {number}"
            raise _not_encodable(f"row {row:,} of column {name}, {shorten(fields[row - before - 1], 60)!r},", encoding)


def _not_encodable(what: str, encoding: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} cannot be encoded as {encoding}; no file was written",
        hint="omit --encoding to write UTF-8, or use --excel",
    )


def _lines(columns: Sequence[Sequence[str]], count: int) -> Iterable[str]:
    if len(columns) == 1:  # readers skip an empty line
        return [f"{field or EMPTY}\n" for field in columns[0]]
    return map("{}\n".format, map(",".join, zip(*columns, strict=True))) if columns else ["\n"] * count


def _fields(chunk: ColumnChunk, col: Col) -> list[str]:
    """Return the fields of values of a column, '' for NULL."""
    if chunk.kinds == {Integer} or chunk.kinds == {Float}:
        fields = list(map(repr, chunk.values.tolist()))
        if chunk.lacks_sign:
            fields = ["NaN" if field == "nan" else field for field in fields]
    elif chunk.kinds == {Text}:
        texts = chunk.values.strings()
        quoted = {text: _quoted(text) for text in set(texts)}
        fields = [quoted[text] for text in texts]
    else:
        return [_field(item, col) for item in chunk.items()]
    return with_nulls(fields, chunk.missing, "")


def _field(item: SqlValue, col: Col) -> str:
    """Return the field of a value in a column of several types."""
    if item is None:
        return ""
    if isinstance(item, bytes):
        raise UnsupportedError(
            f"column {col.name} contains bytes, which CSV cannot represent; no file was written",
            hint="use hex(column) in the query, or --to-parquet",
        )
    return _quoted(item) if isinstance(item, str) else as_text(item)


def _quoted(text: str) -> str:
    if text and text == text.strip() and not _SPECIAL.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'
