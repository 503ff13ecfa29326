"""Which connections lead to which database of an organization; no server is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipemagic.session.connection import Connection
    from pipemagic.session.session import Session


def database_of(connection: Connection, organization: str, where: str) -> str | None:
    """Give the name of the database that a connection leads to, None if it is not of this organization and service."""
    if connection.platform is None or connection.where != where:
        return None
    profile = connection.profile  # None for a temporary service, which has one organization
    return connection.listed_as if profile is None or profile.organization == organization else None


def connections_of(session: Session, database: str, organization: str, where: str) -> list[Connection]:
    """Give the connections to a database of an organization, the current one first."""
    found = [one for one in list(session.connections.values()) if database_of(one, organization, where) == database]
    return sorted(found, key=lambda one: one.name != session.current)
