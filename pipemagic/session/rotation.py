"""Making all tokens of a database invalid, without losing the connections of this session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipemagic.errors import PipemagicError
from pipemagic.hrana.stream import Tx
from pipemagic.session.belonging import database_of

if TYPE_CHECKING:
    from pipemagic.session.connection import Connection
    from pipemagic.session.platform import Platform
    from pipemagic.session.session import Session


def invalidate_tokens(session: Session, database: str, platform: Platform | None = None) -> list[str]:
    """Make all tokens of a database of an organization, by default the current one, invalid; gives lines that tell it.

    Some services do that to the whole group, so the connections of this session to any database of the group get new
    tokens. Raises what `Platform.invalidate_tokens` does.
    """
    platform = platform or session.platform
    group = {one.name: one.group for one in platform.databases().items}
    platform.invalidate_tokens(database)
    told = [f"All tokens of {database} are invalid."]
    for connection in list(session.connections.values()):
        name = database_of(connection, platform.organization, platform.where)
        if name is not None and (name == database or (group.get(name) and group.get(name) == group.get(database))):
            told.append(_renew(session, connection, name, platform))
    return told


def _renew(session: Session, connection: Connection, database: str, platform: Platform) -> str:
    was_open = connection.transaction is Tx.OPEN
    timeout = None if connection.profile is None else connection.profile.timeout
    try:
        connection.renew(session.open(database, connection.name, timeout, connection.read_only, platform))
    except PipemagicError as error:
        return f"{connection.name} has no new token ({error.message}): %pipedb connect {connection.name} makes one."
    ended = " Its open transaction may be rolled back." if was_open else ""
    return f"{connection.name} goes on with a new token.{ended}"
