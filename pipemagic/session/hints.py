"""What to type next after an error: the name that was meant, the way to a new token, what to do about a limit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipemagic.errors import PipemagicError, StatementError
from pipemagic.explore import idioms
from pipemagic.explore.names import nearest
from pipemagic.explore.words import FUNCTIONS, written
from pipemagic.hrana import faults
from pipemagic.sql import character_offset, tokens, unquote

if TYPE_CHECKING:
    from pipemagic.session.connection import Connection
    from pipemagic.session.secrets import Whence

PATIENCE = 0.3
"""Seconds that a message waits for the tables, where they are not known yet."""

_NO_TABLE = re.compile(r"no such (?:table|view): (?:main\.)?(.+)")
_NO_COLUMN = re.compile(r"no such column: (.+?)(?: - should this be .*)?$|has no column named (.+)")
_NO_FUNCTION = re.compile(r"no such function: (.+)")
_ALIKE = 0.75  # of two names of functions: `regexp` is not meant as `exp`

_LIMITS = (
    (faults.TRANSACTION_TIMEOUT, "", "a transaction has 5 s: put BEGIN to COMMIT into one cell, or write --atomic"),
    (faults.STREAM_EXPIRED, "", "a server-side connection may be idle for 10 s; run the cell again"),
    (faults.STATEMENT_TIMEOUT, "", "ask for less, or help it with an index: EXPLAIN QUERY PLAN shows what it reads"),
    (faults.RESPONSE_TOO_LARGE, "", "ask for fewer rows with LIMIT, or for fewer columns"),
    ("", "too many SQL variables", "a statement takes 32766 values: load more into a table and join it"),
    ("", "string or blob too big", "one value or statement is larger than the server takes: store it in parts"),
    ("", "database or disk is full", "the database has reached its size limit: delete rows, or ask for more room"),
    ("", "database is locked", "another connection is writing: run it again; BEGIN IMMEDIATE takes the turn at once"),
    ("", "unsupported statement", "this server does not have that statement"),
)  # fmt: skip
"""The server's limits, by code or by what the message says, and how to live with them."""


@contextmanager
def added(connection: Connection, others: Mapping[str, Connection]) -> Iterator[None]:
    """Add what helps to the error of a statement that is raised inside."""
    try:
        yield
    except StatementError as error:
        hint = of_name(error, connection, others) or of_limit(error)
        if hint and hint not in str(error):
            error.hint = "\n".join(filter(None, [hint, error.hint]))
        raise


def of_limit(error: PipemagicError) -> str:
    """Say what to do about a limit of the server; '' if the error is none."""
    for code, said, hint in _LIMITS:
        if (code and error.code == code) or (said and said in error.message):
            return hint if not error.hint or said else ""
    return ""


def of_name(error: StatementError, connection: Connection, others: Mapping[str, Connection]) -> str:
    """Name the table, column or function that was meant; '' if nothing is near or nothing was unknown."""
    first = error.message.split("\n", 1)[0]
    if match := _NO_TABLE.search(first):
        name = _bare(match[1])
        return idioms.of_table(name) or _table(name, connection, others)
    place = None if error.offset is None else character_offset(error.sql, error.offset)
    if match := _NO_COLUMN.search(first):
        idiom = idioms.of_column(error.sql, place)
        return idiom or _column(_bare(match[1] or match[2]), error.sql, connection)
    if match := _NO_FUNCTION.search(first):
        instead = idioms.of_function(match[1])
        return _near(match[1], FUNCTIONS, cutoff=_ALIKE) if instead is None else instead
    return "" if place is None or "syntax error" not in first else idioms.of_syntax(error.sql, place)


def _bare(name: str) -> str:
    """Give the last part of a name as a message has it, which has no quotes as a rule: `a.b` is a column of a table."""
    return name.rsplit(".", 1)[-1].strip('"')


def _table(name: str, connection: Connection, others: Mapping[str, Connection]) -> str:
    shapes = connection.schema.tables_within(PATIENCE)
    if hint := _near(name, (shape.name for shape in shapes)):
        return hint
    for other in others.values():
        if other is not connection and name.lower() in (shape.name.lower() for shape in other.schema.tables):
            return f"{written(name)} is a table of the connection {other.name}: --on {other.name}"
    return "%pipedb tables lists what there is" if shapes else ""


def _column(name: str, text: str, connection: Connection) -> str:
    shapes = connection.schema.tables_within(PATIENCE)
    named = {unquote(token.text).lower() for token in tokens(text) if token.kind in ("word", "quoted")}
    inside = [shape for shape in shapes if shape.name.lower() in named]
    if hint := _near(name, (column for shape in inside for column in shape.columns)):
        return hint
    for shape in shapes:
        if name.lower() in (column.lower() for column in shape.columns) and shape not in inside:
            return f"{written(name)} is a column of {written(shape.name)}"
    if len(inside) == 1 and 0 < len(inside[0].columns) <= 12:
        return f"{written(inside[0].name)} has {', '.join(map(written, inside[0].columns))}"
    return ""


def _near(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    found = nearest(name, (one for one in known if one.lower() != name.lower()), cutoff=cutoff)
    return f"did you mean {written(found)}?" if found else ""


def of_refused_token(connection: Connection) -> str:
    """Say how a token that the server no longer takes is renewed, by where it came from."""
    ends = "an open transaction goes on, unless a rotation ended it"
    if connection.platform is not None:
        return f"%pipedb connect {connection.name} makes a new one: {ends}"
    profile = connection.profile
    if profile is None or profile.address is None:
        return f"renew the token and connect again as before: {ends}"
    again = f"%pipedb connect {profile.address}"
    if connection.name != profile.address:
        again += f" --as {connection.name}"
    return f"{new_token(profile.whence, profile.address)}, then connect again: {ends}\n{again}{_option(profile.whence)}"


def new_token(whence: Whence, address: str) -> str:
    """Say where a new token has to go."""
    if whence.env is not None:
        return f"put a new token into the variable {whence.env}"
    if whence.file is not None:
        return f"put a new token into the file {whence.file}"
    if whence.keyring is not None:
        return f"put a new token into the keyring (in a terminal: pipemagic auth store {address})"
    return "put a new token into PIPEMAGIC_TOKEN, or take the variable away to be asked for it"


def _option(whence: Whence) -> str:
    if whence.env is not None:
        return f" --token-env {whence.env}"
    if whence.file is not None:
        return f' --token-file "{whence.file}"'
    return " --keyring" if whence.keyring is not None else ""
