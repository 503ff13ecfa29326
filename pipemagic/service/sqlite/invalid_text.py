"""Find the text of a result that is not valid UTF-8: SQLite stores any bytes as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from pipemagic.hrana.messages import Col
from pipemagic.hrana.values import SqlValue
from pipemagic.service.sqlite.statement import SqlStatement


class TextPlace(NamedTuple):
    """The place of a text in a result; ``row`` is counted from 1. ``is_stored``: it is a column of a table."""

    column: str
    row: int
    is_stored: bool


def find(
    connection: apsw.Connection, statement: SqlStatement, bindings: Sequence[SqlValue], cols: Sequence[Col]
) -> TextPlace | None:
    """Run a query again, with texts as bytes, up to the first invalid one; None if it cannot be found in this way."""
    if not statement.only_reads or statement.explains:
        return None
    names = [f"c{number}" for number in range(len(cols))]
    texts = ", ".join(f"iif(typeof({name}) = 'text', CAST({name} AS BLOB), NULL)" for name in names)
    query = f"WITH r({', '.join(names)}) AS ({statement.text.rstrip('; ')}\n) SELECT {texts} FROM r"
    try:
        for number, row in enumerate(connection.execute(query, bindings, can_cache=False), start=1):
            for col, text in zip(cols, row, strict=True):
                if isinstance(text, bytes) and not _is_utf8(text):
                    return TextPlace(col.name or "", number, col.decltype is not None)
    except apsw.SQLError:  # it has more columns or is deeper than SQLite allows
        pass
    return None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
