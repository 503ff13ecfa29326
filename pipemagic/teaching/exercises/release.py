"""Release a teacher's notebook: replace each ``%%exercise`` cell by its task and a cell for the answer.

The students' notebook contains no outputs and nothing of the reference. A notebook for a grader contains the solutions
and the hidden checks in the form in which the grader's own command removes them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from string import Template
from textwrap import dedent
from typing import Any, Literal

import msgspec

from pipemagic.errors import SessionError
from pipemagic.teaching.exercises.exercise import Definition, Exercise, load, parse_cell
from pipemagic.teaching.exercises.files import Files, copy_files, given_files, left_files, named_files

Cell = dict[str, Any]
Grader = Literal["nbgrader", "otter"]

TEACHER = "teacher"
"""The tag of cells that are not released."""

_EXERCISE = re.compile(r"%%exercise[ \t]+(\S+)[ \t]*(.*)\n?")
_FOLDER = re.compile(r"^[ \t]*%config[ \t]+PipeMagic\.exercises[ \t]*=[ \t]*[\"'](.*)[\"'][ \t]*\n?", re.MULTILINE)
_KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_SQL_CELLS = ("%%sql", "%%check")
_OTTER = "# ASSIGNMENT CONFIG\ntests:\n  ok_format: false\nexport_cell:\n  pdf: false\nfiles:"


@dataclass(frozen=True)
class Source:
    """The exercises in a teacher's notebook, the folder of their files, and the files that the notebook needs.

    ``left`` are the names of other files beside the notebook.
    """

    definitions: list[Definition]
    folder: Path
    files: Files
    left: Sequence[str] = ()

    @classmethod
    def find(cls, notebook: Mapping[str, Any], beside: Path, files: Sequence[Path] = ()) -> Source:
        """Find the exercises in a notebook of the folder ``beside``, and the files that it needs.

        Without ``files`` it needs those that its cells name.
        """
        definitions = [exercise[0] for _, exercise in _exercises(notebook) if exercise]
        names = [definition.name for definition in definitions]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise SessionError(
                f"{repeated[0]} is defined twice", hint="give each exercise its own name, which is also its file name"
            )
        folders = _FOLDER.findall("\n".join(map(_text, notebook["cells"])))
        folder = beside / (folders[-1] if folders else "exercises")
        if files:
            return cls(definitions, folder, given_files(files, beside))
        texts = [(cell["cell_type"], _text(cell)) for cell in notebook["cells"] if not _is_for_teacher(cell)]
        named = named_files(texts, beside, without=folder.resolve())
        return cls(definitions, folder, named, left_files(named, beside, without=folder.resolve()))

    def fingerprints(self) -> dict[str, str]:
        """Return the fingerprint of each exercise; raise SessionError if its file is missing or older than its cell."""
        exercises = [load(definition.name, self.folder) for definition in self.definitions]
        for definition, exercise in zip(self.definitions, exercises, strict=True):
            if definition.exercise(exercise.probes, exercise.baseline, exercise.tables, exercise.created) != exercise:
                hint = "run the teacher's notebook to write the files of its exercises again"
                raise SessionError(f"the file of {exercise.name} is older than its cell", hint=hint)
        return {exercise.name: fingerprint(exercise) for exercise in exercises}


def fingerprint(exercise: Exercise) -> str:
    """Return a digest of an exercise, by which graders recognize the teacher's file."""
    return sha256(msgspec.json.encode(exercise)).hexdigest()[:16]


def release_file(
    source: Path, target: Path, grader: Grader | None = None, *, solved: bool = False, files: Sequence[Path] = ()
) -> Source:
    """Release a notebook to a file, beside it the files of its exercises and those that it needs; return its source.

    By default the notebook needs the files that its cells name.
    """
    import nbformat

    notebook, folder = read(source), target.parent / "exercises"
    exercises = Source.find(notebook, source.parent, files)
    fingerprints = exercises.fingerprints()
    folder.mkdir(parents=True, exist_ok=True)
    for name in fingerprints if folder.resolve() != exercises.folder.resolve() else ():
        shutil.copy(exercises.folder / f"{name}.json", folder)
    copy_files(exercises.files, target.parent)
    made = release(notebook, fingerprints, grader, solved=solved, files=exercises.files)
    nbformat.write(nbformat.from_dict(made), target)  # type: ignore[no-untyped-call]
    return exercises


def release(
    notebook: Mapping[str, Any], fingerprints: Mapping[str, str], grader: Grader | None = None, *,
    solved: bool = False, files: Iterable[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return the students' notebook; for a grader, the notebook from which its own command makes that one.

    ``fingerprints`` are those of the exercises' files, ``files`` the paths of other files that it needs.
    """
    beside = [*(f"exercises/{name}.json" for name in fingerprints), *map(json.dumps, files)]
    listed = "".join(f"\n  - {path}" for path in beside)
    cells = [_cell("raw", "otter", _OTTER + listed)] if grader == "otter" else []
    form = grader or ("solved" if solved else "plain")
    for number, (cell, exercise) in enumerate(_exercises(notebook), 1):
        cells += _answer(*exercise, fingerprints, form) if exercise else _kept(cell, f"cell-{number}")
    metadata = {"kernelspec": notebook["metadata"].get("kernelspec", _KERNEL)}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _answer(definition: Definition, options: str, fingerprints: Mapping[str, str], form: str) -> Iterator[Cell]:
    """Yield the cells of an exercise in a form, which is a file of templates.

    A template begins with ``@``, the type and the name of the cell, and flags: ``sql`` and ``cells`` restrict it to
    exercises whose answer is the SQL below `%%check`, or in other cells; the others are roles of a cell of nbgrader.
    """
    fields = _fields(definition, options, fingerprints[definition.name])
    other = "sql" if "check" in fields else "cells"
    for template in Path(__file__).with_name("templates").joinpath(f"{form}.txt").read_text("utf-8").split("@ ")[1:]:
        head, _, text = template.partition("\n")
        kind, name, *flags = head.split()
        if other not in flags:
            roles = {role: role in flags for role in ("grade", "solution", "locked", "task")}
            points = {"points": definition.points} if "grade" in flags else {}
            own = {**roles, **points, "grade_id": f"{definition.name}-{name}", "schema_version": 3}
            source = Template(text.removesuffix("\n")).substitute(fields)
            yield _cell(kind, f"{definition.name}-{name}", source, **({"nbgrader": own} if form == "nbgrader" else {}))


def _fields(definition: Definition, options: str, file: str) -> dict[str, str]:
    """Return what templates contain. ``options`` are those of the exercise's first line, such as --on."""
    first = f"%%check {definition.name} {options}".rstrip()
    solved = solution_of(definition, options)
    hidden = f", reference={definition.sql!r}, data={definition.hidden!r}" if definition.hidden else ""
    hidden += f", after={definition.after!r}" if hidden and definition.in_cells else ""
    points = f"{definition.points:g} {'point' if definition.points == 1 else 'points'}"
    title = f"### Exercise: {definition.title or definition.name} ({points})"
    fields = {
        "name": definition.name, "points": f"{definition.points:g}", "task": f"{title}\n\n{definition.task}".rstrip(),
        "verified": f'verified_points("{definition.name}", "{file}"{hidden})',
    }  # fmt: skip
    if not definition.in_cells:
        unsolved = f"{first}\n-- Write your SQL here."
        return fields | {"unsolved": unsolved, "solved": f"{first}\n{definition.sql}", "inserted": definition.sql}
    check = " ".join(filter(None, ["%check", definition.name, definition.variable, options]))
    inserted = f"get_ipython().run_cell({solved!r})"  # %% must be in the first line of a cell
    return fields | {"unsolved": "# Write your cell here.", "solved": solved, "inserted": inserted, "check": check}


def solution_of(definition: Definition, options: str = "") -> str:
    """Return the cell that solves an exercise with an answer in other cells."""
    return definition.solution or f"%%sql -o {definition.variable} {options}".rstrip() + f"\n{definition.sql}"


def _kept(cell: Mapping[str, Any], key: str) -> Iterator[Cell]:
    """Yield a cell without outputs, metadata and the setting of the folder, unless it is for the teacher only.

    Raise SessionError for an exercise that cannot run, which would be released with its reference.
    """
    text, tags = _text(cell), list(cell["metadata"].get("tags", []))
    source = _FOLDER.sub("", text).rstrip("\n") if cell["cell_type"] == "code" else text
    if not _is_for_teacher(cell) and (source or not text):
        if cell["cell_type"] != "markdown" and "%%exercise" in text:
            hint = f"begin the cell with `%%exercise NAME`, or give it the tag {TEACHER}"
            raise SessionError(
                f"cannot read the exercise in the cell that begins with: {text.strip().splitlines()[0]}", hint=hint
            )
        copy = _cell(cell["cell_type"], cell.get("id", key), source, **({"tags": tags} if tags else {}))
        yield copy | {name: cell[name] for name in ("attachments",) if name in cell}


def _is_for_teacher(cell: Mapping[str, Any]) -> bool:
    return TEACHER in cell["metadata"].get("tags", [])


def _cell(kind: str, key: str, source: str, **metadata: Any) -> Cell:
    if kind == "code" and source.startswith(_SQL_CELLS):
        metadata["vscode"] = {"languageId": "sql"}  # its colours in VS Code, which does not look at the magic
    cell = {"cell_type": kind, "id": key, "metadata": metadata, "source": source}
    return {**cell, "outputs": [], "execution_count": None} if kind == "code" else cell


def _exercises(notebook: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], tuple[Definition, str] | None]]:
    """Yield each cell with its exercise, which knows the cell before it."""
    after = ""
    for cell in notebook["cells"]:
        exercise = _exercise(cell)
        if exercise is not None:
            definition = msgspec.structs.replace(exercise[0], after=after)
            yield cell, (definition, exercise[1])
            after = f"{'%' if definition.in_cells else '%%'}check {definition.name}"
        else:
            yield cell, None
            text = _FOLDER.sub("", _text(cell)).strip()
            after = text if cell["cell_type"] == "code" and text and not _is_for_teacher(cell) else after


def _exercise(cell: Mapping[str, Any]) -> tuple[Definition, str] | None:
    """Return the exercise of a cell and the options of its first line; None for another cell."""
    match = _EXERCISE.match(dedent(_text(cell)).lstrip()) if cell["cell_type"] == "code" else None
    return (parse_cell(match[1], match.string[match.end() :]), match[2]) if match else None


def _text(cell: Mapping[str, Any]) -> str:
    return "".join(cell["source"])  # a string, or a list of lines


def read(path: Path) -> Any:
    """Read a notebook; raise SessionError if the file is not one."""
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        for cell in notebook.cells:
            _text(cell)
        return notebook
    except (OSError, ValueError, TypeError, AttributeError, KeyError, nbformat.ValidationError) as error:
        raise SessionError(f"cannot read {path.name}: {str(error).partition(chr(10))[0]}") from None
