"""Exercises: the cell in which a teacher writes one, and the file that students get.

A cell is a header of ``-- key: value`` comments and the reference SQL::

    -- task: How many flights of each airline left more than an hour late?
    -- points: 2
    -- hint: dep_delay contains minutes.
    SELECT carrier, count(*) AS late FROM flights WHERE dep_delay > 60 GROUP BY carrier

The file contains neither the reference SQL nor the hidden data.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec

from pipemagic import sql
from pipemagic.errors import SessionError
from pipemagic.frames.files import new_file
from pipemagic.suggestions import did_you_mean
from pipemagic.teaching.exercises.comparison import Rules
from pipemagic.teaching.exercises.constructs import check_names

if TYPE_CHECKING:
    from pandas import DataFrame

NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
"""Matches the name of an exercise, which is also the name of its file."""

_KEY = re.compile(r"--\s?([A-Za-z]+):\s*(.*)")
_CONTINUED = re.compile(r"--\s{2,}(\S.*)")


Kind: TypeAlias = Literal["", "rows", "columns", "indexes", "foreign keys", "objects"]


class Probe(msgspec.Struct, frozen=True, omit_defaults=True):
    """A result to compare: of the student's last query, or of a query on the state afterwards.

    ``label`` describes the result, ``sql`` is the query; ``sql`` is '' for the student's own result, ``label`` too
    unless the state is compared as well. ``expected`` are the packed columns and rows (see `pack`); without them
    ``digest`` is the digest of the result with ``salt``, and ``columns``, ``rows`` and ``unordered`` are its columns,
    its number of rows, and its digest in any order if the order counts. ``kind`` is what a query on the table with the
    name ``label`` returns; objects are tables, views and triggers, of which the answer must create those in
    ``created``.
    """

    label: str = ""
    sql: str = ""
    rules: Rules = Rules()
    expected: str = ""
    digest: str = ""
    salt: str = ""
    columns: tuple[str, ...] = ()
    rows: int = -1
    unordered: str = ""
    kind: Kind = ""
    created: tuple[str, ...] = ()


class Table(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table with which an exercise was made: the number of its rows, its columns, a digest of the rows or ''.

    If an answer changes and commits it, it has ``definitions`` (kind, name and SQL of the table, its indexes and
    triggers), its packed rows and the largest key of AUTOINCREMENT.
    """

    name: str
    rows: int = 0
    columns: tuple[str, ...] = ()
    digest: str = ""
    definitions: tuple[tuple[str, str, str], ...] = ()
    content: str = ""
    sequence: int | None = None


class Exercise(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exercise as its file contains it.

    ``baseline`` is the score of the state before an answer, which gets no points. ``variable`` is the DataFrame that
    contains the answer, '' for an answer in SQL. ``tables`` are those that the reference reads, before an answer, and
    ``created`` the names of those that an answer creates and commits.
    """

    name: str
    task: str = ""
    points: float = 1
    hints: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()
    baseline: float = 0
    variable: str = ""
    tables: tuple[Table, ...] = ()
    created: tuple[str, ...] = ()

    @property
    def commits(self) -> bool:
        """True if an answer changes tables and commits them."""
        return bool(self.created or any(table.definitions for table in self.tables))

    def save(self, folder: Path) -> Path:
        """Write the file of the exercise and return its path; a file with the same exercise is kept as it is."""
        path = folder / f"{self.name}.json"
        content = msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"
        if path.exists() and path.read_bytes() == content:
            return path
        folder.mkdir(parents=True, exist_ok=True)
        with new_file(path) as draft:
            draft.write_bytes(content)
        return path


def load(name: str, folder: Path) -> Exercise:
    """Read an exercise from its file; raise SessionError if there is none."""
    path = folder / f"{name}.json"
    if not NAME.fullmatch(name) or not path.exists():
        names = sorted(file.stem for file in folder.glob("*.json"))
        hint = (
            did_you_mean(name, names)
            or f"{path} is missing: run the %%exercise cell that writes it, or copy your teacher's folder"
        )
        raise SessionError(f"no such exercise: {name}", hint=hint)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Exercise)
    except msgspec.DecodeError as error:
        hint = "copy the file from your teacher's folder again"
        raise SessionError(f"{path} is not a valid exercise file: {error}", hint=hint) from None


def pack(frame: DataFrame) -> str:
    """Return a frame of SQL values as text in which a reader sees no values; it is not encrypted."""
    rows = frame.to_numpy(dtype=object).tolist()
    return b64encode(msgspec.msgpack.encode((list(frame.columns), rows))).decode()


def unpack(packed: str) -> DataFrame:
    """Return the frame of `pack`."""
    columns, rows = msgspec.msgpack.decode(b64decode(packed))
    return frame_of(columns, rows)


def frame_of(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> DataFrame:
    """Return SQL values as a frame of objects, so that pandas converts none."""
    from pandas import DataFrame

    return DataFrame(list(rows), columns=list(columns), dtype=object)


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What a teacher writes: the keys of the header, and the reference SQL.

    ``hidden`` are statements that change the data, ``solution`` the lines of a cell that solves the exercise. ``after``
    is no key: the cell before the exercise in the students' notebook, or the first line of its check.
    """

    name: str
    sql: str
    title: str = ""
    task: str = ""
    points: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 1
    hint: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    columns: Literal["any order", "in order"] = "any order"
    names: Literal["checked", "ignored"] = "checked"
    feedback: Literal["full", "pass or fail"] = "full"
    tolerance: Annotated[float, msgspec.Meta(ge=0, lt=1)] = Rules().tolerance
    state: tuple[str, ...] = ()
    hidden: str = ""
    solution: str = ""
    variable: str = ""
    after: str = ""

    @property
    def is_query(self) -> bool:
        """True if the reference ends with a query; its result is then compared."""
        return sql.split(self.sql)[-1].is_query

    @property
    def in_cells(self) -> bool:
        """True if the answer is not SQL below %%check."""
        return bool(self.solution or self.variable)

    @property
    def commits(self) -> bool:
        """True if the answer is in other cells, which commit its changes."""
        return bool(self.solution and not self.variable)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that name the tables of the exercise."""
        return (self.sql, *self.state, self.solution if self.commits else "")

    def exercise(
        self, probes: Sequence[Probe], baseline: float = 0, tables: Sequence[Table] = (), created: Sequence[str] = ()
    ) -> Exercise:
        """Return the exercise for students, without the reference."""
        return Exercise(
            name=self.name, task=self.task, points=self.points, hints=self.hint, requires=self.requires,
            forbids=self.forbids, probes=tuple(probes), baseline=baseline, variable=self.variable,
            tables=tuple(tables), created=tuple(created),
        )  # fmt: skip


KEYS = Definition.__struct_fields__[2:-1]
"""The keys of a teacher's cell."""

_JOINERS = {"task": " ", "hidden": ";\n", "solution": "\n"}
"""What joins the values of a key that may occur several times and has one value."""


def parse_cell(name: str, text: str) -> Definition:
    """Return the definition in a teacher's cell; raise SessionError for a key or a value that is not valid."""
    if not NAME.fullmatch(name):
        raise _invalid(f"{name!r} is not a valid name: use a letter, then letters, digits, _ and -")
    header, body = _split(text)
    if not sql.split(body):
        raise _invalid(f"{name} has no reference SQL below its header")
    values = {key: _value(key, lines) for key, lines in header.items()}
    check_names([*values.get("requires", ()), *values.get("forbids", ())])
    try:
        return msgspec.convert({"name": name, "sql": body, **values}, Definition, strict=False)
    except msgspec.ValidationError as error:
        message, _, key = str(error).partition(" - at `$.")
        raise _invalid(f"{key.rstrip('`')}: {message}") from None


def _split(text: str) -> tuple[dict[str, list[str]], str]:
    """Return the values of each key in the header of a cell, and the text below it."""
    header: dict[str, list[str]] = {}
    lines, key = text.strip("\n").split("\n"), ""
    for number, line in enumerate(lines):
        if match := _KEY.match(line):
            key = match[1].lower()
            if key not in KEYS:
                raise _invalid(f"unknown key {key!r}", did_you_mean(key, KEYS))
            header.setdefault(key, []).append(match[2].rstrip())
        elif line.strip() in ("", "--"):
            continue
        elif key and (match := _CONTINUED.match(line)):
            header[key][-1] += f"{_JOINERS['solution'] if key == 'solution' else ' '}{match[1]}"
        else:
            return header, "\n".join(lines[number:]).strip()
    return header, ""


def _value(key: str, lines: list[str]) -> Any:
    """Return the value of a key that occurs once or several times."""
    if key in _JOINERS:
        return _JOINERS[key].join(lines)
    if key in ("requires", "forbids"):
        return [item.strip() for item in ",".join(lines).split(",") if item.strip()]
    if key in ("hint", "state"):
        return lines
    if len(lines) > 1:
        raise _invalid(f"duplicate key {key!r}")
    return lines[0]


def _invalid(message: str, hint: str = "") -> SessionError:
    return SessionError(f"invalid exercise: {message}", hint=hint or f"the keys are {', '.join(KEYS)}")
