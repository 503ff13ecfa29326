"""Several queries in one round trip, with a check for changes between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipemagic.errors import StatementError

if TYPE_CHECKING:
    from pipemagic.client.database import Database, Statement
    from pipemagic.client.result import Result

# Some servers treat the PRAGMA statements as writes.
_VERSIONS = (
    "SELECT s.schema_version, d.data_version FROM temp.pragma_schema_version AS s, temp.pragma_data_version AS d"
)

INCONSISTENT = "The database changed while it was read, so the figures may be inconsistent."


def run_queries(database: Database, statements: Sequence[Statement]) -> tuple[list[Result], bool, int]:
    """Return the results, whether another connection wrote between the queries, and the schema version before them.

    They are no transaction, which the server would end after 5 s. StatementError, with its ``index``, if one fails.
    """
    try:
        first, *results, last = database.batch([_VERSIONS, *statements, _VERSIONS], atomic=False)
    except StatementError as error:
        message = error.message.rpartition("\n")[0]  # its last line, on what was applied, does not apply to queries
        raise error.replace(index=error.index - 1, message=message) from None
    return results, first.rows != last.rows, int(first.rows[0][0] or 0)
