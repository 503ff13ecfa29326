"""The management API that a command uses, and the accounts that are logged in."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipemagic.cli.console import absolute_path, check_exclusive
from pipemagic.configuration import config_folder
from pipemagic.errors import AuthError, SessionError

if TYPE_CHECKING:
    from pipemagic.client.management import Management

LOG_IN = "log in with `pipemagic auth login`, or put a platform token into PIPEMAGIC_API_TOKEN"
LOCK_TIMEOUT = 10.0  # seconds; other processes hold the lock for milliseconds

data_option = click.option(
    "--data", type=absolute_path, metavar="DIR", help="The data folder.  [default: PIPEMAGIC_DATA]"
)
org_option = click.option("--org", metavar="SLUG", help="The organization.  [default: that of `org switch`]")


# -- which API


def api_command(
    group: click.Group, name: str | None = None, *, in_organization: bool = True, exclusive: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], click.Command]:
    """Add a command with --data to a group; its function gets the management API as its first argument.

    A command that works in an organization has --org, too. Of the ``exclusive`` options only one can be used.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(data: Path | None, org: str | None = None, **options: Any) -> Any:
            check_exclusive(exclusive, options)  # before a service is started
            with management(data, org) as api:
                return function(api, **options)

        command = group.command(name)(data_option(run))
        return org_option(command) if in_organization else command

    return decorate


@contextmanager
def management(data: Path | None, org: str | None = None, *, anonymous: bool = False) -> Iterator[Management]:
    """Connect to the management API of PIPEMAGIC_API_URL, or else (or with ``data``) of the embedded service.

    The embedded service is started if necessary. The token is that of the environment (for PIPEMAGIC_API_URL only), of
    the account that is logged in, or of the data folder; ``anonymous`` sends none. The organization is ``org``, the one
    of `org switch`, or the account's own.
    """
    from pipemagic.client.management import Management
    from pipemagic.session.secrets import API_URL, Environment
    from pipemagic.session.services import hosted

    account = current_account(data)
    org = org or account.organization or None
    with ExitStack() as stack:
        if is_local(data):
            from pipemagic import launcher

            service = stack.enter_context(launcher.ensure(data)).service
            token = account.token or service.platform_token()
            org = org or (None if account.token else service.organization)
            api = Management(service.url, "" if anonymous else token, organization=org)
        elif anonymous:
            api = Management(os.environ[API_URL], organization=org)
        else:
            api = hosted(Environment(os.environ), None, org, else_token=account.token, hint=LOG_IN)
        try:
            yield stack.enter_context(api)
        except AuthError as error:
            if error.status == 401 and not anonymous:
                error.hint = LOG_IN
            raise


def is_local(data: Path | None) -> bool:
    """Return True if a command uses the embedded service."""
    from pipemagic.session.secrets import API_URL

    return data is not None or not os.environ.get(API_URL)


def environment_token() -> str | None:
    """Return the platform token of the environment."""
    from pipemagic.session.secrets import PLATFORM_TOKENS, Environment

    return Environment(os.environ).token(None, PLATFORM_TOKENS)


def service_key(data: Path | None) -> str:
    """Return the key of the service in `Credentials`."""
    if is_local(data):
        from pipemagic import launcher

        return f"data:{data or launcher.default_folder()}"
    from pipemagic.client import urls
    from pipemagic.session.secrets import API_URL

    return urls.parse(os.environ[API_URL]).address.rstrip("/").removesuffix("/v1")


def account_key(data: Path | None) -> str:
    """Return the key of the account in `Credentials`: a token of the environment may belong to another account."""
    token = None if is_local(data) else environment_token()
    suffix = "" if token is None else f"#{sha256(token.encode()).hexdigest()[:16]}"
    return service_key(data) + suffix


def current_account(data: Path | None) -> Account:
    """Return the stored account that a command works for."""
    return Credentials().get(account_key(data))


# -- who is logged in


@dataclass(frozen=True)
class Account:
    """The stored login at one service, and the current organization; without a token nobody is logged in."""

    token: str = field(default="", repr=False)
    username: str = ""
    organization: str = ""


class Credentials:
    """The file with the logins, readable by its owner only.

    A key is the address of a management API, or ``data:`` and a folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or config_folder()) / "credentials.json"

    def get(self, key: str) -> Account:
        """Return what is stored under a key."""
        return self._read().get(key, Account())

    def put(self, key: str, **changes: str) -> None:
        """Change what is stored under a key."""
        with self._locked() as accounts:
            accounts[key] = replace(accounts.get(key, Account()), **changes)

    def forget(self, key: str) -> bool:
        """Remove what is stored under a key; return False if it had no login."""
        with self._locked() as accounts:
            return bool(accounts.pop(key, Account()).token)

    def _read(self) -> dict[str, Account]:
        try:
            parsed = json.loads(self.path.read_bytes())
            return {key: Account(**account) for key, account in parsed["services"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SessionError(
                f"{self.path} cannot be read: it was not written by pipemagic",
                hint="delete the file and log in again: pipemagic auth login",
            ) from None
        except OSError as error:
            raise SessionError(f"{self.path} cannot be read: {error.strerror}") from None

    @contextmanager
    def _locked(self) -> Iterator[dict[str, Account]]:
        """Lock the file, and write what the block changed."""
        from filelock import FileLock

        from pipemagic.service.files import make_private_folder, write_private

        make_private_folder(self.path.parent, "the folder for settings", "name another one with PIPEMAGIC_CONFIG")
        with FileLock(self.path.with_suffix(".lock"), timeout=LOCK_TIMEOUT):
            accounts = self._read()
            yield accounts
            document = {"version": 1, "services": {key: asdict(one) for key, one in sorted(accounts.items())}}
            write_private(self.path, json.dumps(document, indent=2).encode() + b"\n")
