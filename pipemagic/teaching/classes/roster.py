"""Read the students of a class from a CSV file."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pipemagic.errors import SessionError
from pipemagic.teaching.classes.mojibake import has_wrong_letters
from pipemagic.text import shorten

_COLUMNS = {
    "name": {"name", "student", "students", "student name", "full name", "display name", "participant", "teilnehmer"},
    "first": {"first name", "firstname", "given name", "vorname", "prénom", "nombre", "nome", "voornaam"},
    "last": {
        "last name", "lastname", "surname", "family name", "nachname", "nom", "nom de famille", "apellidos",
        "apellido(s)", "cognome", "sobrenome", "achternaam",
    },
    "email": {
        "email", "e-mail", "email address", "e-mail address", "e-mail-adresse", "mail", "e-mailadresse", "e-mailadres",
        "adresse de courriel", "dirección de correo", "dirección email", "indirizzo email", "endereço de email",
    },
    "id": {
        "id", "student id", "id number", "sis user id", "sis login id", "username", "matrikelnummer", "net id",
        "id-nummer", "numéro d'identification", "número de id", "codice identificativo", "número de identificação",
    },
}  # fmt: skip
"""Headers of columns, in lower case, as in exports of learning platforms in several languages."""

_NO_STUDENTS = {"points possible", "student, test", "test student"}
"""Names, in lower case, that Canvas writes into the column of students."""

_FORMULA = ("=", "+", "-", "@")
"""First characters of cells that spreadsheets run as a formula."""

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_INVISIBLE = re.compile("[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
"""Marks that mail programs and spreadsheets leave in copied text."""
_JOINERS = {0x200C: "", 0x200D: ""}  # parts of Persian words and of emojis

_QUOTATION = (
    'put quotation marks around a cell that contains separators, and double those inside: "Müller, Anna ""Jo"""'
)

_FIRST_ROWS = 5
"""Rows in which the header is looked for."""


class Student(NamedTuple):
    """A student; ``key`` is unique: the id, otherwise the email address, otherwise the name in lower case."""

    key: str
    name: str
    email: str = ""


class Roster(NamedTuple):
    """The students of a file in its order, notes on lines that may not be what they seem, and the file's name.

    ``columns`` is the file's header, and ``cells`` has the row of each student, by key.
    """

    students: list[Student]
    notes: list[str]
    file: str
    columns: Sequence[str] = ()
    cells: Mapping[str, Sequence[str]] = {}

    def ids(self, student: Student) -> set[str]:
        """Return the ids of a student, such as an id number and a username."""
        headers = {*_COLUMNS["id"], "identifier"}  # Moodle's worksheet has "Participant 123" in the latter
        cells = zip(self.columns, self.cells.get(student.key, ()), strict=False)
        return {cell.removeprefix("Participant ") for column, cell in cells if column.casefold() in headers and cell}


def read_roster(path: Path) -> Roster:
    """Read a CSV file with one student per line.

    Columns are separated by commas, semicolons or tabs. The header names them (name, or first name and last name;
    email; id), others are ignored. Without a header a cell with @ is the email address, one of digits the id, and the
    others are the name. Raise SessionError, which names the line, if a line is not valid, and if two students cannot be
    distinguished.
    """
    text, notes = _decoded(path)
    rows = _rows(text, path)
    at = max(range(len(rows[:_FIRST_ROWS])), key=lambda row: len(_header(rows[row][1])), default=0)
    header = _header(rows[at][1]) if rows else {}
    if at:
        notes.append(f"The header is in line {rows[at][0]}; the lines above it were ignored.")
    entries: dict[str, tuple[int, Student]] = {}
    by_key: dict[str, Sequence[str]] = {}
    for number, cells in rows[at + 1 :] if header else rows:
        if header and any(cells[len(rows[at][1]) :]):
            raise SessionError(f"{path.name}: line {number} has more fields than the header", hint=_QUOTATION)
        student = _student(number, cells, header, path)
        if student is None:
            continue
        line, other = entries.setdefault(student.key, (number, student))
        if line == number:
            by_key[student.key] = cells
            continue
        if other.name != student.name or student.key == folded(student.name):
            raise SessionError(
                f"{path.name}: line {number}, {student.name}, cannot be distinguished from line {line}, {other.name}",
                hint="remove one of them, or add an id or email column that is different for each student",
            )
        notes.append(f"Line {number} repeats line {line} ({student.name}).")
    if not entries:
        raise SessionError(
            f"{path.name} has no students", hint="write one student per line, below the header name,email"
        )
    columns = rows[at][1] if header else ()
    return Roster([student for _, student in entries.values()], notes, path.name, columns, by_key)


def _decoded(path: Path) -> tuple[str, list[str]]:
    """Return the text of a file: UTF-8, UTF-16 with a byte order mark, or else Windows-1252 with a note.

    Raise SessionError for a workbook or another binary file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SessionError(f"cannot read the roster {path}: {error.strerror}") from None
    try:
        is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text, notes = data.decode("utf-16" if is_utf16 else "utf-8-sig"), []
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
        notes = [f"{path.name} is not UTF-8 and was read as Windows-1252. Check the names."]
    if "\0" in text:
        raise SessionError(f"{path.name} is not CSV", hint="save the file as CSV UTF-8")
    return text, notes


def _rows(text: str, path: Path) -> list[tuple[int, list[str]]]:
    """Return the rows that are not empty, with the number of their first line. Raise SessionError if one is not CSV."""
    first = list(filter(str.strip, text.splitlines()))[:_FIRST_ROWS] or [""]
    separator = re.fullmatch(r'"?sep=([,;\t|])"?\s*', first[0])  # Excel's line
    delimiter = separator[1] if separator else _delimiter(first)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    rows, number = [], 1
    try:
        for cells in reader:
            normal = [" ".join(_INVISIBLE.sub("", unicodedata.normalize("NFC", cell)).split()) for cell in cells]
            if any(normal):
                rows.append((number, normal))
            number = reader.line_num + 1
    except csv.Error as error:
        raise SessionError(f"{path.name}: line {number} is not valid CSV: {error}", hint=_QUOTATION) from None
    return rows[1:] if separator else rows


def _delimiter(lines: Sequence[str]) -> str:
    """Return the character that separates most known columns in a line, otherwise the most frequent of the first."""

    def columns(character: str) -> int:
        return max(len(_header([cell.strip(' "') for cell in line.split(character)])) for line in lines)

    first = re.sub(r'"[^"]*"', "", lines[0])
    return max(",;\t", key=lambda character: (columns(character), first.count(character)))


def _header(cells: Sequence[str]) -> dict[str, int]:
    """Return the positions of the known columns; {} if the row is no header."""
    positions: dict[str, int] = {}
    for at, cell in enumerate(cells):
        for column, names in _COLUMNS.items():
            if cell.casefold() in names:
                positions.setdefault(column, at)
    return positions


def _student(number: int, cells: Sequence[str], header: Mapping[str, int], path: Path) -> Student | None:
    """Return the student of a row; None if its columns are empty. Raise SessionError for an unusable cell."""
    if header:
        name, first, last, email, identifier = (
            cells[header[column]] if column in header and header[column] < len(cells) else ""
            for column in ("name", "first", "last", "email", "id")
        )
        name = name or f"{first} {last}".strip()
    else:
        email = next((cell for cell in cells if "@" in cell), "")
        identifier = next((cell for cell in cells if cell.isdigit()), "")
        name = " ".join(cell for cell in cells if cell and cell not in (email, identifier))
    name = name or email or identifier
    if not name or name.casefold() in _NO_STUDENTS:
        return None
    for what, text in {"an email address": email, "a name": name}.items():
        if has_wrong_letters(text):
            raise SessionError(
                f"{path.name}: line {number}: {shorten(repr(text), 40)} was saved in a wrong encoding",
                hint="export the roster again as CSV UTF-8, and do not save it in another program",
            )
        is_plain = text.translate(_JOINERS).isprintable() and not text.startswith(_FORMULA)
        if not is_plain or (text is email and text and not _EMAIL.fullmatch(text)):
            raise SessionError(
                f"{path.name}: line {number}: {shorten(repr(text), 40)} is not {what}",
                hint=f"names and addresses cannot contain control characters or begin with {' '.join(_FORMULA)}; "
                "an email address has one @ and no spaces",
            )
    return Student(folded(identifier or email or name), name, email)


def folded(text: str) -> str:
    """Return a name, email address or id as it is compared: without regard to upper and lower case."""
    return text.casefold()


def marks(students: Sequence[Student]) -> dict[str, str]:
    """Return what distinguishes each student from others of the same name, by key; '' if the name is unique.

    This is the email address, or the id if another student of that name has the address.
    """
    names = Counter(folded(student.name) for student in students)
    addresses = Counter((folded(student.name), folded(student.email)) for student in students)

    def mark(student: Student) -> str:
        name = folded(student.name)
        if names[name] == 1 or student.key == name:
            return ""
        return student.email if student.email and addresses[name, folded(student.email)] == 1 else student.key

    return {student.key: mark(student) for student in students}


def labels(students: Sequence[Student]) -> dict[str, str]:
    """Return how each student is named, by key: ``Anna Müller``, or ``Anna Müller (anna.m@example.edu)``."""
    distinct = marks(students)
    return {
        student.key: f"{student.name} ({distinct[student.key]})" if distinct[student.key] else student.name
        for student in students
    }


# -- names of databases


def slug(text: str) -> str:
    """Return a name in lower-case ASCII letters, digits and hyphens: ``jorg-muller`` for ``Jörg Müller``."""
    ascii_text = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_text).strip("-")


def database_name(prefix: str, student: Student, limit: int, taken: set[str]) -> str:
    """Return a name for a student's database, of at most ``limit`` characters, that is not ``taken``.

    It ends with a digest of the student's key if the name alone is too long, has no ASCII letters, or is taken.
    """
    plain = slug(student.name)
    name = f"{prefix}-{plain}"
    if plain and len(name) <= limit and name not in taken:
        return name
    digest = hashlib.sha256(student.key.encode()).hexdigest()[:8]
    return f"{name[: limit - len(digest) - 1].strip('-')}-{digest}"
