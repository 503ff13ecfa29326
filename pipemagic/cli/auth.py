"""``pipemagic auth``: accounts, logins, platform tokens, and tokens in the keyring."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pipemagic.cli import console
from pipemagic.cli.api import (
    LOG_IN,
    CredentialsFile,
    SelectedService,
    api_command,
    api_login,
    data_option,
    management,
    name_argument,
)
from pipemagic.client.address import Endpoint, parse_address
from pipemagic.client.pasted import token_in
from pipemagic.errors import SessionError
from pipemagic.management_api.client import Management
from pipemagic.scopes import SCOPES

auth = click.Group("auth", help="Manage accounts, logins and platform tokens.")


# -- accounts


def add_login_command(action: str, description: str, *, repeat: str | None = None) -> None:
    """Add a command that logs in with the method ``action`` of the management API, and stores the login."""

    @auth.command(action, help=description)
    @click.argument("username", required=False, metavar="[NAME]")
    @click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
    @data_option
    def command(data: Path | None, username: str | None, password_stdin: bool) -> None:
        if not username and not sys.stdin.isatty():
            raise SessionError("the username is missing", hint="pass it as an argument")
        username = username or console.prompt(click.prompt, "username")
        password = read_secret("password", stdin=password_stdin, repeat=repeat)
        with management(data, anonymous=True) as api:
            login = getattr(api, action)(username, password)
        changes = {"token": str(login.token), "username": login.username, "organization": login.organization}
        CredentialsFile().put(SelectedService(data).key, **changes)
        console.print_line(login.username)


add_login_command("signup", "Create an account, log in, and print the account's name.", repeat="repeat the password")
add_login_command("login", "Log in, and print the account's name.")


def read_secret(what: str, *, stdin: bool, repeat: str | None = None) -> str:
    """Read a password or a token from standard input, or prompt for it without an echo."""
    if stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        hint = f"pass it on standard input with --{what.replace(' ', '-')}-stdin"
        raise SessionError(f"cannot prompt for the {what} without a terminal", hint=hint)
    secret: str = console.prompt(click.prompt, what, hide_input=True, confirmation_prompt=repeat or False)
    return secret


@auth.command()
@click.option("--all", "everywhere", is_flag=True, help="End the account's logins on all machines.")
@data_option
def logout(data: Path | None, everywhere: bool) -> None:
    """Remove the login from this machine."""
    if everywhere:
        with management(data) as api:
            api.invalidate_logins()
    if not CredentialsFile().forget(SelectedService(data).key):
        console.print_note("No account was logged in.")


@api_command(auth, "whoami", in_organization=False)
def whoami(api: Management) -> None:
    """Print the account's name."""
    console.print_line(api.username())


# -- platform tokens


@auth.command("token")
@data_option
def print_token(data: Path | None) -> None:
    """Print the platform token, for the management API. It has all rights of the account."""
    with api_login(data) as (_, token, _):
        if not token:
            raise SessionError("not logged in", hint=LOG_IN)
        console.print_line(token)


@auth.group()
def api_tokens() -> None:
    """Manage platform tokens. They do not expire."""


@api_command(
    api_tokens, "mint", name_argument,
    click.option("--group", metavar="GROUP", help="Limit the token to a group; this requires scopes."),
    click.option("--scope", multiple=True, type=click.Choice(list(SCOPES)), metavar="SCOPE",
                 help=f"Allow this in the group; can be repeated: {', '.join(SCOPES)}."),
    click.option("--read-only", is_flag=True, help="Allow only reading: --scope read."),
    click.option("--full-access", is_flag=True, help="Allow everything in the group: all scopes."),
    click.option("--unlimited", is_flag=True, help="Allow everything that your account may do, in all organizations."),
    exclusive=["scope", "read_only", "full_access", "unlimited"],
)  # fmt: skip
def mint(
    api: Management, name: str, group: str | None, scope: Sequence[str], read_only: bool, full_access: bool,
    unlimited: bool,
) -> None:  # fmt: skip
    """Print a new platform token, which is limited to the organization. It is not shown again."""
    preset = ["read-only"] if read_only else ["full-access"] if full_access else []
    token = api.create_api_token(name, group=group, scopes=[*scope, *preset], unlimited=unlimited)
    console.print_line(str(token))


@api_tokens.command("list")
@click.option(
    "--org", metavar="SLUG",
    help="Those that are limited to this organization; an admin or owner sees the ones of all members.",
)  # fmt: skip
@data_option
@console.json_option
def list_tokens(data: Path | None, org: str | None, as_json: bool) -> None:
    """List your platform tokens, or those of an organization, without their values."""
    with management(data, org) as api:
        tokens = api.organization_tokens() if org else api.api_tokens()
    rows = [(token.name, token.scope, token.permissions, token.owner, token.id, token.created) for token in tokens]
    console.print_records(["name", "scope", "permissions", "owner", "id", "created at"], rows, as_json=as_json)


@api_tokens.command("revoke")
@click.argument("name", metavar="NAME|ID")
@click.option("--org", metavar="SLUG", help="The organization to which the token with this ID is limited.")
@data_option
@console.yes_option
def revoke(data: Path | None, org: str | None, name: str, yes: bool) -> None:
    """Revoke one of your platform tokens by its name, or with --org a token of any member by its ID."""
    console.confirm(f"Programs that use the token {name} will lose access. Revoke it?", yes=yes)
    with management(data, org) as api:
        if org:
            api.revoke_organization_token(name)
        else:
            api.revoke_api_token(name)
    console.print_line(name)


# -- the keyring


address_argument = click.argument("endpoint", type=parse_address, metavar="ADDRESS")
key_flag = click.option("--encryption-key", is_flag=True, help="The key of an encrypted database instead of its token.")


@auth.command()
@address_argument
@key_flag
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input.")
@click.option("--encryption-key-stdin", is_flag=True, help="Read the encryption key from standard input.")
def store(endpoint: Endpoint, encryption_key: bool, token_stdin: bool, encryption_key_stdin: bool) -> None:
    """Store the token of the database at ADDRESS in the keyring, or its encryption key."""
    from pipemagic.session import tokens

    console.check_exclusive(
        ["token_stdin", "encryption_key_stdin"],
        {"token_stdin": token_stdin, "encryption_key_stdin": encryption_key_stdin},
    )
    is_key = encryption_key or encryption_key_stdin
    noun, entry = ("encryption key", tokens.key_entry) if is_key else ("token", tokens.keyring_entry)
    stdin = encryption_key_stdin if is_key else token_stdin
    secret = token_in(read_secret(noun, stdin=stdin), f"the {noun}")
    if not secret:
        raise SessionError(f"the {noun} is empty; nothing was stored")
    tokens.keyring_put(tokens.KEYRING_SERVICE, entry(endpoint), secret)
    console.print_line(tokens.keyring_entry(endpoint))


@auth.command()
@address_argument
@key_flag
def forget(endpoint: Endpoint, encryption_key: bool) -> None:
    """Remove the token of the database at ADDRESS from the keyring, or its encryption key."""
    from pipemagic.session import tokens

    noun, entry = ("encryption key", tokens.key_entry) if encryption_key else ("token", tokens.keyring_entry)
    if not tokens.keyring_delete(tokens.KEYRING_SERVICE, entry(endpoint), noun):
        console.print_note(f"The keyring has no {noun} for this address.")
