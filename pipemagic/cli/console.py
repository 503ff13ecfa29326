"""Input and output of the commands: lines, tables, CSV, JSON and confirmations."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import click

from pipemagic.errors import PipemagicError, SessionError
from pipemagic.text import display_width, escape_controls, mask_passwords, text_table

SqlRows = Sequence[Sequence[Any]]
"""The rows of a result, with Python's values."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def absolute_path(text: str) -> Path:
    """Convert the name of a file or folder; ``-`` stays as it is."""
    return Path(text) if text == "-" else Path(os.path.expanduser(text)).absolute()


def check_exclusive(names: Iterable[str], options: Mapping[str, Any]) -> None:
    """Raise a usage error if more than one of the named options was given."""
    flags = [f"--{name.removeprefix('as_').replace('_', '-')}" for name in names if options[name]]
    if len(flags) > 1:
        raise click.UsageError(f"{' and '.join(flags)} cannot be used together.", click.get_current_context())


# -- lines


def print_line(line: str = "", *, err: bool = False) -> None:
    """Print a line; in a terminal, escape control characters, since names and messages may come from others."""
    stream = sys.stderr if err else sys.stdout
    # Without `color`, click would remove escape sequences, which may be part of the data.
    click.echo(escape_controls(line, keep="\n\t") if stream.isatty() else line, err=err, color=True)


def print_note(line: str) -> None:
    """Print a line that is not part of the result to standard error, without passwords in addresses."""
    print_line(mask_passwords(line), err=True)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error, if that is a terminal; its function takes how many are done, and of how many."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr, show_pos=True) as bar:

        def progress(done: int, of: int) -> None:
            bar.length = of
            bar.update(done - bar.pos)

        yield progress


def print_error(error: PipemagicError) -> None:
    """Print the message and the hint of an error."""
    print_note(f"Error: {error.message}")
    if error.hint:
        print_note(f"Hint: {error.hint}")


# -- questions


def prompt(kind: Callable[..., Any], text: str, **options: Any) -> Any:
    """Call a prompt of click (``kind``) so that all of it goes to standard error."""
    with redirect_stdout(sys.stderr):  # `err` is not enough: a part still goes to standard output before click 8.4
        return kind(text, **options)


def confirm(question: str, *, yes: bool) -> None:
    """Raise `SessionError` unless the user agrees or ``yes`` is set."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise SessionError(f"confirmation required: {question}", hint="use --yes (-y) to confirm")
    if not prompt(click.confirm, question):
        raise SessionError("nothing was changed")


def confirm_name(question: str, name: str, typed: str) -> None:
    """Raise `SessionError` unless the user types a name; ``typed`` is the name if an option has it, '' to ask."""
    if not typed and not sys.stdin.isatty():
        raise SessionError(f"confirmation required: {question}", hint=f"use --confirm {name} to confirm")
    if (typed or prompt(click.prompt, f"{question} Type {name} to confirm", default="", show_default=False)) != name:
        raise SessionError(f"nothing was changed: you did not type {name}")


# -- values, records and rows


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print_line(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns below headers in capitals."""
    for line in text_table([[header.upper() for header in headers], *rows]):
        print_line(line)


def print_records(headers: Sequence[str], rows: Sequence[Sequence[str | None]], *, as_json: bool) -> None:
    """Print rows as a table, or as JSON objects whose keys are the headers with underscores."""
    if as_json:
        keys = [header.replace(" ", "_") for header in headers]
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        print_table(headers, [[cell or "" for cell in row] for row in rows])


def print_fields(**fields: str) -> None:
    """Print one field on each line."""
    width = max(map(len, fields)) + 2
    for name, value in fields.items():
        print_line(f"{name + ':':<{width}}{value}".rstrip())


def format_table(columns: Sequence[str], rows: SqlRows) -> Iterator[str]:
    """Return the lines of a table of SQL values; numbers are aligned to the right."""
    to_right = [_is_numeric(column) for column in zip(*rows, strict=True)]
    cells = [list(map(escape_controls, columns)), *(list(map(_table_cell, row)) for row in rows)]
    rule = ["-" * max(map(display_width, column)) for column in zip(*cells, strict=True)]
    return text_table([cells[0], rule, *cells[1:]], to_right)


def format_csv(columns: Sequence[str], rows: SqlRows) -> Iterator[str]:
    """Return the lines of CSV (RFC 4180) with a header: NULL is empty, an empty text is ``""``."""
    for row in (columns, *rows):
        yield ",".join(map(_csv_cell, row))


def format_json(columns: Sequence[str], rows: SqlRows) -> Iterator[str]:
    """Return a JSON array of objects, one on each line; blobs as ``{"base64": ...}``, infinity as text."""
    keys = _distinct(columns)
    lines = [json.dumps(dict(zip(keys, map(_json_cell, row), strict=True)), ensure_ascii=False) for row in rows]
    yield "[" + ",\n ".join(lines) + "]"


FORMATS: dict[str, Callable[[Sequence[str], SqlRows], Iterable[str]]] = {
    "csv": format_csv, "json": format_json, "table": format_table,
}  # fmt: skip


def _is_numeric(column: Iterable[Any]) -> bool:
    values = [value for value in column if value is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _table_cell(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"x'{value.hex()}'"
        case "NULL":
            return "'NULL'"  # the text
    return escape_controls(str(value))


def _csv_cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bytes():
            return value.hex()
        case str() if not value or re.search(r'[",\r\n]', value):
            return '"' + value.replace('"', '""') + '"'
    return str(value)


def _json_cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode("ascii")}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _distinct(names: Sequence[str]) -> list[str]:
    """Return a different key for each column."""
    keys: list[str] = []
    for name in names:
        key, number = name, 1
        while key in keys:
            key, number = f"{name}:{number}", number + 1
        keys.append(key)
    return keys
