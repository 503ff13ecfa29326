"""``pipemagic auth``: accounts, logins, platform tokens, and tokens in the keyring."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipemagic.cli import console, platform
from pipemagic.cli.platform import Credentials, api_command, data_option, management
from pipemagic.errors import SessionError

if TYPE_CHECKING:
    from pipemagic.client.management import Management


@click.group()
def auth() -> None:
    """Manage accounts, logins and platform tokens."""


# -- accounts


name_argument = click.argument("username", required=False, metavar="[NAME]")
password_option = click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")


@auth.command()
@name_argument
@password_option
@data_option
def signup(**options: Any) -> None:
    """Create an account, log in, and print the account's name."""
    log_in("signup", repeat="once more", **options)


@auth.command()
@name_argument
@password_option
@data_option
def login(**options: Any) -> None:
    """Log in, and print the account's name."""
    log_in("login", **options)


def log_in(
    action: str, data: Path | None, username: str | None, password_stdin: bool, repeat: str | None = None
) -> None:
    """Log in with the method ``action`` of the management API, and store the login."""
    if not username and not sys.stdin.isatty():
        raise SessionError("the username is missing", hint="write it after the command")
    username = username or console.ask(click.prompt, "username")
    password = read_secret("password", stdin=password_stdin, repeat=repeat)
    with management(data, anonymous=True) as api:
        login = getattr(api, action)(username, password)
    Credentials().put(
        platform.service_key(data), token=str(login.token), username=login.username, organization=login.organization
    )
    console.print_line(login.username)


def read_secret(what: str, *, stdin: bool, repeat: str | None = None) -> str:
    """Read a password or a token from standard input, or prompt for it without an echo."""
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        hint = f"pass it on standard input, with --{what}-stdin"
        raise SessionError(f"there is no terminal to prompt for the {what}", hint=hint)
    secret: str = console.ask(click.prompt, what, hide_input=True, confirmation_prompt=repeat or False)
    return secret


@auth.command()
@click.option("--all", "everywhere", is_flag=True, help="End the account's logins on all machines.")
@data_option
def logout(data: Path | None, everywhere: bool) -> None:
    """Remove the login from this machine."""
    if everywhere:
        with management(data) as api:
            api.invalidate_logins()
    if not Credentials().forget(platform.service_key(data)):
        console.print_note("no account was logged in")


@api_command(auth, in_organization=False)
def whoami(api: Management) -> None:
    """Print the account's name."""
    console.print_line(api.username())


# -- platform tokens


@auth.command("token")
@data_option
def print_token(data: Path | None) -> None:
    """Print the platform token, for the management API."""
    token: str | None
    if platform.is_local(data):
        from pipemagic import launcher

        with launcher.ensure(data) as lease:  # the first start creates the token
            token = platform.current_account(data).token or lease.service.platform_token()
    else:
        token = platform.environment_token() or platform.current_account(data).token
    if not token:
        raise SessionError("nobody is logged in", hint=platform.LOG_IN)
    console.print_line(str(token))


@auth.group()
def api_tokens() -> None:
    """Manage platform tokens, which do not expire."""


@api_command(api_tokens, in_organization=False)
@click.argument("name")
def mint(api: Management, name: str) -> None:
    """Print a new platform token, which is not shown again."""
    console.print_line(str(api.create_api_token(name)))


@api_command(api_tokens, "list", in_organization=False)
@console.json_option
def list_tokens(api: Management, as_json: bool) -> None:
    """List the platform tokens, without their values."""
    rows = [(token.name, token.id, token.created) for token in api.api_tokens()]
    console.print_records(["name", "id", "created at"], rows, as_json=as_json)


@api_command(api_tokens, in_organization=False)
@click.argument("name")
@console.yes_option
def revoke(api: Management, name: str, yes: bool) -> None:
    """Revoke a platform token."""
    console.confirm(f"Programs that use the token {name} will be refused. Revoke it?", yes=yes)
    api.revoke_api_token(name)
    console.print_line(name)


# -- the keyring


@auth.command()
@click.argument("address")
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input.")
def store(address: str, token_stdin: bool) -> None:
    """Store the token of the database at ADDRESS in the keyring."""
    from pipemagic.client.secrets import Token
    from pipemagic.session import keyrings

    entry = keyring_entry(address)
    token = read_secret("token", stdin=token_stdin).strip()
    if not Token(token):  # raises for characters that a token cannot contain
        raise SessionError("the token is empty; nothing was stored")
    keyrings.put(keyrings.SERVICE, entry, token)
    console.print_line(entry)


@auth.command()
@click.argument("address")
def forget(address: str) -> None:
    """Remove the token of the database at ADDRESS from the keyring."""
    from pipemagic.session import keyrings

    if not keyrings.delete(keyrings.SERVICE, keyring_entry(address)):
        console.print_note("the keyring holds no token for this address")


def keyring_entry(address: str) -> str:
    """Return the name of an address in the keyring."""
    from pipemagic.client import urls
    from pipemagic.session import keyrings

    return keyrings.entry_of(urls.parse(address))
