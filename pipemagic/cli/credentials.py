"""Who is logged in where, and which organization is the current one: one file that only its owner may read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from pipemagic.configuration import config_folder
from pipemagic.errors import SessionError
from pipemagic.service.files import make_private_folder, write_private

FILE = "credentials.json"
LOCK_TIMEOUT = 10.0  # seconds; others hold the lock for milliseconds


@dataclass(frozen=True)
class Account:
    """What is remembered for one service; a token of '' means that nobody is logged in there."""

    token: str = ""
    username: str = ""
    organization: str = ""

    def __repr__(self) -> str:
        return f"Account({self.username!r}, organization={self.organization!r})"


class Credentials:
    """The file. Services are told apart by a key: the address of a management API, or ``data:`` and a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or config_folder()) / FILE

    def get(self, service: str) -> Account:
        """Give what is remembered for a service."""
        return self._read().get(service, Account())

    def put(self, service: str, **changes: str) -> Account:
        """Change what is remembered for a service; gives it as it is then."""
        with self._locked():
            known = self._read()
            known[service] = replace(known.get(service, Account()), **changes)
            self._write(known)
            return known[service]

    def forget(self, service: str) -> bool:
        """Forget a service; False if nobody was logged in there."""
        with self._locked():
            known = self._read()
            account = known.pop(service, Account())
            self._write(known)
            return bool(account.token)

    def _read(self) -> dict[str, Account]:
        try:
            parsed = json.loads(self.path.read_bytes())
            return {key: _account(one) for key, one in parsed["services"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SessionError(
                f"{self.path} cannot be read: it is not what pipemagic wrote",
                hint="delete the file and log in again: pipemagic auth login",
            ) from None
        except OSError as error:
            raise SessionError(f"{self.path} cannot be read: {error.strerror}") from None

    def _write(self, known: dict[str, Account]) -> None:
        document = {"version": 1, "services": {key: asdict(one) for key, one in sorted(known.items())}}
        write_private(self.path, json.dumps(document, indent=2).encode() + b"\n")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock

        make_private_folder(self.path.parent, "the folder for settings", "name another one with PIPEMAGIC_CONFIG")
        with FileLock(self.path.with_suffix(".lock"), timeout=LOCK_TIMEOUT):
            yield


def _account(parsed: dict[str, str]) -> Account:
    return Account(**{one.name: str(parsed.get(one.name, "")) for one in fields(Account)})
