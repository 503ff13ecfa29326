"""Tokens in the keyring of the system, by the package ``keyring``, which is optional."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from pipemagic.client.secrets import Secret
from pipemagic.client.urls import Endpoint
from pipemagic.errors import SessionError

SERVICE = "pipemagic"
"""The service in the keyring, where no other is named."""

ELSE = "or name a variable with --token-env or a file with --token-file"


def entry_of(endpoint: Endpoint) -> str:
    """Give the name under which the keyring has the token for an address: its host, and a port that is not usual."""
    return f"{endpoint.named_host}{endpoint.port_suffix}"


def get(service: str, entry: str, *, missing_ok: bool = False) -> Secret | None:
    """Give the token of an entry; SessionError if there is none, unless ``missing_ok``, or no keyring."""
    with _plain_errors():
        found = _keyring().get_password(service, entry)
    if found:
        return Secret(found)
    if missing_ok:
        return None
    raise SessionError(
        f"the keyring holds no token for {entry}",
        hint=f"in a terminal: pipemagic auth store libsql://{entry}; here: --remember, which asks for it once",
    )


def put(service: str, entry: str, token: str) -> None:
    """Keep a token in the keyring; SessionError if that is not possible."""
    with _plain_errors():
        _keyring().set_password(service, entry, str(token))


def delete(service: str, entry: str) -> bool:
    """Take a token out of the keyring; False if there was none."""
    if get(service, entry, missing_ok=True) is None:
        return False
    with _plain_errors():
        _keyring().delete_password(service, entry)
    return True


def _keyring() -> ModuleType:
    try:
        import keyring
    except ImportError:
        raise SessionError(
            "the package keyring is not installed", hint=f'pip install "pipemagic[keyring]", {ELSE}'
        ) from None
    return keyring


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Say what the keyring cannot do in our words; its own errors may name nothing that one can do."""
    try:
        yield
    except SessionError:
        raise
    except Exception as error:
        from keyring.errors import KeyringError

        if not isinstance(error, KeyringError | OSError):
            raise
        raise _plain(error) from None


def _plain(error: Exception) -> SessionError:
    from keyring.errors import KeyringLocked, NoKeyringError

    if isinstance(error, NoKeyringError):
        return SessionError("this machine has no keyring", hint=f"set one up for the package keyring, {ELSE}")
    if isinstance(error, KeyringLocked):
        return SessionError("the keyring is locked", hint=f"unlock it, {ELSE}")
    return SessionError(f"the keyring failed: {type(error).__name__}", hint=ELSE.removeprefix("or "))
