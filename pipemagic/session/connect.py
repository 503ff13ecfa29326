"""Open and check connections: to an address with its token, or to a database of an organization."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pipemagic.client.address import parse_address
from pipemagic.client.database import Database
from pipemagic.client.pasted import token_in
from pipemagic.client.secrets import Secret
from pipemagic.codes import is_code
from pipemagic.errors import AuthError
from pipemagic.http import READ_TIMEOUT
from pipemagic.session import tokens
from pipemagic.session.codes import KeptTokens
from pipemagic.session.connection import Connection
from pipemagic.session.organization import Organization
from pipemagic.session.profiles import Profile
from pipemagic.session.trace import RequestRecorder


class ConnectionFactory:
    """Opens connections by profiles; their requests are recorded by ``recorder``.

    ``ask_token`` asks the user for a token, or a one-time code, given what it is for. New connections look for the
    ``marker_tables``. ``codes`` exchanges one-time codes.
    """

    def __init__(
        self,
        environment: tokens.Environment,
        recorder: RequestRecorder,
        ask_token: Callable[[str], str] | None,
        marker_tables: Collection[str],
        codes: KeptTokens,
    ) -> None:
        self._environment = environment
        self._recorder = recorder
        self._ask_token = ask_token
        self._marker_tables = marker_tables
        self._codes = codes

    def at_address(
        self, profile: Profile, token: str | None, *, remember: bool, check: Callable[[], None]
    ) -> Connection:  # fmt: skip
        """Connect to the address of a profile; ask the user for a token if the server requires one and there is none.

        ``check`` raises an error if the user must not be asked. With ``remember`` the keyring stores the token that the
        user entered.
        """
        endpoint = parse_address(str(profile.address))
        where = endpoint.named_host if "://" in str(profile.address) else endpoint.address  # HOST:PORT: with the scheme
        host, entry = endpoint.named_host, tokens.keyring_entry(endpoint)
        source = replace(profile.token_source, remember=remember)
        access = self._codes.exchange(endpoint, source.code) if source.code else None
        secret = access.token if access else Secret(token) if token else None
        secret = secret or self._environment.database_token(source, entry)
        timeout = profile.timeout or READ_TIMEOUT
        key = self._environment.encryption_key(profile.key_source, endpoint)
        database = Database(
            access.endpoint if access else endpoint, secret, timeout=timeout, read_only=bool(profile.read_only),
            encryption_key=key, follow=profile.follow,
        )  # fmt: skip
        name = profile.name or (access.database if access else _name_for(host))
        self._recorder.watch(name, database.transport)
        with _closing_on_error(database):
            try:
                markers = self._check(database)
            except AuthError as error:
                if access is None and secret is not None and error.status == 401 and not token:
                    expired = f"{error.hint}\n" if "expired" in error.message else ""
                    renewal = tokens.token_renewal(source, endpoint.address)[0]
                    raise error.replace(hint=expired + renewal) from None
                if error.status != 401:
                    raise
                if source.code:  # the token was invalidated since it is kept
                    answer = self._codes.exchange(endpoint, source.code, again=True).token
                elif secret is not None or self._ask_token is None:
                    raise
                else:
                    check()
                    text = self._ask_token(host)
                    is_token = not is_code(text)
                    answer = Secret(token_in(text)) if is_token else self._codes.exchange(endpoint, text).token
                database.renew_token(answer)
                markers = self._check(database)
                if remember:
                    tokens.keyring_put(source.keyring or tokens.KEYRING_SERVICE, entry, answer)
        profile = replace(profile.portable, name=name, address=endpoint.address, token_file=source.absolute_file)
        return Connection(name, database, where, profile=profile, marker_tables=markers)

    def in_organization(self, organization: Organization, profile: Profile, similar: Sequence[str] = ()) -> Connection:
        """Connect to the database of a profile in an organization, with a token that is created for it.

        ``similar`` are names that the user may have meant if there is no such database.
        """
        database, name = str(profile.database), profile.name or str(profile.database)
        open_database = partial(
            organization.open,
            database,
            profile.timeout or READ_TIMEOUT,
            read_only=bool(profile.read_only),
            similar=similar,
            key_of=partial(self._environment.encryption_key, profile.key_source),
            follow=profile.follow,
        )
        client = open_database()
        self._recorder.watch(name, client.transport)
        with _closing_on_error(client):
            markers = self._check(client)
        profile = replace(profile.portable, organization=organization.slug, at=organization.address)
        again = open_database if organization.moves else None
        return Connection(
            name, client, organization.where, organization, again, profile=profile, listed_as=database,
            marker_tables=markers,
        )  # fmt: skip

    def _check(self, database: Database) -> frozenset[str]:
        """Check address and token, and detect the features of the server; return the marker tables that exist."""
        _ = database.dialect
        names = tuple(self._marker_tables)
        check = f"SELECT name FROM sqlite_master WHERE name IN ({', '.join('?' * len(names))})"
        return frozenset(str(name) for (name,) in database.execute(check, names).rows)


@contextmanager
def _closing_on_error(database: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


def _name_for(host: str) -> str:
    """Return the name of a connection to a host: its first label, or the whole of a number."""
    first = host.split(".")[0]
    return host if first.isdigit() or ":" in host else first
