"""Read the SQL of a cell from its text, a file or a variable (``{query}``), and the values of ``--params``.

Elsewhere in a cell ``{name}`` is a quoted name (`pipemagic.session.parameters`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipemagic import sql
from pipemagic.errors import UsageError
from pipemagic.notebook.arguments import has_password
from pipemagic.sql import Token
from pipemagic.suggestions import did_you_mean
from pipemagic.text import shorten

if TYPE_CHECKING:
    from pipemagic.session.parameters import ParameterRef

_BLANK = ("space", "comment", "semi")

_STATEMENT = re.compile(
    r"(ALTER|ANALYZE|ATTACH|BEGIN|COMMIT|CREATE|DELETE|DETACH|DROP|END|EXPLAIN|INSERT|PRAGMA|REINDEX|RELEASE"
    r"|REPLACE|ROLLBACK|SAVEPOINT|SELECT|UPDATE|VACUUM|VALUES|WITH)\Z",
    re.IGNORECASE,
)


def starts_statement(word: str) -> bool:
    """Return True if a SQL statement can start with the word."""
    return _STATEMENT.match(word) is not None


def refuse_addresses(text: str) -> None:
    """Raise UsageError for an address outside strings and comments: later errors would show its password."""
    texts = [token.text for token in sql.tokens(text)]
    if any(texts[at : at + 3] == [":", "/", "/"] for at in range(len(texts))):
        raise UsageError("the SQL contains an address", hint="write %pipedb connect ADDRESS first, without a password")


def read_file(path: str) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark; raise UsageError if it cannot be read."""
    file = Path(os.path.expanduser(path))
    try:
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path} is not UTF-8: byte {error.object[error.start]:#04x} on line {line}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"cannot read {path}: {why}") from None


# -- the SQL in a variable


class SqlVariable(NamedTuple):
    """The SQL in a variable, the name of the variable, and the name of the first statement (``-- name: x``) or ''."""

    text: str
    source: str
    name: str


def text_of_variable(text: str, values: Mapping[str, Any], variables: Mapping[str, Any]) -> SqlVariable | None:
    """Return the variable that a cell consists of; None for another cell.

    The variable is one of the ``values`` of the cell's parameters, or else one of the ``variables`` of the notebook.
    Raise ParameterError if it contains no SQL, and for a cell that is only a parameter (``$query``).
    """
    from pipemagic.session.cell import name_between
    from pipemagic.session.parameters import ParameterRef

    tokens = _first_tokens(text, 4)
    if not tokens:
        return None
    written, where = text[tokens[0].start : tokens[-1].end], f"line {sql.position(text, tokens[0].start)[0]}"
    if [token.kind for token in tokens] == ["param"] and written[1:].isidentifier():
        ref = ParameterRef(written[1:], written, where)
        if _is_address(variables.get(ref.name)):
            raise ref.error("is an address, not SQL", f"%pipedb connect {{{ref.name}}}")
        raise ref.error("is a value, not SQL", f"to run the SQL in the variable {ref.name}, write {{{ref.name}}}")
    if not _is_name_in_braces(tokens):
        return None
    ref = ParameterRef(tokens[1].text, f"{{{tokens[1].text}}}", where)
    query = _query(ref.look_up(values if ref.name in values else variables), ref)
    return SqlVariable(query, ref.name, name_between(text, 0, tokens[0].start))


def _first_tokens(text: str, most: int) -> list[Token]:
    return list(islice((token for token in sql.tokens(text) if token.kind not in _BLANK), most))


def _is_name_in_braces(tokens: Sequence[Token]) -> bool:
    return [token.text for token in (*tokens[:1], *tokens[2:])] == ["{", "}"] and tokens[1].text.isidentifier()


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and ("://" in value or has_password(value)) and len(value.split()) == 1


def _query(value: Any, ref: ParameterRef) -> str:
    """Return the text in a variable; raise ParameterError if it cannot be SQL."""
    if not isinstance(value, str):
        hint = f"a line that is only {ref.text} runs the SQL text in that variable"
        if isinstance(value, os.PathLike):
            hint = f"to run a file: %sql --file {os.fspath(value)}"
        raise ref.error(f"must be SQL in a str, not {type(value).__name__}", hint)
    text = str.__str__(value)
    if _is_address(text):
        raise UsageError(f"{ref.text} contains an address, not SQL", hint=f"%pipedb connect {ref.text}")
    words = _first_tokens(text, 2)
    if not words:
        raise ref.error("contains no SQL", f"assign a statement: {ref.name} = 'SELECT ...'")
    if len(words) == 1 and words[0].kind in ("word", "quoted") and not starts_statement(words[0].text):
        raise ref.error(f"contains a name, not SQL: {shorten(words[0].text, 40)}", f"write SELECT * FROM {ref.text}")
    refuse_addresses(text)
    return text


# -- --params


def parameter_values(name: str, variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of ``--params``: JSON, or the name of one of the ``variables`` visible to the magic."""
    if name.lstrip().startswith("{"):
        return _from_json(name)
    if name not in variables:
        hint = did_you_mean(name, [key for key in variables if not key.startswith("_")])
        hint = hint or "to pass values directly, use JSON: --params '{\"name\": 1}'"
        raise UsageError(f"--params: name {name!r} is not defined", hint=hint)
    values = variables[name]
    if not isinstance(values, Mapping):
        raise UsageError(f"--params: {name} must be a dict, not {type(values).__name__}")
    return values


def _from_json(text: str) -> Mapping[str, Any]:
    import json

    def refuse(number: str) -> None:
        raise UsageError(f"--params: {number} is not valid JSON")

    try:
        values: Mapping[str, Any] = json.loads(text, parse_constant=refuse)
    except ValueError as error:
        hint = "write '{\"name\": value}', in single quotes"
        raise UsageError(f"--params is not valid JSON: {error}", hint=hint) from None
    return values
