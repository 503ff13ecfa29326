"""Several questions in one round trip, and whether the database stood still meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipemagic.errors import StatementError

if TYPE_CHECKING:
    from pipemagic.client.database import Database, Result, Statement

# As PRAGMAs some servers take them for writes.
_VERSIONS = "SELECT s.schema_version, d.data_version FROM pragma_schema_version AS s, pragma_data_version AS d"

MOVED = "The database was written to meanwhile: the figures may be of different moments."


def ask(database: Database, statements: Sequence[Statement]) -> tuple[list[Result], bool]:
    """Run queries in one round trip; gives their results, and whether another connection wrote between them.

    Raises what `ask_at` does.
    """
    results, moved, _ = ask_at(database, statements)
    return results, moved


def ask_at(database: Database, statements: Sequence[Statement]) -> tuple[list[Result], bool, int]:
    """Run queries as `ask` does; gives also the version of the schema before them.

    They are no transaction, which the server would end after 5 s. StatementError if one fails; its
    ``index`` tells which.
    """
    try:
        first, *results, last = database.batch([_VERSIONS, *statements, _VERSIONS], atomic=False)
    except StatementError as error:
        # Queries leave nothing behind, so it does not matter which ones ran.
        hint = error.hint if error.code == "RESPONSE_TOO_LARGE" else ""
        raise error.replace(index=error.index - 1, hint=hint) from None
    return results, first.rows != last.rows, int(first.rows[0][0] or 0)
