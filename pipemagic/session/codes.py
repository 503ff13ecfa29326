"""One-time codes: they are exchanged for tokens, which are kept in private files of the user until they expire."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipemagic.client.address import Endpoint
from pipemagic.client.secrets import Secret
from pipemagic.codes import normalize
from pipemagic.config import make_config_folder, private_lock, write_private
from pipemagic.errors import AuthError, InterruptedRequest, SessionError, UnknownOutcome, UnsupportedError
from pipemagic.management_api.client import Management

LOCK_TIMEOUT = 90.0
"""Seconds to wait for another notebook that exchanges a code."""

DAY = 86400.0
UNANSWERED = 30 * DAY
"""Seconds after which the key of an exchange without a response is deleted."""


class Access(NamedTuple):
    """What a code opens: an endpoint, the token for it, and the name of the database."""

    endpoint: Endpoint
    token: Secret
    database: str


class _Entry(msgspec.Struct):
    """The content of a file: ``key`` was sent with the code; the rest is '' or 0 until there is a response.

    ``expires`` is in Unix seconds.
    """

    key: str
    token: str = ""
    database: str = ""
    url: str = ""
    expires: float = 0

    def is_valid(self) -> bool:
        """Return True if there is a token, and it has not expired by the clock of this computer."""
        return bool(self.token) and self.expires > time.time()


class KeptTokens:
    """The tokens of codes, in the folder ``codes`` of the user's settings.

    A code is valid once, but the same cell must run again after a restart of the kernel. The name of a file is a hash
    of the address and the code, and its content is not the code.
    """

    def __init__(self, settings: Path) -> None:
        self._settings, self._folder = settings, settings / "codes"

    def exchange(self, endpoint: Endpoint, code: str, *, again: bool = False) -> Access:
        """Return the token of a code: the one that is kept, or, for one that was invalidated, ``again`` a new one.

        Raise AuthError, with the code of the error, for a code that is wrong, has expired, or was used elsewhere.
        """
        with self._locked():
            path = self._folder / f"{sha256(f'{endpoint.address} {normalize(code)}'.encode()).hexdigest()[:32]}.json"
            self._clean_up(path)
            entry = _read(path)
            if entry is None:
                entry = _Entry(secrets.token_urlsafe(32))
                _write(path, entry)  # before it is sent: the response may be lost
            if again or not entry.is_valid():
                entry = self._send(endpoint, code, entry.key, path)
                _write(path, entry)
        other = endpoint.refer(entry.url) if entry.url else endpoint
        return Access(other, Secret(entry.token), entry.database)

    def _send(self, endpoint: Endpoint, code: str, key: str, path: Path) -> _Entry:
        with Management(endpoint) as api:
            try:
                try:
                    access = api.exchange_code(code, key)
                except UnknownOutcome as error:
                    if isinstance(error, InterruptedRequest):
                        raise
                    access = api.exchange_code(code, key)
            except UnknownOutcome as error:
                raise error.replace(hint="connect again: the code is still valid here") from None
            except UnsupportedError:
                raise UnsupportedError(
                    f"the server at {endpoint.address} exchanges no codes",
                    hint="check the address: it must be that of the service, without the name of a database",
                ) from None
            except AuthError:
                path.unlink(missing_ok=True)
                raise
        return _Entry(key, str(access.token), access.database, access.url, access.expires)

    def _clean_up(self, needed: Path) -> None:
        """Delete files that are of no use: a day after the token has expired, since clocks of computers differ."""
        now = time.time()
        for path in set(self._folder.glob("*.json")) - {needed}:
            entry = _read(path)
            with suppress(OSError):  # it may belong to the administrator
                if entry is None or (entry.expires or path.stat().st_mtime + UNANSWERED) < now - DAY:
                    path.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Prevent another notebook from exchanging a code at the same time, with another key."""
        make_config_folder(self._settings)
        make_config_folder(self._folder)
        try:
            lock = private_lock(self._folder / "codes.lock").acquire(LOCK_TIMEOUT)
        except TimeoutError:
            raise SessionError("another notebook is exchanging a code", hint="try again when it has finished") from None
        with lock:
            yield


def _read(path: Path) -> _Entry | None:
    """Return the content of a file; None if it cannot be read, or another version of pipemagic has written it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Entry)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _write(path: Path, entry: _Entry) -> None:
    write_private(path, msgspec.json.encode(entry) + b"\n")
