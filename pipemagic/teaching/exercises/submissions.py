"""Find the notebooks that students submitted, and the student of each by its path.

Learning platforms write the student into the path: Moodle ``Ada Lovelace_12345_assignsubmission_file_/birds.ipynb``,
Canvas ``lovelaceada_12345_67890_birds.ipynb`` (``LATE`` may follow the name), nbgrader ``submitted/ID/homework/``.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipemagic.errors import SessionError
from pipemagic.teaching.classes.roster import Roster, Student, labels

_PLATFORM = re.compile(
    r"(?P<name>.+?)(?:_LATE)?_(?P<id>\d+)_(?:assignsubmission_(?:file|onlinetext)_?|\d+_.+)", re.IGNORECASE
)


def find_notebooks(paths: Sequence[Path]) -> dict[str, Path]:
    """Return notebooks by their names: their paths in their common folder, without .ipynb.

    A folder stands for the notebooks in it and in its folders, without hidden ones. Raise SessionError if a folder has
    none.
    """
    found: list[Path] = []
    for path in paths:
        notebooks = sorted(_notebooks(path)) if path.is_dir() else [path]
        if not notebooks:
            raise SessionError(f"no notebooks in {path}", hint="name the folder of the submissions, or the notebooks")
        found += [notebook.absolute() for notebook in notebooks]
    found = list(dict.fromkeys(found))
    folder = os.path.commonpath([path.parent for path in found])
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in found}


def _notebooks(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*.ipynb"):
        if not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


@dataclass
class Matches:
    """The submissions of each student, by how students are named (`labels`), and the names of those of no student."""

    of: dict[str, list[str]]
    unknown: list[str] = field(default_factory=list)


def match(notebooks: Mapping[str, Path], roster: Roster) -> Matches:
    """Find the student of each notebook by the names of its folders and of its file.

    An id or an email address is looked for first, then a full name, then either as a part of a longer name. A path that
    fits several students equally well is of none.
    """
    named = labels(roster.students)
    people = [_Person.of(student, roster) for student in roster.students]
    found = Matches({named[student.key]: [] for student in roster.students})
    common = Path(os.path.commonpath([path.parent for path in notebooks.values()]))
    for name, path in notebooks.items():
        ranks: dict[str, float] = {}
        for parts in (path.relative_to(common).with_suffix("").parts, common.parts[-2:]):  # common to one submission
            ranks = ranks or {
                person.student.key: rank for person in people if (rank := max(map(person.fits, parts), default=0))
            }
        keys = [key for key, rank in ranks.items() if rank == max(ranks.values())]
        if len(keys) == 1:
            found.of[named[keys[0]]].append(name)
        else:
            found.unknown.append(name)
    return found


@dataclass(frozen=True)
class _Person:
    """A student, and what a path may contain: ids, and the words of the name in several orders."""

    student: Student
    ids: frozenset[tuple[str, ...]]
    names: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, student: Student, roster: Roster) -> _Person:
        ids = {student.email, student.email.partition("@")[0], *roster.ids(student)}
        if student.key != student.name.casefold():
            ids.add(student.key)
        last, _, first = student.name.partition(",")
        names = {_words(f"{first} {last}")}
        if not first:
            words = student.name.split()
            names |= {_words(" ".join([*words[at:], *words[:at]])) for at in range(len(words))}
        else:
            names.add(_words(student.name))
        return cls(student, frozenset(filter(None, map(_words, ids))), frozenset(filter(None, names)))

    def fits(self, part: str) -> float:
        """Return how well a folder or a file fits: 3 by an id, 2 by the name, 1 by a part of it, 0 not at all.

        The number that a platform writes may be that of something else, such as Moodle's participant, and equal to the
        id of another student. So it only adds 0.5 to the name beside it.
        """
        if platform := _PLATFORM.fullmatch(part):
            by_number = _words(platform["id"]) in self.ids
            return self.fits(platform["name"]) + by_number / 2
        words = _words(part)
        if words in self.ids:
            return 3
        joined = "".join(words)
        if words in self.names or any(joined == "".join(name) for name in self.names):
            return 2
        inside = any(_contains(words, wanted) for wanted in self.ids | self.names if len("".join(wanted)) > 2)
        return int(inside)


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text without accents, in lower case."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return tuple(re.findall(r"[^\W_]+", "".join(char for char in plain if not unicodedata.combining(char))))


def _contains(words: Sequence[str], wanted: Sequence[str]) -> bool:
    return any(tuple(words[at : at + len(wanted)]) == tuple(wanted) for at in range(len(words)))
