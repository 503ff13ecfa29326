"""Which organization databases are looked for and made in, and the embedded services that this session holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pipemagic.errors import SessionError
from pipemagic.management_api.client import Management
from pipemagic.session import secrets
from pipemagic.session.platform import Platform

if TYPE_CHECKING:
    from pipemagic.session.embedded import Embedded

SHUT_DOWN = "the session was shut down"
BEGIN_ANEW = "%load_ext pipemagic begins another, whose panels are opened anew"


def hosted(
    environment: secrets.Environment, at: str | None, slug: str | None, *, token_env: str | None = None
) -> Management:
    """Give the management API at an address, or at that of PIPEMAGIC_API_URL.

    Its token is in the variable ``token_env``, else in the usual ones; SessionError if there is none.
    """
    at = at or environment.get(secrets.API_URL)
    if at is None:
        raise SessionError("for which service is the token?", hint="name it with --at URL")
    token = environment.token(token_env, secrets.PLATFORM_TOKENS)
    if not token:
        hint = "put it into PIPEMAGIC_API_TOKEN, or into a variable named with --token-env"
        raise SessionError(f"there is no platform token for {at}", hint=hint)
    return Management(at, token, organization=slug)


class Services:
    """The current organization, and the leases on embedded services: at most a shared one and a temporary one.

    ``meanwhile`` is called while one of them starts, ``changed`` when another organization is the current one or
    something in it is another, ``gone`` with the names of databases that were deleted in it. For several threads: while
    one starts a service, others wait for it. Once closed they stay so: nobody would give back what is leased then.
    """

    def __init__(
        self,
        environment: secrets.Environment,
        meanwhile: Callable[[], None] = lambda: None,
        changed: Callable[[], None] = lambda: None,
        gone: Callable[[Platform, Sequence[str]], None] = lambda _platform, _names: None,
    ) -> None:
        self._environment = environment
        self._meanwhile = meanwhile
        self._changed = changed
        self._gone = gone
        self._lock = threading.RLock()
        self._current: Platform | None = None
        self._left: list[Platform] = []
        self._shared: Embedded | None = None
        self._temporary: Embedded | None = None
        self._closed = False

    @property
    def current(self) -> Platform:
        """The organization that was chosen; else that of PIPEMAGIC_API_URL, else that of the embedded service."""
        with self._lock:
            if self._current is None:
                self._check_not_closed()
                at = self._environment.get(secrets.API_URL)
                return self._take(self._remote(at, None, None) if at else self.embedded(temporary=False).platform)
            return self._current

    @property
    def chosen(self) -> Platform | None:
        """The organization in use, None before the first use of one."""
        return self._current

    def choose(
        self, slug: str | None, at: str | None, token_env: str | None, beside: Platform | None = None
    ) -> Platform:
        """Choose the organization, of the service of ``beside`` or of the current one; without arguments that stays."""
        if at is None and token_env is None:
            if slug is None:
                return self.current
            beside = beside or self.current
            known = next((one for one in self._known() if one.is_sibling(slug, beside)), None)
            chosen = known or beside.sibling(slug)
        else:
            known, chosen = None, self._remote(at, slug, token_env)
        try:
            chosen.check()
        except BaseException:
            if known is None:
                chosen.close()
            raise
        with self._lock:
            if self._closed:
                chosen.close()
            self._check_not_closed()
            self._leave()
            return self._take(chosen)

    def _known(self) -> list[Platform]:
        """Give the organizations that were used by now."""
        with self._lock:
            embedded = [one.platform for one in (self._shared, self._temporary) if one is not None]
            return [*([] if self._current is None else [self._current]), *self._left, *embedded]

    def embedded(self, *, temporary: bool) -> Embedded:
        """Give the embedded service, starting it if need be."""
        from pipemagic.session.embedded import Embedded  # a session with addresses only never needs it

        with self._lock:
            self._check_not_closed()
            held = self._temporary if temporary else self._shared
            if held is None:
                held = Embedded(temporary=temporary, meanwhile=self._meanwhile)
                if temporary:
                    self._temporary = held
                else:
                    self._shared = held
            return held

    def prepare(self, *, temporary: bool) -> str:
        """Make the embedded service's organization the current one; gives the name of a database in it."""
        with self._lock:
            embedded = self.embedded(temporary=temporary)
            if self._current is not embedded.platform:
                self._leave()
                self._take(embedded.platform)
        return embedded.prepare()

    def to_stop(self) -> Embedded | None:
        """Give the service of this session that `stop` would end: a temporary one goes first."""
        return self._temporary or self._shared

    def stop(self) -> bool:
        """Stop an embedded service; False if none was running."""
        with self._lock:
            embedded = self.to_stop()
            if embedded is not None and embedded is self._temporary:
                self._temporary = None
                if self._current is embedded.platform:
                    self._current = None
        if embedded is None:
            from pipemagic import launcher

            return launcher.stop()
        return embedded.stop()

    def close(self) -> None:
        """Give the leases back; who still asks for a service gets SessionError."""
        with self._lock:
            self._closed = True
            self._leave()
            for one in self._left:
                one.close()
            self._left = []
            held = [one for one in (self._shared, self._temporary) if one is not None]
            self._shared = self._temporary = None
        for embedded in held:
            embedded.close()

    def _check_not_closed(self) -> None:
        if self._closed:
            raise SessionError(SHUT_DOWN, hint=BEGIN_ANEW)

    def _take(self, platform: Platform) -> Platform:
        for one in self._left:
            if one is not platform and one.is_same(platform):  # it had another token
                one.close()
        self._left = [one for one in self._left if not one.is_same(platform)]
        self._current = platform
        platform.on_change = self._changed
        platform.on_gone = partial(self._gone, platform)
        self._changed()
        return platform

    def _leave(self) -> None:
        """Turn from the current organization; its connections, and what panels began there, may need it still."""
        embedded = [one.platform for one in (self._shared, self._temporary) if one is not None]
        if self._current is not None and self._current not in embedded:
            self._left.append(self._current)
        self._current = None

    def _remote(self, at: str | None, slug: str | None, token_env: str | None) -> Platform:
        api = hosted(self._environment, at, slug, token_env=token_env)
        variable = self._environment.token_variable(token_env, secrets.PLATFORM_TOKENS)
        where = f"{api.endpoint.named_host}{api.endpoint.port_suffix}"  # two services may be on one machine
        return Platform(api, where, token_variable=variable)
