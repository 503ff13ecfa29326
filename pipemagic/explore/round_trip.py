"""Several queries in one round trip, with a check for changes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pipemagic.errors import StatementError

if TYPE_CHECKING:
    from pipemagic.client.database import Database, Statement
    from pipemagic.client.result import Result

# Some servers treat the PRAGMA statements as writes.
_SCHEMA_VERSION = "SELECT s.schema_version FROM temp.pragma_schema_version AS s"
_VERSIONS = (
    "SELECT s.schema_version, d.data_version FROM temp.pragma_schema_version AS s, temp.pragma_data_version AS d"
)

_INCONSISTENT = "The database changed while it was read, so the figures may be inconsistent."
_UNCHECKED = "The server lacks pragma_data_version, so changes during these queries would not be noticed."


def run_queries(
    database: Database, statements: Sequence[Statement], *, without: Callable[[], Sequence[Statement]] | None = None
) -> tuple[list[Result], bool | None, int]:
    """Return the results, whether another connection wrote between the queries, and the schema version before them.

    They are no transaction, which the server would end after 5 s. It is not known whether another connection wrote
    (None) if the engine lacks ``pragma_data_version``: the new engine of the hosted service. ``without`` returns the
    statements for that one. StatementError, with its ``index``, if one fails.
    """
    if "pragma_data_version" not in database.lacks:
        try:
            first, *results, last = _batch(database, [_VERSIONS], statements, [_VERSIONS])
            return results, first.rows != last.rows, int(first.rows[0][0] or 0)
        except StatementError as error:
            if error.index >= 0 or not error.message.endswith("pragma_data_version"):
                raise
            database.lacks.add("pragma_data_version")
    version, *results = _batch(database, [_SCHEMA_VERSION], without() if without else statements, [])
    return results, None if len(results) > 1 else False, int(version.rows[0][0] or 0)


def note_on(inconsistent: bool | None) -> str:
    """Return a sentence on figures that are inconsistent, or not known to be consistent; otherwise ''."""
    return _UNCHECKED if inconsistent is None else _INCONSISTENT if inconsistent else ""


def _batch(
    database: Database, before: Sequence[str], statements: Sequence[Statement], after: Sequence[str]
) -> list[Result]:
    try:
        return database.batch([*before, *statements, *after], atomic=False)
    except StatementError as error:
        message = error.message.rpartition("\n")[0]  # its last line, on what was applied, does not apply to queries
        raise error.replace(index=error.index - len(before), message=message) from None
