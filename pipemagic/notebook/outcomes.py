"""Actions on connections and organizations that commands and panels share, and their messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from time import perf_counter
from typing import TYPE_CHECKING

from pipemagic.errors import AnswerTimeout, ConnectError, PipemagicError, TransactionLost
from pipemagic.hrana.stream import Tx
from pipemagic.text import format_duration, list_names, plural

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.client.transaction import TransactionContent
    from pipemagic.management_api.models import DatabaseInfo, Group
    from pipemagic.session import Connection, Session
    from pipemagic.session.organization import Organization

MOST_STATEMENTS = 20
"""Maximum number of statements that a message lists; the rest are counted."""


# -- connections


def use(session: Session, name: str) -> str:
    """Make another connection the current one."""
    return f"Using {session.use(name).name}."


def close(session: Session, name: str | None = None, *, in_panel: bool = False) -> str:
    """Close a connection, by default the current one; an open transaction is rolled back.

    In cells the session reports the rollback; with ``in_panel`` the message includes it.
    """
    was_open = in_panel and session.connection(name).transaction is Tx.OPEN
    closed = f"Closed {session.close(name)}."
    return f"{closed} Its open transaction was rolled back." if was_open else closed


def stop(session: Session, databases: Sequence[str] | None) -> str:
    """Stop the temporary service and delete its ``databases``; if they are None, stop the embedded service."""
    before = session.connections
    stopped = session.stop()
    if databases is None:
        return "Stopped the embedded service." if stopped else "The embedded service is not running."
    noun = "databases" if databases[1:] else "database"
    deleted = f" and deleted its {noun} {list_names(databases)}" if databases else ""
    return "\n".join([f"Stopped the temporary service{deleted}.", *_closed(session, before)])


def keep_alive(connection: Connection, seconds: float | None) -> str:
    """Keep a connection alive for some seconds after each cell; None switches this off."""
    connection.keep_alive(seconds)
    if seconds is None:
        return f"{connection.name} is no longer kept alive between cells."
    return f"{connection.name} is kept alive for {format_duration(seconds)} after each cell."


def describe_server(database: Database) -> tuple[str, float]:
    """Return the version and the health of a server as text, and the seconds of a round trip.

    Raise ConnectError or AnswerTimeout if the server does not respond.
    """
    try:
        version = database.version()
    except (ConnectError, AnswerTimeout):
        raise
    except PipemagicError:
        version = "unknown version"
    started = perf_counter()
    health = "healthy" if database.health() else "unhealthy"
    return f"{version}, {health}", perf_counter() - started


def commit(connection: Connection) -> str:
    """Commit the open transaction."""
    return _describe_end("Committed", connection.commit())


def rollback(connection: Connection) -> str:
    """Roll back the open transaction, or discard a lost one."""
    if connection.transaction is Tx.LOST:
        connection.rollback()
        return "Discarded the lost transaction."
    try:
        content = connection.rollback()
    except TransactionLost:
        match connection.transaction:
            case Tx.OPEN:
                raise
            case Tx.LOST:  # it ended with its service
                connection.rollback()
        content = None
    if content is None:
        return "The server had already rolled back the transaction."
    return _describe_end("Rolled back", content)


def _describe_end(ended: str, content: TransactionContent) -> str:
    """Return a sentence on the statements of a transaction that has ``ended``."""
    statements = plural(content.count, "statement")
    if content.incomplete or (content.failed and not content.changes):
        return f"{ended} the transaction."
    if content.changes:
        return f"{ended} {statements}."
    if content.count:
        return f"Ended the transaction. Its {statements.removeprefix('1 ')} only read data."
    is_empty = len(content.statements) <= content.begun  # ROLLBACK TO may have undone statements behind a savepoint
    return f"Ended the transaction. It {'contained no statements' if is_empty else 'changed nothing'}."


def retry(connection: Connection) -> str:
    """Rerun a lost transaction, all or nothing; statements of the cell that detected the loss are not run."""
    from pipemagic.session.transactions import listing

    left = () if connection.loss is None else connection.loss.not_run
    result = connection.retry()
    affected = sum(outcome.affected_row_count for outcome in result.outcomes)
    lines = [*result.notes, f"Committed; {plural(affected, 'row')} affected."]
    if left:
        lines += ["Not included, and not run yet:", listing(left, most=MOST_STATEMENTS)]
    return "\n".join(lines)


# -- the organization


def describe_organization(organization: Organization) -> str:
    """Describe the current organization."""
    return f"Using organization {organization.slug} ({organization.where})."


def set_overages(organization: Organization, *, on: bool) -> str:
    """Switch overages on or off."""
    return f"Overages are {'on' if organization.set_overages(on=on) else 'off'} for organization {organization.slug}."


def describe_group(group: Group) -> str:
    """Describe where a group is, after it was created or a location was added."""
    return f"Group {group.name} is in {', '.join(group.locations)}."


def remove_location(organization: Organization, group: str, code: str) -> str:
    """Remove a location from a group."""
    left = organization.remove_location(group, code)
    rest = f"; it is in {', '.join(left.locations)}" if left.locations else ""
    return f"Group {left.name} is no longer in {code}{rest}."


def pause_location(organization: Organization, group: str, code: str, *, replication_only: bool) -> str:
    """Pause a group at a location, or only the replication to it."""
    organization.pause_location(group, code, replication_only=replication_only)
    if replication_only:
        return f"Group {group} answers reads in {code}, but its replicas there receive no changes until it is resumed."
    return f"Paused group {group} in {code}."


def resume_location(organization: Organization, group: str, code: str) -> str:
    """Resume a group at a location."""
    organization.resume_location(group, code)
    return f"Resumed group {group} in {code}."


def describe_database(database: DatabaseInfo, moment: datetime | None = None) -> str:
    """Describe where a new database is, and what a branch contains, for which the state at a ``moment`` was wanted.

    Its group is '' if it existed and the service does not report the group.
    """
    if not database.group:
        return f"Database {database.name} already exists."
    from pipemagic.management_api.branches import describe_branch

    branch = describe_branch(database, moment)
    return "\n".join(filter(None, [f"Database {database.name} is in group {database.group}.", branch]))


def delete_group(session: Session, organization: Organization, name: str) -> str:
    """Delete a group with its databases, and close the connections to them."""
    before = session.connections
    deleted = organization.delete_group(name)
    databases = f" and its databases: {list_names(deleted)}" if deleted else ""
    return "\n".join([f"Deleted group {name}{databases}.", *_closed(session, before)])


def delete_database(session: Session, organization: Organization, name: str) -> str:
    """Delete a database, and close the connections to it."""
    before = session.connections
    organization.delete_database(name)
    return "\n".join([f"Deleted database {name}.", *_closed(session, before)])


def suspend_database(organization: Organization, name: str) -> str:
    """Suspend a database."""
    organization.suspend_database(name)
    return f"Suspended database {name}. Its statements were stopped, and new ones are refused until it is resumed."


def resume_database(organization: Organization, name: str) -> str:
    """Resume a database."""
    organization.resume_database(name)
    return f"Resumed database {name}."


def protect(organization: Organization, kind: str, name: str, *, on: bool) -> str:
    """Protect a ``database`` or ``group`` from deletion, or allow it again."""
    organization.protect(kind, name, on=on)
    return f"{kind.capitalize()} {name} {'is protected from deletion' if on else 'can be deleted again'}."


def unarchive_group(organization: Organization, name: str) -> str:
    """Unarchive a group."""
    organization.unarchive_group(name)
    return f"Group {name} is not archived; its databases are available."


def _closed(session: Session, before: Iterable[str]) -> list[str]:
    return [f"Closed {name}: its database was deleted." for name in before if name not in session.connections]
