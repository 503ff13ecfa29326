"""``pipemagic db``: databases and their tokens."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pipemagic.cli import shell, transfers
from pipemagic.cli.base import Commands, confirm, note, say, say_fields, say_json, say_table
from pipemagic.cli.groups import add_token_options, add_wait
from pipemagic.cli.platform import management
from pipemagic.errors import NotFound, ServerError, UnsupportedError
from pipemagic.session import uploads

if TYPE_CHECKING:
    from pipemagic.client.management import Management
    from pipemagic.client.resources import DatabaseInfo, Instance


def add_commands(top: Commands) -> None:
    """Declare the commands."""
    db = top.group("db", "databases")
    create = db.add("create", _create, "create a database and print its name", organization=True)
    create.add_argument("name", metavar="NAME")
    create.add_argument("--group", required=True, metavar="G", help="an existing group")
    create.add_argument("--size-limit", metavar="SIZE", help="how large it may become, for example 256mb")
    transfers.add_source_options(create)
    add_wait(create)
    listing = db.add("list", _list, "list the databases", organization=True, listing=True)
    listing.add_argument("-g", "--group", metavar="G", help="only those of this group")
    _add_show(db)
    destroy = db.add("destroy", _destroy, "delete databases with everything in them", organization=True, destroys=True)
    destroy.add_argument("names", nargs="+", metavar="NAME")
    shell.add_command(db)
    transfers.add_commands(db)
    db.add("locations", _locations, "list the locations for groups", listing=True)

    tokens = db.group("tokens", "tokens for a database")
    create = tokens.add("create", _create_token, "print a new token for a database", organization=True)
    create.add_argument("name", metavar="NAME")
    add_token_options(create)
    invalidate = tokens.add(
        "invalidate", _invalidate, "make all tokens of a database invalid", organization=True, destroys=True
    )
    invalidate.add_argument("name", metavar="NAME")


def _add_show(db: Commands) -> None:
    show = db.add("show", _show, "print what is known about a database", organization=True, listing=True)
    show.add_argument("name", metavar="NAME")
    only = show.add_mutually_exclusive_group()
    only.add_argument("--url", action="store_true", help="print its libsql:// address and nothing else")
    only.add_argument("--http-url", action="store_true", help="print its http(s):// address and nothing else")
    only.add_argument("--instance-urls", action="store_true", help="print the addresses of its instances")
    only.add_argument("--instance-url", metavar="CODE", help="print the address of the instance at a location")


def _create(options: argparse.Namespace) -> None:
    with transfers.source_file(options) as file, management(options) as api:
        try:
            if file is not None:
                uploads.create(api, options.name, options.group, file, size_limit=options.size_limit, warn=note)
            else:
                api.create_database(
                    options.name, options.group, copy_of=options.from_db, size_limit=options.size_limit
                )  # fmt: skip
        except ServerError as error:
            explain_group(error, options.group)
            transfers.explain_seed(error, options)
            raise
        if options.wait:
            wait(api, options.name)
    say(options.name)


def explain_group(error: ServerError, group: str) -> None:
    """Say how to make the group, if that is what was missing."""
    if "group not found" in error.message:
        error.hint = f"create it: pipemagic group create {group} --location ams"


def wait(api: Management, name: str) -> None:
    """Return when a new database answers, at every location of its group."""
    from pipemagic.client.database import Database

    database = api.database(name)
    for code in database.locations:
        try:
            api.wait_for_location(database.group, code)
        except UnsupportedError:
            break
    with Database(database.url, api.create_token(name, expiration="10m")) as answering:
        answering.execute("SELECT 1")


def _list(options: argparse.Namespace) -> None:
    with management(options) as api:
        databases = api.databases(options.group)
    if options.json:
        say_json([_as_json(database) for database in databases])
        return
    say_table(["name", "group", "url", "locations"], [
        (one.name, one.group, libsql_url(one.url), ", ".join(one.locations)) for one in databases
    ])  # fmt: skip


def _show(options: argparse.Namespace) -> None:
    with management(options) as api:
        database = api.database(options.name)
        if options.url or options.http_url:
            say(libsql_url(database.url) if options.url else database.url)
            return
        if options.instance_urls or options.instance_url:
            _say_instances(api.instances(options.name), options.instance_url)
            return
        try:
            instances = api.instances(options.name)
        except UnsupportedError:
            instances = []
    if options.json:
        say_json(_as_json(database) | {"instances": [_instance_as_json(one) for one in instances]})
        return
    say_fields([
        ("Name", database.name), ("URL", database.url), ("ID", database.id), ("Group", database.group),
        ("Locations", ", ".join(database.locations)),
    ])  # fmt: skip
    if instances:
        say("")
        say_table(["location", "type", "url", "status"], [
            (one.name, one.type, one.url, one.state) for one in instances
        ])  # fmt: skip


def _say_instances(instances: list[Instance], code: str | None) -> None:
    chosen = [one for one in instances if code in (None, one.name)]
    if not chosen:
        raise NotFound(f"there is no instance at {code}", status=404, hint="`pipemagic db show NAME` lists them")
    for instance in chosen:
        say(libsql_url(instance.url))


def _destroy(options: argparse.Namespace) -> None:
    with management(options) as api:
        for name in options.names:
            api.database(name)  # a wrong name is said before anything is lost
        confirm(options, f"Delete {', '.join(options.names)} with everything in {_them(options.names)}, for good?")
        for name in options.names:
            api.delete_database(name)
            say(name)


def _them(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _locations(options: argparse.Namespace) -> None:
    with management(options) as api:
        locations = api.locations()
    if options.json:
        say_json([{"id": one.code, "location": one.name} for one in locations])
    else:
        say_table(["id", "location"], [(one.code, one.name) for one in locations])


# -- tokens


def _create_token(options: argparse.Namespace) -> None:
    with management(options) as api:
        say(str(api.create_token(options.name, expiration=options.expiration, read_only=options.read_only)))


def _invalidate(options: argparse.Namespace) -> None:
    with management(options) as api:
        api.database(options.name)
        confirm(options, f"All tokens of {options.name} will be refused. Go on?")
        api.invalidate_tokens(options.name)
    say(options.name)


# -- words


def libsql_url(url: str) -> str:
    """Write an http address the way that libSQL's clients take it."""
    scheme, _, rest = url.partition("://")
    return f"libsql://{rest}" + ("?tls=0" if scheme == "http" else "") if rest else url


def _as_json(database: DatabaseInfo) -> dict[str, Any]:
    return {
        "name": database.name, "id": database.id, "group": database.group, "url": libsql_url(database.url),
        "http_url": database.url, "locations": list(database.locations),
    }  # fmt: skip


def _instance_as_json(instance: Instance) -> dict[str, Any]:
    return {
        "name": instance.name,
        "type": instance.type,
        "url": libsql_url(instance.url),
        "status": instance.state or None,
    }
