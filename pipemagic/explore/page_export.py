"""Export all rows of a page's query, filtered and sorted, to a DataFrame, CSV file or Parquet file."""

from __future__ import annotations

import keyword
import os
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from pipemagic.errors import SessionError
from pipemagic.explore.page_query import Page, rows_sql, statement
from pipemagic.frames import arrow_polars, files, to_frame
from pipemagic.frames.columnar import RowsBuilder
from pipemagic.hrana.messages import StmtResult
from pipemagic.text import plural

if TYPE_CHECKING:
    from pipemagic.client.cursor import Cursor
    from pipemagic.client.database import Database

Kind = Literal["variable", "csv", "excel", "parquet"]

REPORT_INTERVAL = 0.5
"""Seconds between progress reports."""


def check_target(kind: Kind, target: str, variables: Container[str], *, replace: bool) -> None:
    """Raise SessionError if the target is invalid, or exists and must not be replaced."""
    if kind == "variable":
        if not target.isidentifier() or keyword.iskeyword(target):
            raise SessionError(f"{target!r} is not a valid name of a variable")
        exists = target in variables
    else:
        if not target:
            raise SessionError("the file needs a name")
        path = Path(os.path.expanduser(target))
        files.check_path(path)
        if kind == "parquet":
            arrow_polars.check_type("arrow")
        exists = path.exists()
    if exists and not replace:
        what = "variable" if kind == "variable" else "file"
        raise SessionError(f"the {what} {target} already exists", hint="tick Replace, or choose another name")


def export_rows(
    database: Database, page: Page, kind: Kind, target: str, report: Callable[[str], None]
) -> tuple[Any, str]:
    """Return a DataFrame, or write a file and return None; in both cases with a message."""
    sql, args = statement(database, lambda write: rows_sql(page.query, page.relation, write, limit=False))
    notes: list[str] = []
    frame = None
    with database.cursor(sql, args) as cursor:
        batches = _report_batches(cursor, report)
        if kind in ("csv", "excel"):
            path, encoding = Path(os.path.expanduser(target)), "utf-8-sig" if kind == "excel" else "utf-8"
            count = files.write_csv(path, cursor.cols, batches, note=notes.append, encoding=encoding)
        else:
            rows = RowsBuilder(cursor.cols)
            for batch in batches:
                rows.add(batch)
            result = StmtResult(list(cursor.cols), rows.build())
            count = len(result.rows)
            if kind == "parquet":
                files.write_parquet(Path(os.path.expanduser(target)), result, note=notes.append)
            else:
                frame = to_frame(result, note=notes.append)
    rows_ = plural(count, "row")
    message = f"{target} is a DataFrame of {rows_}." if kind == "variable" else f"Wrote {rows_} to {target}."
    return frame, "\n".join([message, *notes])


def _report_batches(cursor: Cursor, report: Callable[[str], None]) -> Iterator[Sequence[Any]]:
    count, reported = 0, monotonic()
    for batch in cursor:
        count += len(batch)
        if monotonic() - reported > REPORT_INTERVAL:
            report(f"Exporting: {plural(count, 'row')} so far ...")
            reported = monotonic()
        yield batch
