"""The management API that a command uses, and the accounts that are logged in."""

from __future__ import annotations

import functools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from pipemagic import launcher
from pipemagic.cli.console import absolute_path, check_exclusive, print_note
from pipemagic.client.address import Endpoint, parse_address, parse_api_address
from pipemagic.config import config_folder, make_config_folder, private_lock, write_private
from pipemagic.errors import SessionError
from pipemagic.management_api.client import Management, Refusal, hint_for

LOG_IN = "log in with `pipemagic auth login`, or set PIPEMAGIC_API_TOKEN to a platform token"
LOCK_TIMEOUT = 10.0  # seconds; other processes hold the lock for milliseconds


class _DataOption(click.Option):
    """The option --data. Its help has the default folder, which differs between platforms."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help."""
        folder = launcher.platform_folder()
        with suppress(RuntimeError, ValueError):  # no home folder, or another folder
            folder = Path("~") / folder.relative_to(Path.home())
        record = super().get_help_record(ctx)
        return record and (record[0], f"{record[1]}  [default: {launcher.FOLDER_VARIABLE}, or {folder}]")


data_option = click.option("--data", cls=_DataOption, type=absolute_path, metavar="DIR", help="The data folder.")
name_argument = click.argument("name")
org_option = click.option("--org", metavar="SLUG", help="The organization.  [default: set with `org switch`]")


# -- which API


def api_command(
    group: click.Group, name: str, *parameters: Callable[..., Any], in_organization: bool = True,
    exclusive: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], click.Command]:  # fmt: skip
    """Add a command with the parameters and --data to a group; its function gets the management API first.

    A command that works in an organization has --org, too. Of the ``exclusive`` options only one can be used.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def run(data: Path | None, org: str | None = None, **options: Any) -> None:
            check_exclusive(exclusive, options)  # before a service is started
            with management(data, org) as api:
                function(api, **options)

        for parameter in reversed(parameters):
            run = parameter(run)
        command = data_option(group.command(name)(run))
        return org_option(command) if in_organization else command

    return decorate


@contextmanager
def management(data: Path | None, org: str | None = None, *, anonymous: bool = False) -> Iterator[Management]:
    """Connect to the management API of PIPEMAGIC_API_URL, or else (or with ``data``) of the embedded service.

    ``anonymous`` sends no token. The organization is ``org``, the one of `org switch`, or the account's own.
    """
    with api_login(data) as (endpoint, token, organization):
        if not token and not anonymous:
            raise SessionError(f"there is no platform token for {endpoint.address}", hint=LOG_IN)
        organization = org or organization
        if anonymous:
            api = Management(endpoint, organization=organization)
        else:
            api = Management(endpoint, token, organization=organization, hint_for=_hint_for)
        with api:
            yield api


def _hint_for(refusal: Refusal) -> str:
    return LOG_IN if refusal.status == 401 else hint_for(refusal, command_line)


def command_line(action: str, kind: str, name: str) -> str:
    """Return the command for an action on a database or group."""
    return f"`pipemagic {'db' if kind == 'database' else kind} {action} {shlex.quote(name)}`"


@contextmanager
def api_login(data: Path | None) -> Iterator[tuple[Endpoint, str, str]]:
    """Yield the endpoint of a management API, the platform token, and the organization; '' if one is unknown.

    The token is that of the environment (for PIPEMAGIC_API_URL only), of the account that is logged in, or of the data
    folder. The embedded service is started if necessary.
    """
    selected = SelectedService(data)
    account = CredentialsFile().get(selected.account_key)
    if selected.address:
        yield parse_address(selected.key), selected.token or account.token, account.organization
        return
    with launcher.ensure(data) as lease:
        if lease.started and lease.service.idle_timeout is not None:
            _print_end(lease.service.idle_timeout, data)
        if account.token:
            yield launcher.endpoint_of(lease.service), account.token, account.organization
        else:
            organization = account.organization or lease.service.organization
            yield launcher.endpoint_of(lease.service), lease.service.platform_token(), organization


def _print_end(idle_timeout: float, data: Path | None) -> None:
    """Print when a service ends that was started for a command, and how to keep it."""
    option = "" if data is None else f" --data {_quote(str(data))}"
    print_note(
        f"The service was started. It ends {idle_timeout:g} s after the last notebook, command or request with a token."
    )
    print_note(f"Hint: to keep it running, run `pipemagic stop{option}`, then `pipemagic serve{option}`")


def _quote(word: str) -> str:
    return subprocess.list2cmdline([word]) if sys.platform == "win32" else shlex.quote(word)


class SelectedService:
    """The service that a command uses: that of PIPEMAGIC_API_URL, or else (or with ``data``) the embedded one.

    ``address`` and ``token`` are those of the environment, None for the embedded service. In `CredentialsFile`, ``key``
    is the key of the service, and ``account_key`` that of the account: a token of the environment may belong to another
    account than the one that is logged in.
    """

    def __init__(self, data: Path | None) -> None:
        from pipemagic.session.tokens import API_URL, PLATFORM_TOKENS, Environment, naming_variable

        environment = Environment(os.environ)
        self.address = None if data else environment.get(API_URL)
        self.token = environment.token(None, PLATFORM_TOKENS) if self.address else None
        if self.address:
            with naming_variable(API_URL):
                self.key = parse_api_address(self.address).address
        else:
            self.key = f"data:{data or launcher.default_folder()}"
        self.account_key = f"{self.key}#{sha256(self.token.encode()).hexdigest()[:16]}" if self.token else self.key


# -- logins


@dataclass(frozen=True)
class StoredLogin:
    """The stored login at one service, and the current organization; without a token, no account is logged in."""

    token: str = field(default="", repr=False)
    username: str = ""
    organization: str = ""


class CredentialsFile:
    """The file with the logins, readable by its owner only.

    A key is the address of a management API, or ``data:`` and a folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or config_folder()) / "credentials.json"

    def get(self, key: str) -> StoredLogin:
        """Return the login that is stored under a key."""
        return self._read().get(key, StoredLogin())

    def put(self, key: str, **changes: str) -> None:
        """Change fields of the login that is stored under a key."""
        with self._locked() as accounts:
            accounts[key] = replace(accounts.get(key, StoredLogin()), **changes)

    def forget(self, key: str) -> bool:
        """Remove the login that is stored under a key; return False if it had no login."""
        with self._locked() as accounts:
            return bool(accounts.pop(key, StoredLogin()).token)

    def _read(self) -> dict[str, StoredLogin]:
        try:
            parsed = json.loads(self.path.read_bytes())
            return {key: StoredLogin(**account) for key, account in parsed["services"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SessionError(
                f"cannot read {self.path}: it was not written by pipemagic",
                hint="delete the file, then log in again with `pipemagic auth login`",
            ) from None
        except OSError as error:
            raise SessionError(f"cannot read {self.path}: {error.strerror}") from None

    @contextmanager
    def _locked(self) -> Iterator[dict[str, StoredLogin]]:
        """Lock the file, and write the changes of the block."""
        make_config_folder(self.path.parent)
        with private_lock(self.path.with_suffix(".lock")).acquire(LOCK_TIMEOUT):
            accounts = self._read()
            yield accounts
            document = {"version": 1, "services": {key: asdict(account) for key, account in sorted(accounts.items())}}
            write_private(self.path, json.dumps(document, indent=2).encode() + b"\n")
