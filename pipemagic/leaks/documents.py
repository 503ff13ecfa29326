"""Where a notebook, or another text file, holds what must not be shared."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipemagic.errors import PipemagicError
from pipemagic.leaks.patterns import Found, find, named_like_a_secret

ALLOWED = "pipemagic: allow"
"""A line of a source or of a file that says so, in a comment, is passed over."""

SUFFIX = ".ipynb"
_PASSED_OVER = frozenset({"node_modules", "__pycache__", "site-packages"})
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\]8;;[^\x1b]*\x1b\\")
_UNSEEN = re.compile(
    "[\u00ad\u200b-\u200d\u2060\ufeff]|</?(?:span|b|i|em|strong|code|font|mark|u|a|wbr)(?:\\s[^<>]{0,500})?/?>"
)
_ESCAPED = re.compile(r"\\u00([2-7][0-9A-Fa-f])|\\x([2-7][0-9A-Fa-f])|%([2-7][0-9A-Fa-f])")
_PATHS = re.compile(r"\s(?:d|points|transform|viewBox)=\\?\"[^\"\\]*\\?\"")  # of SVG: numbers that look like addresses
_MANY = 20  # findings of one place; a column of addresses is one mistake, not a thousand


class Unreadable(PipemagicError):
    """A file is not there, or not what its name says."""

    code = "UNREADABLE"


@dataclass(frozen=True)
class Leak:
    """Something in a file: ``cell`` is ``3`` or ``notebook``, or the line of another file; ``where`` is what of it."""

    path: Path
    cell: str
    where: str
    kind: str
    text: str


def walk(path: Path) -> Iterator[Path]:
    """Give a file itself, and the notebooks in a folder and below; hidden folders are passed over."""
    if not path.is_dir():
        yield path
        return
    for below in sorted(path.iterdir()):
        hidden = below.name.startswith(".") or below.name in _PASSED_OVER
        if (below.is_dir() and not hidden and not below.is_symlink()) or (below.is_file() and below.suffix == SUFFIX):
            yield from walk(below)


def read(path: Path) -> Iterator[Leak]:
    """Find everything in a notebook, or in another text file; Unreadable if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable(f"{path} is not text in UTF-8") from None
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from None
    return _of_notebook(path, text) if path.suffix == SUFFIX else _of_text(path, text)


def _of_text(path: Path, text: str) -> Iterator[Leak]:
    lines, number, end = text.split("\n"), 0, 0
    for one in sorted(find(text), key=lambda one: one.start):
        while one.start >= end + len(lines[number]) + 1:
            end += len(lines[number]) + 1
            number += 1
        if ALLOWED not in lines[number]:
            yield Leak(path, str(number + 1), "text", one.kind, one.text)


def _of_notebook(path: Path, text: str) -> Iterator[Leak]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable(f"{path} is not a notebook: it is not JSON") from None
    if not isinstance(document, dict):
        raise Unreadable(f"{path} is not a notebook")
    for cell, where, value in _places(document):
        seen: set[tuple[str, str]] = set()
        for one in _in_value(value, source=where == "source"):
            if (one.kind, one.text) not in seen and len(seen) < _MANY:
                seen.add((one.kind, one.text))
                yield Leak(path, cell, where, one.kind, one.text)


def _places(document: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Take a notebook apart: cell, what of it, and the JSON that is there. Nothing is left out."""
    cells = document.get("cells")
    for number, cell in enumerate(cells if isinstance(cells, list) else (), start=1):
        if not isinstance(cell, dict):
            yield str(number), "cell", cell
            continue
        for key, value in cell.items():
            if key == "outputs" and isinstance(value, list):
                yield from _outputs(str(number), value)
            else:
                yield str(number), key if key in _KEYS else "cell", value if key in _KEYS else {key: value}
    for key, value in document.items():
        if key == "metadata" and isinstance(value, dict):
            for name, inside in value.items():
                yield "notebook", "widgets" if name == "widgets" else "metadata", {name: inside}
        elif key != "cells" or not isinstance(value, list):
            yield "notebook", "document", {key: value}


_KEYS = frozenset({"source", "metadata", "attachments", "id"})


def _outputs(cell: str, outputs: list[Any]) -> Iterator[tuple[str, str, Any]]:
    for number, output in enumerate(outputs, start=1):
        rest = dict(output) if isinstance(output, dict) else {"output": output}
        data = rest.pop("data", None)
        if isinstance(data, dict):
            for mime, value in data.items():
                yield cell, f"output {number} {mime}" if _is_mime(mime) else f"output {number}", {mime: value}
        elif data is not None:
            rest["data"] = data
        what = rest.get("name") if rest.get("output_type") == "stream" else rest.get("output_type")
        known = what if what in ("stdout", "stderr", "error") else "metadata"
        yield cell, f"output {number} {known}", rest


def _is_mime(text: str) -> bool:
    return bool(re.fullmatch(r"[a-z]+/[a-z0-9.+-]{1,60}", text))


def _in_value(value: Any, *, source: bool = False) -> Iterator[Found]:
    """Find everything in JSON: in its texts, in its keys, and where a key is the name of a secret."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield from _in_text(one, source=source)
        elif isinstance(one, dict):
            for key, inside in one.items():
                yield from find(key)
                if isinstance(inside, str) and named_like_a_secret(key, inside):
                    yield Found("password or token", inside, 0)
                waiting.append(inside)
        elif isinstance(one, list):
            if one and all(isinstance(line, str) for line in one):  # the lines of one text, or words
                yield from _in_text("".join(one), source=source)
                if not all(line.endswith("\n") for line in one[:-1]):
                    waiting.extend(one)
            else:
                waiting.extend(one)


def _in_text(text: str, *, source: bool) -> Iterator[Found]:
    if source:
        text = "\n".join("" if ALLOWED in line else line for line in text.split("\n"))
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    if "<svg" in text or "<path" in text:
        text = _PATHS.sub(" ", text)
    for reading in dict.fromkeys((text, *_readings(text))):
        yield from find(reading)


def _readings(text: str) -> Iterator[str]:
    """Give what the text says to those who see it, or decode it, where that is something else."""
    if "&" in text:
        text = html.unescape(text)
        yield text
    if _UNSEEN.search(text):
        text = _UNSEEN.sub("", text)
        yield text
    if _ESCAPED.search(text):
        yield _ESCAPED.sub(lambda match: chr(int(match[1] or match[2] or match[3], 16)), text)
