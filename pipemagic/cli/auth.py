"""``pipemagic auth``: accounts, logins, platform tokens."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pipemagic.cli.base import Commands, ask_name, ask_password, ask_token, confirm, note, say, say_json, say_table
from pipemagic.cli.credentials import Credentials
from pipemagic.cli.platform import LOG_IN, management, on_this_machine, remembered, service_key
from pipemagic.errors import SessionError

if TYPE_CHECKING:
    from pipemagic.client.management import Management
    from pipemagic.client.resources import Login


def add_commands(top: Commands) -> None:
    """Declare the commands."""
    auth = top.group("auth", "accounts, logins and platform tokens")
    for name, run, text in [
        ("signup", _signup, "make an account and log in; prints its name"),
        ("login", _login, "log in; prints the account's name"),
    ]:
        parser = auth.add(name, run, text)
        parser.add_argument("username", nargs="?", metavar="NAME", help="asked for if missing")
        parser.add_argument("--password-stdin", action="store_true", help="read the password from standard input")
    logout = auth.add("logout", _logout, "forget the login of this machine")
    logout.add_argument("--all", action="store_true", help="end the account's logins on all machines")
    auth.add("whoami", _whoami, "print the account's name")
    auth.add("token", _token, "print the platform token, for the management API")

    tokens = auth.group("api-tokens", "platform tokens, which do not expire")
    tokens.add("mint", _mint, "print a new platform token; it is shown only now").add_argument("name", metavar="NAME")
    tokens.add("list", _list_tokens, "list the platform tokens, without their values", listing=True)
    tokens.add("revoke", _revoke, "revoke a platform token", destroys=True).add_argument("name", metavar="NAME")

    store = auth.add("store", _store, "keep the token of a database in the keyring", data=False)
    store.add_argument("--token-stdin", action="store_true", help="read the token from standard input")
    forget = auth.add("forget", _forget, "take the token of a database out of the keyring", data=False)
    for parser in (store, forget):
        parser.add_argument("address", metavar="ADDRESS", help="that of the database, as for %%pipedb connect")


def _signup(options: argparse.Namespace) -> None:
    _enter(options, lambda api, name, password: api.signup(name, password), twice=True)


def _login(options: argparse.Namespace) -> None:
    _enter(options, lambda api, name, password: api.login(name, password))


def _enter(
    options: argparse.Namespace, ask: Callable[[Management, str, str], Login], *, twice: bool = False
) -> None:  # fmt: skip
    username = ask_name(options.username, "username")
    password = ask_password(options, twice=twice)
    with management(options, anonymous=True) as api:
        login = ask(api, username, password)
    Credentials().put(
        service_key(options), token=str(login.token), username=login.username, organization=login.organization
    )
    say(login.username)


def _logout(options: argparse.Namespace) -> None:
    if options.all:
        with management(options) as api:
            api.invalidate_logins()
    if not Credentials().forget(service_key(options)):
        note("nobody was logged in")


def _whoami(options: argparse.Namespace) -> None:
    with management(options) as api:
        say(api.username())


def _token(options: argparse.Namespace) -> None:
    if on_this_machine(options):
        from pipemagic import local

        with local.ensure(options.data) as lease:  # the first start makes the token
            say(remembered(options).token or lease.service.platform_token())
        return
    from pipemagic.session.secrets import PLATFORM_TOKENS, Environment

    token = Environment(os.environ).token(None, PLATFORM_TOKENS) or remembered(options).token
    if not token:
        raise SessionError("nobody is logged in", hint=LOG_IN)
    say(str(token))


def _mint(options: argparse.Namespace) -> None:
    with management(options) as api:
        say(str(api.create_api_token(options.name)))


def _list_tokens(options: argparse.Namespace) -> None:
    with management(options) as api:
        tokens = api.api_tokens()
    if options.json:
        say_json([{"name": one.name, "id": one.id, "created_at": one.created} for one in tokens])
    else:
        say_table(["name", "id", "created at"], [(one.name, one.id, one.created) for one in tokens])


def _revoke(options: argparse.Namespace) -> None:
    confirm(options, f"Programs that use the token {options.name} will be refused. Revoke it?")
    with management(options) as api:
        api.revoke_api_token(options.name)
    say(options.name)


def _store(options: argparse.Namespace) -> None:
    from pipemagic.client.secrets import Token
    from pipemagic.session import keyrings

    entry = _entry(options.address)
    token = ask_token(options)
    if not Token(token):  # raises an error for what no token holds
        raise SessionError("there is no token; nothing was stored")
    keyrings.put(keyrings.SERVICE, entry, token)
    say(entry)


def _forget(options: argparse.Namespace) -> None:
    from pipemagic.session import keyrings

    if not keyrings.delete(keyrings.SERVICE, _entry(options.address)):
        note("the keyring holds no token for it")


def _entry(address: str) -> str:
    from pipemagic.client import urls
    from pipemagic.session import keyrings

    return keyrings.entry_of(urls.parse(address))
