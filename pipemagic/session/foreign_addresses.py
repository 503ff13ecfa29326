"""Addresses in the form of SQLAlchemy (``sqlite:///x.db``), and the commands that reach the same data.

No message repeats a part of an address that may contain a password.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.client import local_files
from pipemagic.client.address import SCHEMES, refuse_without_scheme
from pipemagic.client.pasted import strip_quotes
from pipemagic.errors import AddressError
from pipemagic.text import word

if TYPE_CHECKING:
    from pipemagic.session.organization import Organization

_ADDRESS = re.compile(r"([A-Za-z][\w+.-]*)://(.*)", re.DOTALL)
_HOST = re.compile(r"[\w.-]+(?::\d+)?(?:/[\w./-]*)?\Z|\[[\da-fA-F:]+\](?::\d+)?\Z")
OWN_DRIVER = "pipemagic"
"""The driver in the addresses of engines that run on `pipemagic.dbapi`."""
_PRODUCTS = {
    "postgresql": "PostgreSQL", "postgres": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB", "duckdb": "DuckDB",
    "mssql": "SQL Server", "oracle": "Oracle", "snowflake": "Snowflake", "bigquery": "BigQuery", "redshift": "Redshift",
    "clickhouse": "ClickHouse", "trino": "Trino", "databricks": "Databricks",
}  # fmt: skip


@dataclass(frozen=True)
class Replacement:
    """What replaces an address: a sentence, and the lines to type."""

    message: str
    lines: tuple[str, ...]


def scheme_of(text: str) -> str:
    """Return the scheme of an address in lower case, '' for other text."""
    match = _ADDRESS.match(text)
    return match[1].lower() if match else ""


def check(
    target: str, alias: str = "", *, connected: bool, organization: Organization | None, temporary: bool = False
) -> None:
    """Raise AddressError, with the lines to type, for an address that is not of a libSQL server, and for a file.

    ``temporary`` is whether the user wants a database in the temporary service.
    """
    target = strip_quotes(target)
    scheme, path = scheme_of(target), local_files.path_in(target)
    option = f" --as {word(alias)}" if alias else ""
    if path:
        message = f"{path} names a file, not a database on a server"
        advice = _file(path, organization, option, temporary=temporary)
    elif local_files.is_in_memory(target):
        message, advice = "':memory:' is not a database on a server", _in_memory(option)
    elif scheme and scheme not in SCHEMES:
        message = f"{scheme}:// is not an address of a database server"
        advice = replacement(target, alias, connected=connected, organization=organization)
    else:
        return refuse_without_scheme(target)
    raise AddressError(message, hint="\n".join((advice.message, *advice.lines)))


def replacement(address: str, alias: str = "", *, connected: bool, organization: Organization | None) -> Replacement:
    """Return the lines that connect to the database of an address, or to one into which its tables can be loaded.

    ``connected`` is whether the session has a connection, ``organization`` the one in use, if any.
    """
    match = _ADDRESS.match(address)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", "")
    product, _, driver = scheme.partition("+")
    place = _place(rest)
    option = f" --as {word(alias)}" if alias else ""
    if driver == OWN_DRIVER:
        return _own_engine(place or "", rest, option, connected=connected)
    if scheme in SCHEMES or "libsql" in driver:
        return _server(product if scheme in SCHEMES else "libsql", place or "", rest, option)
    if product == "sqlite":
        path = "FILE" if place is None else place.removeprefix("/").removeprefix("file:")
        return _in_memory(option) if path in ("", ":memory:") else _file(path, organization, option)
    if product == "duckdb" and place is not None and place.strip("/") in ("", ":memory:"):
        return _in_memory(option)
    product_name = _PRODUCTS.get(product, f"{product}://")
    message = f"pipemagic connects to SQLite databases on libSQL servers, not to {product_name}"
    if connected:
        return Replacement(f"{message}: read a table with pandas.read_sql and load it:", ("%pipedb help load",))
    return Replacement(
        f"{message}: connect, then read tables with pandas.read_sql and write them with %pipedb load:",
        ("%pipedb connect" + option,),
    )


def _place(rest: str) -> str | None:
    """Return host and path, without user, password and query; None if the password may reach into them."""
    user, at, behind = rest.partition("@")
    if not at or (user.startswith("/") and ":" not in user):
        return rest.partition("?")[0]
    return behind.partition("?")[0] if "@" not in behind and not re.search("[/?#]", user) else None


def _own_engine(place: str, rest: str, option: str, *, connected: bool) -> Replacement:
    """Return the lines for the address of an engine on `pipemagic.dbapi`: the notebook's connection, or a server."""
    if place.strip("/"):
        return _server("libsql", place, rest.partition("?")[0], option)
    message = f"sqlite+{OWN_DRIVER}:// is the connection of this notebook"
    if connected:
        return Replacement(f"{message}: run SQL without it:", ("%sql SELECT 1",))
    return Replacement(f"{message}; connect first:", ("%pipedb connect",))


def _server(scheme: str, place: str, rest: str, option: str) -> Replacement:
    host = place.rstrip("/")
    line = f"%pipedb connect {scheme}://{host if _HOST.match(host) else 'HOST'}"
    if "@" in rest or "?" in rest:
        return Replacement("set the environment variable PIPEMAGIC_TOKEN to the token and connect:", (line + option,))
    return Replacement("connect with:", (line + option,))


def _in_memory(option: str) -> Replacement:
    line = f"%pipedb connect --temporary{option}"
    return Replacement(
        "use a temporary database instead of one in memory; it is deleted when the kernel stops:", (line,)
    )


def _file(path: str, organization: Organization | None, option: str, *, temporary: bool = False) -> Replacement:
    suffix = Path(path).suffix.lower()
    start = local_files.start_of(path)
    if suffix in local_files.TABLES:
        connect = () if organization is not None else (f"%pipedb connect{' --temporary' if temporary else ''}",)
        table = re.sub(r"\W+", "_", local_files.stem(path)).strip("_") or "data"
        return Replacement("load its rows into a table:", (*connect, f"%pipedb load {word(path)} --table {table}"))
    if suffix == local_files.SQL_TEXT and start:
        message, source = (
            "run its statements in a new database and connect to it:",
            f" --from-dump {word(path)}",
        )
    elif start == local_files.SQLITE_START:
        message = "copy the SQLite file into a database of the service and connect to it:"
        source = f" --from-file {word(path)}"
    elif start:
        message = "it is not a SQLite file: read its tables with pandas and load them:"
        return Replacement(message, ("%pipedb help load",))
    else:
        is_folder = os.path.isdir(os.path.expanduser(path))
        missing = "it is a folder" if is_folder else "there is no such file"
        state = "the file is empty" if local_files.exists(path) else missing
        message, source = f"{state}; create a database and connect to it:", ""
    return Replacement(message, _lines_to_create(path, source, organization, option, temporary=temporary))


def _lines_to_create(
    path: str, source: str, organization: Organization | None, alias_option: str, *, temporary: bool
) -> tuple[str, ...]:
    """Return the lines that create a database called like the file at a path, and connect to it."""
    option, databases = (
        ("", []) if organization is None else (organization.group_option(), organization.names("database"))
    )
    name = local_files.database_name(path, {*databases, "main"})
    first = (f"%pipedb connect{' --temporary' if temporary else ''}",) if organization is None or temporary else ()
    return (*first, f"%pipedb create-database {name}{option}{source}", f"%pipedb connect {name}{alias_option}")
