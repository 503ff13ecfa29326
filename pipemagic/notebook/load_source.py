"""Find the source of `%pipedb load`, a frame in a variable or a file; suggest lines that work for anything else.

Errors about a missing table whose name is that of a frame have the line that loads it.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from pipemagic.errors import LoadError, PipemagicError, UnknownName, UsageError
from pipemagic.notebook.arguments import refuse_secrets
from pipemagic.suggestions import did_you_mean

FILE_FRAME = "frame"
"""The name of the variable for the rows of a file in messages."""

_OPTIONS = re.compile(r"(?:\A|\s)--")
_BRACES = re.compile(r"\s*\{\s*[^\W\d]\w*[^\s,]*(?:\s|\Z)")
_EXPRESSIONS = (
    ast.Call, ast.Subscript, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.DictComp, ast.IfExp, ast.Compare,
)  # fmt: skip
"""Expressions that are neither a variable nor a path; in Python, ``data/flights.csv`` is a division."""

_READER_OPTION = re.compile(r"[\s,]*([^\W\d]\w*)\s*=\s*")
_PIECE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|.""", re.DOTALL)

_MISSING = re.compile(r"no such table: (?:main\.)?(.+)")  # in a message of SQLite
_LIST_TABLES = "%pipedb tables"


def reader_options(text: str, name: str) -> list[str]:
    """Split ``sep=';' names=['a', 'b']`` at spaces and commas, except inside quotes and brackets."""
    options, at = [], 0
    while text[at:].strip(" \t,"):
        match = _READER_OPTION.match(text, at)
        if match is None:
            shown = text[at:].strip()[:40]
            raise UsageError(f"options after {name} must be name=value, as in -- sep=';', not {shown!r}")
        value, depth = "", 0
        for piece in _PIECE.findall(text[match.end() :]):
            depth += (piece in "([{") - (piece in ")]}")
            if depth == 0 and (piece.isspace() or piece == ","):
                break
            value += piece
        options.append(f"{match[1]}={value}")
        at = match.end() + len(value)
    if not options:
        raise UsageError(f"{name} requires an option for the reader, as in -- sep=';'")
    return options


def refuse_expression(line: str, variables: Mapping[str, object]) -> None:
    """Raise UsageError, with the lines that work, if an expression such as ``f.head(1)`` is to be loaded."""
    options = _OPTIONS.search(line)
    if _BRACES.match(line):
        return  # not a set: the value of a variable
    text = line[: options.start()].strip() if options else line.strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of a path with backslashes
            nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return
    if not any(isinstance(node, _EXPRESSIONS) for node in nodes) or _exists(text):
        return
    refuse_secrets(line)
    if "@" in text:  # it may contain a password
        raise UsageError("load requires a variable or a file, not an expression", hint="assign it to a variable first")
    read = sorted((node.col_offset, node.id) for node in nodes if isinstance(node, ast.Name))
    frames = [name for _, name in read if name in variables and not isinstance(variables[name], ModuleType)]
    new = new_name(frames[0] if frames else "frame", variables)
    rest = line[options.start() :].rstrip() if options else ""
    lines = f"assign it to a variable first:\n{new} = {text}\n%pipedb load {new}{rest}"
    raise UsageError(f"load requires a variable or a file, not the expression {text[:60]}", hint=lines)


def find_source(name: str, variables: Mapping[str, object], line_with: Callable[[str], str]) -> object:
    """Return the frame in a variable or attribute (``flights``, ``data.flights``), or the `Path` of a file.

    ``line_with`` returns the line of the user with another source, for messages.
    """
    from pipemagic.frames.any_frame import is_frame, kind_of
    from pipemagic.text import word

    value, undefined = _variable(name, variables)
    path = Path(name).expanduser()
    if undefined is not None:
        if _is_file(name, path):
            return path
        raise undefined
    if is_frame(value):
        return value
    message = f"{name} is {kind_of(value)}, not a DataFrame"
    if isinstance(value, str | os.PathLike) and _exists(value):
        raise UsageError(message, hint=f"load the file:\n{line_with(word(os.fspath(value)))}")
    lines = _lines(name, value, variables, line_with)
    if not lines and _exists(path):
        lines = [line_with(word(f"./{name}"))]
    raise UsageError(message, hint="\n".join(lines))


@contextmanager
def fixes_of_file(path: object, line_with: Callable[[str], str]) -> Iterator[None]:
    """Complete the hint of a LoadError that assigns columns: the rows of a file are not in a variable yet."""
    from pipemagic.frames.any_frame import assigns

    try:
        yield
    except LoadError as error:
        if not assigns(error.hint, FILE_FRAME):
            raise
        load = line_with(FILE_FRAME).partition(" -- ")[0]
        raise error.replace(hint=f"{_reading(str(path))}\n{error.hint}\n{load}") from None


def _reading(path: str) -> str:
    """Return the line that reads a file into a variable, with the same values as load."""
    suffix = Path(path).suffix.lower()
    text = f"pathlib.Path({path!r}).read_text('utf-8')"
    match suffix:
        case ".json":
            return f"import json, pandas, pathlib; {FILE_FRAME} = pandas.DataFrame(json.loads({text}), dtype=object)"
        case ".jsonl" | ".ndjson":
            rows = f"[json.loads(line) for line in {text}.split('\\n') if line]"
            return f"import json, pandas, pathlib; {FILE_FRAME} = pandas.DataFrame({rows}, dtype=object)"
        case ".parquet":
            return f"import pandas; {FILE_FRAME} = pandas.read_parquet({path!r}, dtype_backend='pyarrow')"
        case ".xlsx" | ".xlsm":
            return f"import pandas; {FILE_FRAME} = pandas.read_excel({path!r})"
    return f"# read the file into {FILE_FRAME} first"


def _variable(name: str, variables: Mapping[str, object]) -> tuple[object, UsageError | None]:
    """Return the value of a variable or attribute, or the error if it does not exist."""
    first, *attributes = name.split(".")
    if first not in variables:
        hint = did_you_mean(first, [key for key in variables if key[:1] != "_"])
        return None, UsageError(f"name {first!r} is not defined", hint=hint)
    value = variables[first]
    for attribute in attributes:
        if not hasattr(value, attribute):
            return None, UsageError(f"{first} has no attribute {attribute!r}")
        value = getattr(value, attribute)
    return value, None


def _is_file(name: str, path: Path) -> bool:
    """Return True if a name that is not a variable is the name of a file, which may be missing."""
    from pipemagic.frames.readers import is_file_name

    return is_file_name(name) or "/" in name or os.sep in name or _exists(path)


def _exists(value: object) -> bool:
    try:
        return Path(value).expanduser().is_file()  # type: ignore[arg-type]
    except (OSError, ValueError, TypeError, RuntimeError):  # a name that is too long, no home folder
        return False


def _lines(name: str, value: object, variables: Mapping[str, object], line_with: Callable[[str], str]) -> list[str]:
    """Return the lines that convert a variable to a frame and load it; none if no conversion is known."""
    from pipemagic.frames.any_frame import conversion

    expression = conversion(value, name)
    imports: list[str] = []
    if not expression:
        return []
    for package in ("pandas", "pyarrow"):
        if expression.startswith(f"{package}."):
            module = sys.modules[package]
            called = next((key for key, variable in variables.items() if variable is module), package)
            imports = [] if variables.get(called) is module else [f"import {package}"]
            expression = f"{called}{expression.removeprefix(package)}"
    new = new_name(name.rpartition(".")[2], variables)
    return [*imports, f"{new} = {expression}", line_with(new)]


def new_name(name: str, variables: Mapping[str, object]) -> str:
    """Return an unused variable name, derived from another name."""
    base = name.rstrip("0123456789") or name
    return next(new for number in count(1) if (new := f"{base}{number}") not in variables)


# -- the hint for a missing table


def add_load_hint(error: PipemagicError, variables: Mapping[str, Any], on: str | None) -> PipemagicError:
    """Return the error, with the line that loads the frame if one has the name of the missing table.

    A value that can be converted to a frame, such as a Series, has the line that does it. ``on`` is the connection that
    was named, None for the current one.
    """
    if isinstance(error, UnknownName):
        name = error.relation
    else:
        match = _MISSING.search(error.message.split("\n", 1)[0])
        name = match[1].strip('"') if match else ""
    frame = _find_frame(name, variables)
    from pipemagic.frames.any_frame import conversion, kind_of
    from pipemagic.session.frames import IS_RESULT
    from pipemagic.text import word

    value = variables.get(name)
    if frame is None and not isinstance(value, Mapping | Sequence | Set) and (expression := conversion(value, name)):
        hint = f"{name} is {kind_of(value)}, not a DataFrame:\n{name} = {expression}"
        return error.replace(hint="\n".join(filter(None, [hint, error.hint])))
    if frame is None:
        return error

    line = f"%pipedb load {frame} --table {name}{f' --on {word(on)}' if on else ''}"
    rest = error.hint.partition("\n")[2] if error.hint.startswith(_LIST_TABLES) else error.hint
    if IS_RESULT in rest:
        return error.replace(hint=rest)
    hint = "\n".join(filter(None, [f"{frame} is {kind_of(variables[frame])} in the notebook; load it:\n{line}", rest]))
    return error.replace(hint=hint)


def _find_frame(name: str, variables: Mapping[str, Any]) -> str | None:
    """Return the variable of that name, ignoring case, if it holds a frame."""
    if not name.isidentifier():
        return None
    from pipemagic.frames.any_frame import is_frame

    names = [name] if name in variables else [variable for variable in variables if variable.lower() == name.lower()]
    return next((variable for variable in names if is_frame(variables[variable])), None)
