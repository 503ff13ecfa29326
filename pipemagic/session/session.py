"""The session: named connections, the current one, and the current organization."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from pipemagic.client.address import is_address, parse_address, refuse_user
from pipemagic.client.pasted import strip_quotes
from pipemagic.config import config_folder
from pipemagic.errors import PipemagicError, SessionError
from pipemagic.explore import schema_reader
from pipemagic.hrana.stream import Tx
from pipemagic.session import foreign_addresses, tokens
from pipemagic.session.cell import DEFAULTS, Cell, RunOptions, parse_cell
from pipemagic.session.codes import KeptTokens
from pipemagic.session.connect import ConnectionFactory
from pipemagic.session.connection import Connection
from pipemagic.session.organization import Organization
from pipemagic.session.profiles import FILE, Profile, Profiles
from pipemagic.session.results import CellResult, check_tables
from pipemagic.session.services import FIRST_DATABASE, RESTART_HINT, SHUT_DOWN, TEMPORARY, Services, TemporaryOptions
from pipemagic.session.signals import CellEvent, Signal, Subject
from pipemagic.session.snippets import Snippets
from pipemagic.session.trace import RequestRecorder
from pipemagic.session.transactions import ROLLED_BACK
from pipemagic.suggestions import did_you_mean, nearest
from pipemagic.text import list_names, mask_passwords, word

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.client.secrets import EncryptionKey
    from pipemagic.explore.plans import DryRun, QueryPlan

_log = logging.getLogger(__name__)

CONNECT_TEMPORARY = "%pipedb connect --temporary"
NOT_CONNECTED = "%pipedb connect starts a database on this machine, %pipedb connect ADDRESS connects to another"


class Session:
    """The connections of one notebook or script.

    ``ask_token`` asks the user for a token, given its purpose. ``notify`` is called with lines about side effects, such
    as a transaction that is rolled back because its connection is replaced. ``profiles`` are the connections in files,
    by default those of the user and of the project. ``default`` returns the target to connect to if none is named, ''
    for none; ``default_of_project`` returns True if it is from a project's file, which is used only if trusted. While
    ``reads_ahead`` returns True, the schemas of new connections and the names in the organization are read in the
    background, for completion. ``while_starting`` is called while an embedded service starts, for work that would take
    time later. ``variables`` returns the Python variables of the notebook, for hints.

    These signals call the functions and methods that are connected to them, in the sending thread: ``connected`` with
    each new `Connection`, whose ``notes`` are shown below the line that reports it; ``cell_ran`` and ``cell_failed``
    with a `CellEvent` after each cell of %%sql on a connection; ``closed`` with the session at its end; ``written``
    with a connection whose rows may have changed, after statements that may have written, and at the end of a
    transaction.

    ``marker_tables`` are the names of tables that mark a database as one of a kind. The first request of a new
    connection looks for them; `Connection.marker_tables` are those that exist.

    Not thread-safe, except for the organization, `connect` and `Connection.with_database`.
    """

    def __init__(
        self,
        *,
        ask_token: Callable[[str], str] | None = None,
        notify: Callable[[str], None] | None = None,
        environ: Mapping[str, str] = os.environ,
        profiles: Profiles | None = None,
        default: Callable[[], str] = str,
        default_of_project: Callable[[], bool] = bool,
        reads_ahead: Callable[[], bool] = bool,
        while_starting: Callable[[], None] = lambda: None,
        variables: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self.connections: Mapping[str, Connection] = {}  # replaced with each change, so that any thread can read it
        self.current: str | None = None
        self.wire = RequestRecorder()
        self._notify = notify or (lambda _: None)
        self.changes: Signal[Subject] = Signal(self._notify)
        self.written: Signal[Connection] = Signal(self._notify)
        self.connected: Signal[Connection] = Signal(self._notify)
        self.cell_ran: Signal[CellEvent] = Signal(self._notify)
        self.cell_failed: Signal[CellEvent] = Signal(self._notify)
        self.closed: Signal[Session] = Signal(self._notify)
        self.snippets = Snippets()
        self._environment = tokens.Environment(environ, variables)
        self.marker_tables: set[str] = set()
        codes = KeptTokens(config_folder(environ))
        self._factory = ConnectionFactory(self._environment, self.wire, ask_token, self.marker_tables, codes)
        self.profiles = profiles or Profiles(config_folder(environ) / FILE)
        self._default, self._default_of_project = default, default_of_project
        self._lock = threading.RLock()  # of the connections and the current one; never held for long
        self._services = Services(self._environment, while_starting, self._organization_changed)
        self._reads_ahead = reads_ahead
        self._is_shut_down = False

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shut_down()

    # -- cells

    def run(self, sql: str, params: Mapping[str, object] | None = None, *, on: str | None = None) -> DataFrame | None:
        """Run SQL on the current connection, or on another; return the last result with columns.

        ``params`` holds the values of ``:name`` parameters. Raise StatementError for a statement that fails (those
        after it do not run), TransactionLost, ParameterError, and SessionError without a connection.
        """
        return self.run_cell(sql, params, on=on).frame

    def read(
        self, sql: str, params: Mapping[str, object] | None = None, *, source: str = "", using: Sequence[str] = ()
    ) -> Cell:
        """Parse SQL for `run_cell`: split it, and add its values and the saved SELECTs named in ``using``.

        ``source`` names the text in messages. Raises SessionError and ParameterError; nothing is sent.
        """
        return parse_cell(sql, params, source=source, using=using, snippets=self.snippets)

    def run_cell(
        self,
        sql: str | Cell,
        params: Mapping[str, object] | None = None,
        *,
        on: str | None = None,
        options: RunOptions = DEFAULTS,
    ) -> CellResult:
        """Run SQL as `run` does, with ``options``; return the result of every statement.

        A Cell has its values already.
        """
        connection = self.connection(on)
        with self.wire.cell():
            try:
                cell = sql if isinstance(sql, Cell) else parse_cell(sql, params)
                if options.tables is not None:
                    check_tables(cell, options.tables)
                return connection.run(cell, options)
            finally:
                if options.close and connection.close():
                    self._notify(ROLLED_BACK)

    def cell_done(self, on: str | None, error: PipemagicError | None = None) -> None:
        """Send `cell_ran`, or `cell_failed` with the error of a cell, if its connection exists."""
        connection = self.connections.get(on or self.current or "")
        if connection is not None:
            (self.cell_ran if error is None else self.cell_failed).send(CellEvent(connection, error))

    def explain(
        self, sql: str | Cell, params: Mapping[str, object] | None = None, *, on: str | None = None
    ) -> QueryPlan:
        """Return the plan of each statement (EXPLAIN QUERY PLAN), with its values; run nothing.

        A statement without a plan has the reason. ``str()`` returns a tree; notebooks display HTML.
        """
        from pipemagic.session import explain

        return explain.explain(self.connection(on), sql if isinstance(sql, Cell) else parse_cell(sql, params))

    def describe(self, sql: str | Cell, params: Mapping[str, object] | None = None, *, on: str | None = None) -> DryRun:
        """Return the parameters, columns and effect of each statement; run nothing."""
        from pipemagic.session import explain

        return explain.describe(self.connection(on), sql if isinstance(sql, Cell) else parse_cell(sql, params))

    @contextmanager
    def transaction(self, mode: str | None = None, *, on: str | None = None) -> Iterator[Connection]:
        """Open a transaction on the stream of the cells: committed when the block ends, rolled back when it raises.

        The default ``mode`` is IMMEDIATE, on a read-only connection DEFERRED. Everything that `run`
        does inside is part of it. It must end within the server's limit, 5 s on the embedded
        service: otherwise TransactionLost is raised, with the undone statements.
        """
        connection = self.connection(on)
        connection.begin(mode or ("DEFERRED" if connection.read_only else "IMMEDIATE"))
        try:
            yield connection
        except BaseException:
            connection.abandon_transaction()
            raise
        try:
            connection.commit()
        except BaseException:
            connection.abandon_transaction()
            raise

    # -- connections

    def connection(self, name: str | None = None) -> Connection:
        """Return a connection by name, by default the current one; without one connect to the default target.

        Raise SessionError if there is none.
        """
        with self._lock:
            existing = self.connections.get(self.current or "" if name is None else name)
            names = list(self.connections)
        if existing is not None:
            return existing
        if name is None:
            if not names and self._configured():
                connection = self.connect()
                self._notify(connection.greeting)
                return connection
            hint = f"%pipedb use {names[0]}" if names else NOT_CONNECTED
            raise SessionError("no database is connected", hint=hint)
        hint = did_you_mean(name, names) or self._other_name(name) or self._how_to_connect(name)
        raise SessionError(f"connection {mask_passwords(name)!r} does not exist", hint=hint)

    def _other_name(self, database: str) -> str:
        """Return the hint with the name of the connection to a database, '' if there is none."""
        others = [connection.name for connection in self.connections.values() if connection.listed_as == database]
        return f"the connection to the database {database} is called {others[0]}" if others else ""

    def _how_to_connect(self, name: str) -> str:
        """Return the line that connects to a name, or to the closest one."""
        names = {*self._profile_names(), *self.names("database")}
        if name == TEMPORARY and name not in names:
            return CONNECT_TEMPORARY
        meant = nearest(name, names)
        if name in names or not meant:
            return f"%pipedb connect {word(mask_passwords(name))}"
        return f"did you mean {meant}?\n%pipedb connect {word(meant)}"

    def _profile_names(self) -> list[str]:
        try:
            return list(self.profiles.names())
        except PipemagicError:
            _log.debug("no profiles for a hint", exc_info=True)
            return []

    def connect(
        self,
        target: str | None = None,
        *,
        name: str | None = None,
        token: str | None = None,
        token_env: str | None = None,
        token_file: str | None = None,
        keyring: str | bool = False,
        code: str | None = None,
        remember: bool = False,
        temporary: bool = False,
        limits: str | None = None,
        here: str | None = None,
        simulate_latency: bool = False,
        timeout: float | None = None,
        read_only: bool = False,
        organization: Organization | None = None,
        encryption_key_env: str | None = None,
        encryption_key_keyring: str | bool = False,
        follow: str | None = None,
    ) -> Connection:
        """Connect to a database and make it the current one.

        ``target`` is empty: the default, or the embedded service, with a first group and database if it has none; an
        address (with ``://``, or HOST:PORT); the name of a connection; that of a profile; that of a database of the
        ``organization``, by default the current one. ``token`` is for addresses; by default it comes from a variable
        ``token_env``, a ``token_file`` that only its owner may read, the ``keyring`` (True, or a service in it), from
        PIPEMAGIC_TOKEN or TURSO_AUTH_TOKEN, or from a prompt; with ``remember`` it is then stored in the keyring. A
        one-time ``code`` is exchanged for a token, which is kept until it expires. ``temporary`` uses a service of this
        process alone, whose data is deleted at its end; without ``target`` and ``name`` the connection is called
        ``temporary``. Its ``limits`` of transactions and idle streams are exact by default; relaxed ones end these only
        if another request waits, and after an hour. ``here`` is the code of the location that this process is at, and
        ``simulate_latency`` delays responses by the distance from there. ``timeout`` is how many seconds to wait for a
        response, 60 by default. With ``read_only`` statements that may write are refused, and the token that is created
        for a database of an organization cannot write either. The key of an encrypted database is in the variable
        ``encryption_key_env``, or in the keyring with ``encryption_key_keyring`` (True, or a service in it). ``follow``
        is another host, HOST or HOST:PORT, to which the server may refer.
        """
        options = TemporaryOptions(limits, here, simulate_latency)
        options.check(temporary=temporary)
        if token is not None and code is not None:
            raise SessionError("the token has more than one source", hint="use token or code")
        source = tokens.TokenSource.of(token_env, token_file, keyring, code, remember=remember)
        key = tokens.KeySource.of(encryption_key_env, encryption_key_keyring)
        variable, of_project = "", False
        if target is None and not temporary:
            variable = "" if self._default() else tokens.DATABASE_URL
            target, of_project = self._configured(), self._default_of_project()
        if target is not None and target not in {*self.connections, *self._profile_names()}:
            target = strip_quotes(target)
        differs = name or temporary or token or source or key or follow
        if self._has(target or "", read_only=read_only) and not differs:
            connection = self.use(str(target))
            connection.existing_tables = None  # they were those of the time when it connected
            return connection
        with tokens.naming_variable(variable):
            profile = self._profile_of(target, name or "", of_project=of_project, temporary=temporary)
        self.check_trusted(profile, has_token=bool(token or source or key))
        check = partial(self.profiles.check_trusted, profile, has_token=True, sent="no token")
        if temporary and target is None:
            name = name or TEMPORARY
        profile = profile.with_options(name, source, key, timeout, read_only=read_only, follow=follow)
        if profile.address is not None:
            connection = self._factory.at_address(profile, token, remember=remember, check=check)
        elif token is not None or source:
            raise SessionError(
                "a token is for an address; for a database of an organization pipemagic creates one itself",
                hint=f"%pipedb connect ADDRESS {'--code LETTERS' if code else '--token-env VARIABLE'}",
            )
        else:
            connection = self._connect_in_organization(profile, organization, temporary=temporary, options=options)
        connection = self.adopt(connection)
        if profile.kept_for is not None:
            connection.keep_alive(profile.kept_for)
        return connection

    def encryption_key_in(self, variable: str | None, cipher: str | None) -> EncryptionKey | None:
        """Return the encryption key in an environment variable, for a new database; None if none is named."""
        return self._environment.encryption_key_in(variable, cipher)

    def _profile_of(self, target: str | None, alias: str, *, of_project: bool, temporary: bool) -> Profile:
        """Return the profile of a target; raise AddressError, with what to type, for a file and a wrong address.

        ``alias`` is the name of the connection, ``of_project`` whether a project's file has the target.
        """
        if target is None:
            return Profile("")
        check = partial(
            foreign_addresses.check, alias=alias, connected=bool(self.connections), temporary=temporary,
            organization=self.organization_in_use,
        )  # fmt: skip
        if "://" not in target:
            refuse_user(target)
            profile = None if temporary else self.profiles.get(target)
            if profile is not None and profile.address is not None:
                check(profile.address)
            if profile is not None or target in {*self.connections, *self.names("database")}:
                return profile or Profile("", database=target)
        if temporary and is_address(target):
            raise SessionError("--temporary is for the embedded service, not for an address")
        check(target)
        if not is_address(target):
            return Profile("", database=target)
        parse_address(target)  # raises its error here, where the variable with the address is known
        return Profile("", address=target, of_project=of_project)

    def _configured(self) -> str | None:
        """Return the setting of the default target, else the address in PIPEMAGIC_URL, else None."""
        return self._default() or self._environment.get(tokens.DATABASE_URL)

    def check_trusted(self, profile: Profile, *, has_token: bool = False) -> None:
        """Raise SessionError if a project's profile leads a token to an address that the user does not trust.

        ``has_token`` is True for a token, or a source of one, besides those of the profile and the default variables.
        """
        default = tokens.PLATFORM_TOKENS if profile.address is None else tokens.DATABASE_TOKENS
        has_token = has_token or any(map(self._environment.get, default))
        self.profiles.check_trusted(profile, has_token=has_token)

    def _has(self, name: str, *, read_only: bool) -> bool:
        """Return True if a connection of that name can be used; raise SessionError if it may write and must not."""
        connection = self.connections.get(name)
        if connection is None:
            return False
        if read_only and not connection.read_only and connection.organization is None:
            again = f"%pipedb connect {connection.address} --as {name} --read-only"
            raise SessionError(f"{name} is already connected, and may write", hint=again)
        return not connection.refused and (connection.read_only or not read_only)

    def _connect_in_organization(
        self, profile: Profile, organization: Organization | None, *, temporary: bool, options: TemporaryOptions
    ) -> Connection:
        """Open the database of a profile, by default in the profile's organization, otherwise in the current one."""
        existed = False
        if temporary:
            self._forget_ended()
        if temporary or profile.database is None:
            existed = self._services.prepare(temporary=temporary, options=options)
            profile = replace(profile, database=profile.database or FIRST_DATABASE)
        elif organization is None and (
            profile.at is not None or profile.organization not in (None, self.organization.slug)
        ):
            self.choose_organization(profile.organization, at=profile.at, token_env=profile.api_token_env)
        try:
            connection = self.open(profile, organization)
        except SessionError as error:
            if profile.database != TEMPORARY:
                raise
            raise error.replace(hint=CONNECT_TEMPORARY) from None
        if temporary:
            connection.profile = None  # it would stay open
        if temporary and existed and profile.database == FIRST_DATABASE:
            try:
                connection.existing_tables = schema_reader.names(connection.database)
            except BaseException:
                connection.dispose()
                raise
        return connection

    def _forget_ended(self) -> None:
        """Close the connections to a temporary service that has ended by itself, and report its databases."""
        ended = self._services.take_ended()
        if ended is None:
            return
        for connection in self.connections.values():
            if connection.where == ended.where:
                self._forget(connection)
        ended.close()
        databases = list_names(ended.organization.names("database"))
        self._notify(f"The temporary service has ended; its databases were deleted: {databases}.")

    def open(self, profile: Profile, organization: Organization | None = None) -> Connection:
        """Return a connection to the database of a profile in an organization, by default the current one.

        It is not added to the session.
        """
        similar = [*self._profile_names(), *self.connections]
        return self._factory.in_organization(organization or self.organization, profile, similar)

    def adopt(self, connection: Connection) -> Connection:
        """Add a connection under its name and make it the current one; close an earlier one of that name.

        If the server refused the earlier one's token and the database is the same, the earlier one gets the new token.
        """
        connection.written, connection.others = self.written, lambda: self.connections
        with self._lock:
            too_late = self._is_shut_down
            earlier = self.connections.get(connection.name)
            goes_on = earlier is not None and earlier.refused and _same_database(earlier, connection)
            if not goes_on and not too_late:
                self.connections = {**self.connections, connection.name: connection}
        if too_late:
            connection.dispose()
            raise SessionError(SHUT_DOWN, hint=RESTART_HINT)
        if earlier is not None and goes_on:
            earlier.renew(connection)
            return self.use(connection.name)
        if earlier is not None:
            self._replace(earlier, connection)
        if self._reads_ahead():
            connection.schema.start()
            if self._services.chosen is not None:
                self._services.chosen.cache_names()
        self.use(connection.name)
        self.connected.send(connection)
        return connection

    def use(self, name: str) -> Connection:
        """Make another connection the current one; the stream of the previous one ends unless a transaction is open."""
        with self._lock:
            connection = self.connection(name)
            last = self.connections.get(self.current or "")
            self.current = name
        if last is not None and last is not connection:
            last.close_if_idle()
        self.changes.send("connections")
        return connection

    def close(self, name: str | None = None) -> str:
        """Close and remove a connection, by default the current one; return its name."""
        connection = self.connection(name)
        self._forget(connection)
        return connection.name

    # -- the service and the organization

    @property
    def organization(self) -> Organization:
        """The current organization; defaults to the one at PIPEMAGIC_API_URL, or of the embedded service."""
        return self._services.current

    @property
    def organization_in_use(self) -> Organization | None:
        """The organization that was chosen or used so far; unlike `organization` it never waits or starts a service."""
        return self._services.chosen

    @property
    def in_organization(self) -> bool:
        """Whether an organization is in use or PIPEMAGIC_API_URL is set; otherwise `organization` starts a service."""
        return self._services.chosen is not None or bool(self._environment.get(tokens.API_URL))

    def choose_organization(
        self, slug: str | None = None, *, at: str | None = None, token_env: str | None = None,
        beside: Organization | None = None,
    ) -> Organization:  # fmt: skip
        """Choose the organization for databases; without arguments return the current one.

        ``at`` is the address of its management API; the platform token is in the variable ``token_env``, or in
        PIPEMAGIC_API_TOKEN or TURSO_API_TOKEN. Without ``at`` it belongs to the service of ``beside``, by default of
        the current organization's.
        """
        organization = self._services.choose(slug, at, token_env, beside)
        if self._reads_ahead():
            organization.cache_names()
        return organization

    def names(self, kind: str) -> list[str]:
        """Return the known names of a kind (group, database, location) in the current organization; nothing is sent."""
        organization = self._services.chosen
        return organization.names(kind) if organization is not None else []

    def connections_to(self, database: str, slug: str, where: str) -> list[Connection]:
        """Return the connections to a database of an organization, the current one first; ``where`` is its service."""
        connections = [
            connection for connection in self.connections.values() if connection.database_in(slug, where) == database
        ]
        return sorted(connections, key=lambda connection: connection.name != self.current)

    def invalidate_tokens(self, database: str, organization: Organization | None = None) -> list[str]:
        """Invalidate all tokens of a database, by default in the current organization; return lines that report it.

        Some services do that for the whole group, so the connections of this session to any database of the group get
        new tokens. Raise the errors of `Organization.invalidate_tokens`.
        """
        organization = organization or self.organization
        group = {item.name: item.group for item in organization.databases().items}
        organization.invalidate_tokens(database)
        lines = [f"All tokens of {database} are invalid."]
        for connection in self.connections.values():
            name = connection.database_in(organization.slug, organization.where)
            if name is not None and (name == database or (group.get(name) and group.get(name) == group.get(database))):
                lines.append(self._renew_token(connection, name, organization))
        return lines

    def _renew_token(self, connection: Connection, database: str, organization: Organization) -> str:
        was_open = connection.transaction is Tx.OPEN
        profile = connection.profile or Profile(connection.name, database=database)
        try:
            profile = replace(profile, name=connection.name, read_only=connection.read_only)
            connection.renew(self.open(profile, organization))
        except PipemagicError as error:
            return f"{connection.name} has no new token ({error.message}): {connection.connect_line} creates one."
        ended = " Its open transaction may be rolled back." if was_open else ""
        return f"{connection.name} continues with a new token.{ended}"

    def temporary_databases(self) -> list[str] | None:
        """Return the names of the databases that `stop` would delete; None if there is no temporary service."""
        self._forget_ended()
        service = self._services.to_stop()
        if service is None or not service.temporary:
            return None
        return [database.name for database in service.organization.databases().items]

    def stop(self) -> bool:
        """Stop the temporary service, else the embedded one, even if others use it; return False if none was running.

        The databases of a temporary service are deleted. Those of the embedded one are kept, and the next cell starts
        it again.
        """
        self._forget_ended()
        service = self._services.to_stop()
        for connection in self.connections.values():
            if service is None or connection.where != service.where:
                continue
            if service.temporary:
                self._forget(connection)
            elif connection.close(notify=False):
                self._notify(ROLLED_BACK)
        return self._services.stop()

    def shut_down(self) -> None:
        """Close streams, HTTP connections and leases permanently, even if other threads still open them."""
        with self._lock:
            self._is_shut_down = True
        for connection in self.connections.values():
            self._forget(connection)
        self._services.close()
        self.closed.send(self)

    # -- inside

    def _forget(self, connection: Connection) -> None:
        with self._lock:
            if self.connections.get(connection.name) is not connection:
                return  # another thread removed it
            self.connections = {name: other for name, other in self.connections.items() if other is not connection}
            if self.current == connection.name:
                self.current = None
        self._end(connection)
        self.changes.send("connections")

    def _organization_changed(self, organization: Organization, deleted: Sequence[str]) -> None:
        """Close the connections to deleted databases of an organization."""
        for name in deleted:
            for connection in self.connections_to(name, organization.slug, organization.where):
                self._forget(connection)
        self.changes.send("organization")

    def _replace(self, earlier: Connection, connection: Connection) -> None:
        """Close the earlier connection of a name, and report what is lost with it."""
        if _place(earlier) != _place(connection):
            self._notify(f"Closed the earlier connection {earlier.name}, to another database ({earlier.description}).")
        if tables := earlier.temporary_tables:
            self._notify(f"Temporary tables of the earlier connection are gone: {list_names(tables)}.")
        self._end(earlier)

    def _end(self, connection: Connection) -> None:
        if connection.dispose():
            self._notify(ROLLED_BACK)


def _place(connection: Connection) -> tuple[str, str, str | None]:
    """Return what identifies a database even after its service was started again, at another address."""
    organization = None if connection.profile is None else connection.profile.organization
    return connection.where, connection.listed_as or connection.address, organization


def _same_database(first: Connection, second: Connection) -> bool:
    return (first.address, first.read_only) == (second.address, second.read_only)
