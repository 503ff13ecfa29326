"""How the last transaction of a connection ended, for the error of a COMMIT or ROLLBACK without a transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from pipemagic.client.transaction import Loss, TransactionContent
from pipemagic.errors import StatementError
from pipemagic.hrana.stream import Tx
from pipemagic.session import messages
from pipemagic.sql import ParsedStatement

if TYPE_CHECKING:
    from pipemagic.session.connection import Connection

_NO_TRANSACTION = re.compile(r"cannot (commit|rollback) - no transaction is active")


class End(Enum):
    """The end of a transaction, as part of a hint."""

    NONE = "no transaction was begun on this connection"
    COMMITTED = "the last transaction was committed"
    ROLLED_BACK = "the last transaction was rolled back"
    FAILED = "the last transaction was rolled back because a statement failed"
    LOST = "the last transaction was rolled back by the server"
    CLOSED = "the last transaction was rolled back when the connection was closed"


def end_after(last: End, before: TransactionContent, ran: Sequence[ParsedStatement], *, still_open: bool) -> End:
    """Return how the last transaction ended after these statements ran; ``last`` is the end of the one before."""
    if before.ahead(ran).open:
        return last if still_open else End.FAILED
    ends = list(before.ends(ran))
    if not ends:
        return last
    return End.ROLLED_BACK if ran[ends[-1]].rolls_back else End.COMMITTED


def explained(
    error: StatementError, last: End, loss: Loss | None, others: Mapping[str, Connection]
) -> StatementError:  # fmt: skip
    """Return the error of a COMMIT or ROLLBACK without a transaction with a hint; any other error as it is.

    ``loss`` is the last transaction if it was lost, ``others`` are the other connections of the session, by name.
    """
    match = _NO_TRANSACTION.search(error.message)
    if match is None:
        return error
    if name := next(_open_on(others), ""):
        return error.replace(hint=f"the transaction is open on the connection {name}: --on {name}")
    outside = "a statement outside of a transaction is committed at once"
    if match[1] == "rollback":
        outside += ", and cannot be undone"
    if last is End.NONE:
        outside += "; write BEGIN before the statements that belong together"
    retry = f"\n{messages.RETRY}" if loss is not None and loss.can_rerun else ""
    return error.replace(hint=f"{last.value}; {outside}{retry}")


def _open_on(others: Mapping[str, Connection]) -> Iterator[str]:
    return (name for name, connection in others.items() if connection.transaction is Tx.OPEN)
