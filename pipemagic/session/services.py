"""The current organization, and the embedded services that this session has leased."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.client.address import parse_api_address
from pipemagic.errors import ServiceError, SessionError
from pipemagic.management_api.models import DEFAULT_GROUP
from pipemagic.session import tokens
from pipemagic.session.organization import Organization
from pipemagic.suggestions import did_you_mean
from pipemagic.text import join_words

if TYPE_CHECKING:
    from pipemagic import launcher
    from pipemagic.client.transport import Transport
    from pipemagic.management_api.client import Management

SHUT_DOWN = "the session was shut down"
RESTART_HINT = "%load_ext pipemagic starts another; open its panels again"

FIRST_DATABASE = "main"
"""The database that `connect` without a target creates, in the group `DEFAULT_GROUP`, if there is none."""
TEMPORARY = "temporary"
"""The name of the connection to the first database of the temporary service."""
EXACT, RELAXED = "exact", "relaxed"
"""When the time limits of a temporary service end a transaction or an idle stream: always, or when another waits."""


@dataclass(frozen=True)
class TemporaryOptions:
    """Options with which a temporary service starts, those of `pipemagic serve`; None and False are not named."""

    limits: str | None = None
    here: str | None = None
    simulate_latency: bool = False

    @property
    def words(self) -> list[str]:
        """The options as the words of a line."""
        values = {"--limits": self.limits, "--here": self.here}
        words = [word for option, value in values.items() if value is not None for word in (option, value)]
        return words + ["--simulate-latency"] * self.simulate_latency

    @property
    def names(self) -> str:
        """The names of the options, for a sentence."""
        return join_words([word for word in self.words if word.startswith("--")])

    @property
    def description(self) -> str:
        """The properties of the service, as the end of its name."""
        properties = ["relaxed limits"] * (self.limits == RELAXED) + ["simulated latency"] * self.simulate_latency
        place = f" in {self.here}" if self.here else ""
        return f"{place} with {join_words(properties)}" if properties else place

    def check(self, *, temporary: bool) -> None:
        """Raise SessionError for values that do not exist, and for options without a ``temporary`` service."""
        if self.limits not in (None, EXACT, RELAXED):
            raise SessionError(f"unknown limits {self.limits!r}", hint=f"use {EXACT} or {RELAXED}")
        line = " ".join(self.words)
        if line and not temporary:
            raise SessionError(
                f"{self.names} {'are' if ' and ' in self.names else 'is'} for a temporary service, which this notebook "
                "starts",
                hint=f"%pipedb connect --temporary {line}; for a service that stays: pipemagic serve {line}",
            )
        if self.here is not None:
            from pipemagic.service.locations import LOCATIONS

            if self.here not in LOCATIONS:
                hint = did_you_mean(self.here, LOCATIONS) or "%pipedb locations lists the existing ones"
                raise SessionError(f"location {self.here!r} does not exist", hint=hint)
        elif self.simulate_latency:
            raise SessionError(
                "--simulate-latency requires --here", hint="add --here CODE, the location of this notebook"
            )

    def suits(self, running: TemporaryOptions) -> bool:
        """Return True if a service that runs with other options has those that are named here."""
        return (
            self.limits in (None, running.limits or EXACT)
            and self.here in (None, running.here)
            and self.simulate_latency <= running.simulate_latency
        )


NO_OPTIONS = TemporaryOptions()


class Embedded:
    """A lease on the shared service of a data folder, or on a temporary one of this process alone.

    ``while_starting`` is called while it starts. After a restart it is found at its new address. A temporary one starts
    with ``options``.
    """

    def __init__(
        self, folder: Path | None = None, *, temporary: bool = False, options: TemporaryOptions = NO_OPTIONS,
        while_starting: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.temporary, self.options = temporary, options
        self.where = ("temporary service" if temporary else "embedded service") + options.description
        self._while_starting = while_starting
        self._folder = folder
        self._lease: launcher.Lease | None = None
        self._finding = threading.Lock()
        self.organization = Organization(self.management(), self.where, self._find)

    def management(self) -> Management:
        """Return the management API at the current address of the service, which is started if necessary."""
        service = self._service()  # imported while the service starts
        from pipemagic import launcher
        from pipemagic.management_api.client import Management

        return Management(launcher.endpoint_of(service), service.platform_token(), organization=service.organization)

    def _find(self) -> Transport:
        return self.management().transport

    def _service(self) -> launcher.LocalService:
        from pipemagic import launcher  # not needed by a session with addresses only

        with self._finding:
            if self._lease is not None and self._lease.alive:
                return self._lease.service
            if self._lease is not None and self.temporary:
                raise ServiceError(
                    "the temporary service has ended, and its databases were deleted",
                    hint="%pipedb connect --temporary starts a new one",
                )
            if self._lease is not None:
                self._lease.close()
            if self.temporary:
                start = partial(launcher.temporary, *self.options.words)
            else:
                start = partial(launcher.ensure, self._folder)
            self._lease = start(while_starting=self._import_while_starting)
            return self._lease.service

    def _import_while_starting(self) -> None:
        """Import what the first request needs, while the service starts."""
        import pipemagic.management_api.client  # noqa: F401 - with httpx, which takes long

        self._while_starting()

    @property
    def is_running(self) -> bool:
        """Whether it was started and runs; nothing is sent."""
        return self._lease is not None and self._lease.alive

    @property
    def has_ended(self) -> bool:
        """Whether it was running and runs no more; nothing is sent."""
        return self._lease is not None and not self._lease.alive

    def prepare(self) -> bool:
        """Create the first group and the first database if they do not exist; return True if the database did."""
        organization = self.organization
        if FIRST_DATABASE in {database.name for database in organization.databases().items}:
            return True
        if DEFAULT_GROUP not in {group.name for group in organization.groups().items}:
            location = self.options.here or organization.locations()[0].code
            organization.create_group(DEFAULT_GROUP, location, if_not_exists=True)
        organization.create_database(FIRST_DATABASE, DEFAULT_GROUP, if_not_exists=True)
        return False

    def stop(self) -> bool:
        """Stop the service, even if others use it; return False if none was running."""
        from pipemagic import launcher

        if not self.temporary:
            return launcher.stop(self._folder) is not None
        running = self.is_running
        self.close()
        return running

    def close(self) -> None:
        """Return the lease."""
        self.organization.close()
        if self._lease is not None:
            self._lease.close()


class Services:
    """The current organization, and leases on at most a shared and a temporary embedded service.

    ``while_starting`` is called while one of them starts, ``changed`` after a change of the organization, or in it,
    with the names of databases that were deleted. Thread-safe: while one thread starts a
    service, others wait for it. It cannot be used after close(): later leases would never be returned.
    """

    def __init__(
        self,
        environment: tokens.Environment,
        while_starting: Callable[[], None] = lambda: None,
        changed: Callable[[Organization, Sequence[str]], None] = lambda _organization, _deleted: None,
    ) -> None:
        self.chosen: Organization | None = None
        """The organization in use, None before the first use."""
        self._environment = environment
        self._while_starting = while_starting
        self._changed = changed
        self._lock = threading.RLock()
        self._used: list[Organization] = []  # connections and running work of panels may still need the earlier ones
        self._embedded: dict[bool, Embedded] = {}  # key: whether it is temporary
        self._closed = False

    @property
    def current(self) -> Organization:
        """The chosen organization, or the one at PIPEMAGIC_API_URL, or of the embedded service."""
        with self._lock:
            if self.chosen is not None:
                return self.chosen
            self._check_not_closed()
            is_remote = self._environment.get(tokens.API_URL) is not None
            return self._take(
                self._remote(None, None, None) if is_remote else self._service(temporary=False).organization
            )

    def choose(
        self, slug: str | None, at: str | None, token_env: str | None, beside: Organization | None = None
    ) -> Organization:
        """Choose the organization; defaults to the service of ``beside``, or the current one."""
        if at is None and token_env is None:
            if slug is None:
                return self.current
            service = (beside or self.current).sibling(slug)
        else:
            service = self._remote(at, slug, token_env)
        try:
            service.check()
            with self._lock:
                self._check_not_closed()
                return self._take(service)
        except BaseException:
            if service not in self._used:
                service.close()
            raise

    def prepare(self, *, temporary: bool, options: TemporaryOptions = NO_OPTIONS) -> bool:
        """Make the embedded service's organization the current one; return True if its first database existed.

        Raise SessionError if a temporary service runs with other ``options`` than these.
        """
        with self._lock:
            if temporary:
                self._check_options(options)
            embedded = self._service(temporary=temporary, options=options)
            if self.chosen is not embedded.organization:
                self._take(embedded.organization)
        return embedded.prepare()

    def take_ended(self) -> Embedded | None:
        """Return the temporary service if it has ended by itself, and forget it; `prepare` then starts another."""
        with self._lock:
            embedded = self._embedded.get(True)
            if embedded is None or not embedded.has_ended:
                return None
            if self.chosen is embedded.organization:
                self.chosen = None
            return self._embedded.pop(True)

    def to_stop(self) -> Embedded | None:
        """Return the service of this session that `stop` would end: a temporary one first."""
        return self._embedded.get(True) or self._embedded.get(False)

    def stop(self) -> bool:
        """Stop an embedded service; return False if none was running."""
        with self._lock:
            embedded = self._embedded.pop(True, None)
            if embedded is not None and self.chosen is embedded.organization:
                self.chosen = None  # it cannot be started again
            embedded = embedded or self._embedded.get(False)
        if embedded is not None:
            return embedded.stop()
        from pipemagic import launcher

        return launcher.stop() is not None

    def close(self) -> None:
        """End the leases; later requests for a service raise SessionError."""
        with self._lock:
            self._closed, self.chosen = True, None
            closing: list[Organization | Embedded] = [*self._used, *self._embedded.values()]
            self._used, self._embedded = [], {}
        for closable in closing:
            closable.close()

    def _check_options(self, options: TemporaryOptions) -> None:
        """Raise SessionError if a temporary service runs with other options; forget one that could not start."""
        embedded = self._embedded.get(True)
        if embedded is None or options.suits(embedded.options):
            return
        if embedded.is_running:
            line = " ".join(embedded.options.words)
            raise SessionError(
                f"the temporary service of this notebook was started {f'with {line}' if line else 'without options'}",
                hint=f"omit {options.names} to use it as it is\n"
                "to change the options, run %pipedb stop --confirm, which deletes its databases, and connect again",
            )
        self._embedded.pop(True).close()

    def _service(self, *, temporary: bool, options: TemporaryOptions = NO_OPTIONS) -> Embedded:
        """Return the embedded service, starting it if necessary."""
        with self._lock:
            self._check_not_closed()
            if temporary not in self._embedded:
                self._embedded[temporary] = Embedded(
                    temporary=temporary, options=options, while_starting=self._while_starting
                )
            return self._embedded[temporary]

    def _check_not_closed(self) -> None:
        if self._closed:
            raise SessionError(SHUT_DOWN, hint=RESTART_HINT)

    def _take(self, organization: Organization) -> Organization:
        for earlier in self._used:
            if earlier is not organization and earlier.is_same(organization):  # with another token
                earlier.close()
        self._used = [*(earlier for earlier in self._used if not earlier.is_same(organization)), organization]
        self.chosen = organization
        organization.on_change = partial(self._changed, organization)
        organization.on_change(())
        return organization

    def _remote(self, at: str | None, slug: str | None, token_env: str | None) -> Organization:
        """Return an organization of the API at an address; defaults to PIPEMAGIC_API_URL.

        Its token is in the variable ``token_env``, or in the default ones. Raise SessionError if there is none.
        """
        variable = "" if at else tokens.API_URL
        at = at or self._environment.get(tokens.API_URL)
        if at is None:
            raise SessionError("a token requires the address of its service", hint="add --at URL")
        with tokens.naming_variable(variable):
            endpoint = parse_api_address(at)
        token = self._environment.token(token_env, tokens.PLATFORM_TOKENS)
        if not token:
            unset = self._environment.unset(tokens.PLATFORM_TOKENS[0])
            raise SessionError(f"there is no platform token for {endpoint.address}: {unset.message}", hint=unset.hint)
        from pipemagic.management_api.client import Management

        api = Management(endpoint, token, organization=slug)
        where = f"{api.endpoint.named_host}{api.endpoint.port_suffix}"  # there may be two services on one machine
        return Organization(
            api, where, token_variable=self._environment.token_variable(token_env, tokens.PLATFORM_TOKENS)
        )
