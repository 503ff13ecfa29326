"""Opening connections: at an address with its token, or to a database of an organization. Each is checked at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pipemagic.client import urls
from pipemagic.client.database import Database
from pipemagic.client.secrets import Secret
from pipemagic.client.transport import READ_TIMEOUT
from pipemagic.errors import AuthError
from pipemagic.session import messages, tokens
from pipemagic.session.connection import Connection
from pipemagic.session.organization import Platform
from pipemagic.session.profiles import Profile
from pipemagic.session.trace import RequestRecorder


class Opener:
    """Opens connections, whose requests ``wire`` then records; a session takes them in.

    ``ask_token`` asks the user for a token, given what it is for.
    """

    def __init__(
        self, environment: tokens.Environment, wire: RequestRecorder, ask_token: Callable[[str], str] | None
    ) -> None:
        self._environment = environment
        self._wire = wire
        self._ask_token = ask_token

    def at_address(
        self, address: str, name: str | None, token: str | None, source: tokens.TokenSource, timeout: float | None,
        read_only: bool,
    ) -> Connection:  # fmt: skip
        """Open one to an address; where the server wants a token and none is known the user is asked."""
        endpoint = urls.parse(address)
        host, entry = endpoint.named_host, tokens.keyring_entry(endpoint)
        given = Secret(token) if token else self._environment.database_token(source, entry)
        database = Database(endpoint, given, timeout=timeout or READ_TIMEOUT, read_only=read_only)
        self._wire.watch(name or _name_for(host), database.transport)
        with _closing_on_error(database):
            try:
                _check(database)
            except AuthError as error:
                if given is not None and error.status == 401 and not token:
                    raise error.replace(hint=messages.new_token(source, endpoint.address)) from None
                if given is not None or error.status != 401 or self._ask_token is None:
                    raise
                asked = Secret(self._ask_token(host))
                database.renew_token(asked)
                _check(database)
                if source.remember:
                    tokens.keyring_put(source.keyring or tokens.KEYRING_SERVICE, entry, asked)
        profile = Profile(
            name or _name_for(host), address=endpoint.address, token_env=source.env, token_file=source.absolute_file,
            keyring=source.keyring == tokens.KEYRING_SERVICE or source.keyring, timeout=timeout,
            read_only=read_only or None,
        )  # fmt: skip
        return Connection(profile.name, database, host, profile=profile)

    def in_organization(
        self, platform: Platform, database: str, name: str | None, timeout: float | None, read_only: bool
    ) -> Connection:
        """Open one to a database of an organization, which gives the token."""
        profile = Profile(database, database=database, timeout=timeout, read_only=read_only or None)
        timeout = timeout or READ_TIMEOUT
        again = (lambda: platform.open(database, timeout, read_only=read_only)) if platform.moves else None
        found = platform.open(database, timeout, read_only=read_only)
        self._wire.watch(name or database, found.transport)
        with _closing_on_error(found):
            _check(found)
        profile = replace(profile, organization=platform.organization, at=platform.address)
        return Connection(name or database, found, platform.where, platform, again, profile=profile, listed_as=database)


def _check(database: Database) -> None:
    """Find out at once whether address and token are right, and what the server can do."""
    _ = database.dialect
    database.execute("SELECT 1")


@contextmanager
def _closing_on_error(database: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        database.close()
        raise


def _name_for(host: str) -> str:
    """Give the name of a connection to a host: its first label, or the whole of a number."""
    first = host.split(".")[0]
    return host if first.isdigit() or ":" in host else first
