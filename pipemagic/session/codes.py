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

UNANSWERED = 30 * 86400.0
"""Seconds after which the key of an exchange without a response is deleted."""


class Access(NamedTuple):
    """What a code opens: an endpoint, the token for it, and the name of the database."""

    endpoint: Endpoint
    token: Secret
    database: str


class _Kept(msgspec.Struct):
    """The content of a file: ``key`` was sent with the code; the rest is '' or 0 until there is a response.

    ``expires`` is in Unix seconds.
    """

    key: str
    token: str = ""
    database: str = ""
    url: str = ""
    expires: float = 0


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
            kept = self._clean_up(path)
            if kept is None:
                kept = _Kept(secrets.token_urlsafe(32))
                _write(path, kept)  # before it is sent: the response may be lost
            if again or not kept.token:
                kept = self._send(endpoint, code, kept.key, path)
                _write(path, kept)
        other = endpoint.refer(kept.url) if kept.url else endpoint
        return Access(other, Secret(kept.token), kept.database)

    def _send(self, endpoint: Endpoint, code: str, key: str, path: Path) -> _Kept:
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
        return _Kept(key, str(access.token), access.database, access.url, access.expires)

    def _clean_up(self, wanted: Path) -> _Kept | None:
        """Delete the files with expired tokens; return the content of one file, None if there is none."""
        now, found = time.time(), None
        for path in self._folder.glob("*.json"):
            with suppress(FileNotFoundError):
                try:
                    kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    kept = _Kept("", "-")  # of another version
                if kept.expires <= now if kept.token else path.stat().st_mtime < now - UNANSWERED:
                    path.unlink()
                elif path == wanted:
                    found = kept
        return found

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


def _write(path: Path, kept: _Kept) -> None:
    write_private(path, msgspec.json.encode(kept) + b"\n")
