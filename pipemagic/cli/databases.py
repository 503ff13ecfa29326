"""``pipemagic db``: databases and their tokens."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from pipemagic.cli import console
from pipemagic.cli.api import api_command, name_argument
from pipemagic.cli.groups import (
    add_protection_commands,
    add_token_commands,
    wait_for_locations,
    wait_option,
    with_group_hint,
)
from pipemagic.cli.shell import encryption_key_in, key_option, open_database, print_dump, shell
from pipemagic.client.secrets import EncryptionKey
from pipemagic.errors import NotFound, ParameterError, ServerError, UnsupportedError
from pipemagic.frames.files import new_file
from pipemagic.management_api.branches import describe_branch, local_time, parse_moment
from pipemagic.management_api.client import Management
from pipemagic.management_api.models import DatabaseInfo
from pipemagic.text import format_size

CHUNK = 256 * 1024

force_option = click.option("-f", "--force", "--overwrite", is_flag=True, help="Overwrite an existing file.")

db = click.Group("db", help="Manage databases.")
db.add_command(shell)
add_token_commands(db, "database")


def moment(text: str) -> datetime:
    """Convert a time that a person types."""
    try:
        return parse_moment(text)
    except ParameterError as error:
        raise click.BadParameter(f"{error.message}\nHint: {error.hint}") from None


# -- import, export, dump


@api_command(db, "create", name_argument, exclusive=["from_file", "from_dump", "branch_of"])
@click.option("--group", metavar="G", help="The group.  [default: the only one, or `default`]")
@click.option("--size-limit", metavar="SIZE", help="Maximum size, for example 256mb.")
@click.option(
    "--from-file", type=console.absolute_path, metavar="FILE", help="Copy a SQLite file, which may be in use."
)
@click.option("--from-dump", metavar="FILE", help="Run the SQL of a dump; - reads standard input.")
@click.option("--branch-of", "--from-db", "branch_of", metavar="NAME", help="Copy another database.")
@click.option(
    "--at", "--timestamp", "at", type=moment, metavar="TIME",
    help="Copy the database as it was at this time, such as \"2026-11-29 14:00\" (local time).",
)  # fmt: skip
@key_option
@click.option("--encryption-cipher", metavar="CIPHER", help="The cipher of a new encrypted database.")
@wait_option
def create(
    api: Management, name: str, group: str | None, size_limit: str | None, at: datetime | None,
    encryption_key_env: str | None, encryption_cipher: str | None, wait: bool, **sources: Any,
) -> None:  # fmt: skip
    """Create a database and print its name.

    If there is no group, `default` is created at the closest location.
    """
    from pipemagic.session import database_files

    original = sources["branch_of"]
    if at is not None and original is None:
        raise click.UsageError("--at requires --branch-of.")
    key = encryption_key_in(encryption_key_env, encryption_cipher)
    try:
        with source_file(sources["from_file"], sources["from_dump"]) as file, with_group_hint(api, group):
            if original is not None:
                branch = api.create_database(
                    name, group, copy_of=original, at=at, encryption_key=key, size_limit=size_limit
                )
                if at is not None:
                    console.print_note(describe_branch(branch, at))
            else:
                if group is None:
                    option = lambda name: f"add --group {shlex.quote(name)}"  # noqa: E731
                    group = api.default_group(name_group=option, notify=console.print_note).name
                if file is None:
                    api.create_database(name, group, size_limit=size_limit, encryption_key=key)
                else:
                    database_files.create_from_file(
                        api, name, group, file, size_limit=size_limit, key=key, warn=console.print_note
                    )  # fmt: skip
    except ServerError as error:
        if '"seed"' in error.message:
            dump = sources["from_dump"] if sources["from_dump"] != "-" else None
            hint = database_files.without_upload(name, group, sources["from_file"], dump, original)
            raise error.replace(hint="" if at else hint) from None
        raise
    if wait:
        wait_for_database(api, name, key)
    console.print_line(name)


def wait_for_database(api: Management, name: str, key: EncryptionKey | None = None) -> None:
    """Wait until a new database answers and all locations of its group are ready."""
    info = api.database(name)
    wait_for_locations(api, info.group, info.locations)
    with open_database(api, name, "10m", key=key) as database:
        database.execute("SELECT 1")


@api_command(db, "export", name_argument, click.argument("file", type=console.absolute_path), force_option, key_option)
def export(api: Management, name: str, file: Path, force: bool, encryption_key_env: str | None) -> None:
    """Export a database to a SQLite file."""
    from pipemagic.session import database_files

    key = encryption_key_in(encryption_key_env)
    with new_file(file, overwrite=force) as draft, open_database(api, name, only_reads=True, key=key) as database:
        database_files.save(database, draft)
    console.print_line(str(file))


@api_command(db, "dump", name_argument, force_option, key_option)
@click.argument("file", type=console.absolute_path, required=False)
def dump(api: Management, name: str, file: Path | None, force: bool, encryption_key_env: str | None) -> None:
    """Print a database as SQL text, or write the text to a file."""
    from pipemagic.session import database_files

    key = encryption_key_in(encryption_key_env)
    with open_database(api, name, only_reads=True, key=key) as database:
        if file is None:
            print_dump(database)
            return
        with new_file(file, overwrite=force) as draft:
            database_files.save_dump(database, draft)
    console.print_line(str(file))


@contextmanager
def source_file(from_file: Path | None, from_dump: str | None) -> Iterator[Path | None]:
    """Yield the SQLite file to send, prepared from --from-file or --from-dump; None without these options."""
    from pipemagic.session import database_files
    from pipemagic.session.database_files import restored_dump

    with ExitStack() as stack:
        if from_dump == "-":
            chunks = iter(lambda: sys.stdin.buffer.read(CHUNK), b"")
            from_file, from_dump = stack.enter_context(restored_dump("standard input", chunks)), None
        has_content = from_file is not None or from_dump is not None
        yield stack.enter_context(database_files.content_to_upload(from_file, from_dump)) if has_content else None


# -- list, show


@api_command(db, "list", console.json_option)
@click.option("-g", "--group", metavar="G", help="Only the databases of this group.")
@click.option("--parent", metavar="NAME", help="Only the copies of this database.")
def list_databases(api: Management, group: str | None, parent: str | None, as_json: bool) -> None:
    """List the databases."""
    databases = api.databases(group, parent=parent)
    if parent and not databases:
        api.database(parent)  # raises an error for an unknown name
    if as_json:
        console.print_json(list(map(database_as_json, databases)))
        return
    headings = ["name", "group", "url", "locations", "status", "protected", "parent"]
    rows: list[Sequence[str]] = [
        (database.name, database.group, libsql_url(database.url), ", ".join(database.locations), database.status,
         "yes" if database.delete_protection else "no", database.parent)
        for database in databases
    ]  # fmt: skip
    if not any(database.parent for database in databases):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    console.print_table(headings, rows)


@api_command(
    db, "show", name_argument, exclusive=["url", "http_url", "instance_urls", "instance_url", "branches", "as_json"]
)
@click.option("--url", is_flag=True, help="Print only the libsql:// address.")
@click.option("--http-url", is_flag=True, help="Print only the http(s):// address.")
@click.option("--instance-urls", is_flag=True, help="Print only the addresses of the instances.")
@click.option("--instance-url", metavar="CODE", help="Print only the address of the instance at a location.")
@click.option("--branches", is_flag=True, help="Print only the names of its copies.")
@console.json_option
def show(
    api: Management, name: str, url: bool, http_url: bool, instance_urls: bool, instance_url: str | None,
    branches: bool, as_json: bool,
) -> None:  # fmt: skip
    """Show the details of a database."""
    database = api.database(name)
    if url or http_url:
        console.print_line(libsql_url(database.url) if url else database.url)
    elif instance_urls or instance_url:
        print_instance_urls(api, name, instance_url)
    elif branches:
        for branch in api.databases(parent=name):
            console.print_line(branch.name)
    else:
        print_database(api, database, as_json=as_json)


def print_instance_urls(api: Management, name: str, code: str | None) -> None:
    """Print the address of the instance at a location, or of all instances."""
    instances = [instance for instance in api.instances(name) if code in (None, instance.name)]
    if not instances:
        hint = f"list the instances with `pipemagic db show {name}`"
        raise NotFound(f"no instance at {code}", status=404, hint=hint)
    for instance in instances:
        console.print_line(libsql_url(instance.url))


def print_database(api: Management, database: DatabaseInfo, *, as_json: bool) -> None:
    """Print the details of a database and its instances."""
    try:
        instances = api.instances(database.name)
    except UnsupportedError:
        instances = []
    if as_json:
        console.print_json(database_as_json(database) | {"instances": [
            {"name": instance.name, "type": instance.type, "url": libsql_url(instance.url),
             "status": instance.state or None}
            for instance in instances
        ]})  # fmt: skip
        return
    locations = ", ".join(database.locations)
    fields = {"Parent": f"{database.parent}{branch_time(database)}"} if database.parent else {}
    console.print_fields(
        Name=database.name, URL=database.url, ID=database.id, Group=database.group, Locations=locations,
        Status=database.status, Protected="yes" if database.delete_protection else "no", **fields,
    )  # fmt: skip
    if instances:
        console.print_line()
        console.print_table(["location", "type", "url", "status"], [
            (instance.name, instance.type, instance.url, instance.state) for instance in instances
        ])  # fmt: skip


def branch_time(database: DatabaseInfo) -> str:
    """Return when the parent of a database had its content, '' if that is unknown."""
    return "" if database.branched is None else f" ({local_time(database.branched)})"


def database_as_json(database: DatabaseInfo) -> dict[str, Any]:
    """Return the JSON object of a database."""
    return {
        "name": database.name, "id": database.id, "group": database.group, "url": libsql_url(database.url),
        "http_url": database.url, "locations": list(database.locations), "block_reads": database.block_reads,
        "block_writes": database.block_writes, "archived": database.archived,
        "delete_protection": database.delete_protection, "parent": database.parent or None,
    }  # fmt: skip


def libsql_url(url: str) -> str:
    """Convert an http address to the form of libSQL's clients."""
    scheme, _, rest = url.partition("://")
    return f"libsql://{rest}" + ("?tls=0" if scheme == "http" else "") if rest else url


# -- suspend, resume, protect, destroy


@api_command(db, "inspect", name_argument, console.json_option)
@click.option("--queries", is_flag=True, help="List the slowest and most frequent statements of the last day.")
def inspect(api: Management, name: str, queries: bool, as_json: bool) -> None:
    """Show the usage of a database in this month."""
    figures = api.database_usage(name)
    top = api.top_queries(name) if queries else []
    if as_json:
        console.print_json({**figures, **({"top_queries": list(map(to_builtins, top))} if queries else {})})
        return
    console.print_fields(**{
        "Space used": format_size(figures.get("storage_bytes", 0)), "Rows read": f"{figures.get('rows_read', 0):,}",
        "Rows written": f"{figures.get('rows_written', 0):,}",
    })  # fmt: skip
    if queries:
        console.print_line()
        console.print_table(["runs", "mean ms", "rows read", "rows written", "query"], [
            ("" if query.runs is None else f"{query.runs:,}",
             "" if query.mean_duration_ms is None else f"{query.mean_duration_ms:,.1f}",
             f"{query.rows_read:,}", f"{query.rows_written:,}", query.query)
            for query in top
        ])  # fmt: skip


@api_command(db, "suspend", name_argument, console.yes_option)
def suspend(api: Management, name: str, yes: bool) -> None:
    """Stop all statements on a database, and refuse new ones until it is resumed.

    Sets `block_reads` and `block_writes` of its configuration. Open transactions are rolled back.
    """
    api.database(name)  # an unknown name is an error before the question
    console.confirm(f"This ends all statements and open transactions on {name}, for all users. Continue?", yes=yes)
    api.suspend_database(name)
    console.print_line(name)


@api_command(db, "resume", name_argument)
def resume(api: Management, name: str) -> None:
    """Allow statements on a suspended database again."""
    api.resume_database(name)
    console.print_line(name)


add_protection_commands(db, "database")


@api_command(db, "destroy", click.argument("names", nargs=-1, required=True, metavar="NAME..."), console.yes_option)
def destroy(api: Management, names: Sequence[str], yes: bool) -> None:
    """Delete databases and all their data."""
    for name in names:
        api.database(name)  # an unknown name is an error before anything is deleted
    console.confirm(f"Permanently delete {', '.join(names)} and all data?", yes=yes)
    for name in names:
        api.delete_database(name)
        console.print_line(name)


@api_command(db, "locations", console.json_option, in_organization=False)
def locations(api: Management, as_json: bool) -> None:
    """List the locations that groups can have."""
    console.print_records(
        ["id", "location"], [(location.code, location.name) for location in api.locations()], as_json=as_json
    )
