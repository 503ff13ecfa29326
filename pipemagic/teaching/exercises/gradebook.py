"""What a teacher gets of grades: a CSV file for a spreadsheet, Moodle or Canvas, and a page of feedback per student.

Moodle imports grades from a CSV file whose columns the teacher assigns to fields of users and to grades; it needs the
exact email address or id number, and loses grades if it imports feedback without them
(https://docs.moodle.org/en/Grade_import). Its worksheet for offline grading has a column of grades, which are out of
the maximum in the file. Canvas reads the columns of students from Student and ID to Section, which must be the first
ones, then a column for each assignment, and a row "Points Possible" (``lib/gradebook_importer.rb`` of canvas-lms).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from string import Template
from typing import Literal

from pipemagic.errors import SessionError
from pipemagic.teaching.classes.roster import Roster, Student, labels
from pipemagic.teaching.exercises.grading import NOTHING, Grade, Table
from pipemagic.text import escape_controls, shorten

Format = Literal["moodle", "canvas"]

_PAGE = Path(__file__).with_name("feedback.html")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of cells that spreadsheets run as a formula."""
_NOT_IN_FILES = re.compile(r"[\x00-/:-@[-`{-\x7f\s]+")
"""All ASCII characters but letters and digits; names in other scripts stay as they are."""
_MOST_REASONS, _MOST_ROWS, _LONGEST = 20, 20, 2000  # what is shown of a submission, which may report anything


def by_submission(grades: Sequence[Grade]) -> dict[str, list[Grade]]:
    """Return the grades of each submission by its name."""
    found: dict[str, list[Grade]] = {}
    for mark in grades:
        found.setdefault(mark.submission, []).append(mark)
    return found


def totals(grades: Sequence[Grade]) -> tuple[float, float, float]:
    """Return the points of a submission, those of all its exercises, and the percentage."""
    points, of = round(sum(mark.points for mark in grades), 2), sum(mark.of for mark in grades)
    return points, of, round(100 * points / of, 1) if of else 0


def reasons(grades: Sequence[Grade]) -> str:
    """Return the reasons for lost points in a line."""
    return common_reason(grades) or shorten(
        " | ".join(f"{mark.exercise}: {mark.message}" for mark in grades if mark.points < mark.of), _LONGEST
    )


def common_reason(grades: Sequence[Grade]) -> str:
    """Return the reason for no points in all exercises, such as a notebook that cannot be read; '' if they differ."""
    found = {mark.message if not mark.points else "" for mark in grades}
    return shorten(found.pop(), _LONGEST) if len(found) == 1 else ""


def points_csv(grades: Sequence[Grade], roster: Roster | None = None) -> str:
    """Return a CSV text with a row for each submission: points of exercises, total, percentage and reasons."""
    people = {} if roster is None else {name: key for key, name in labels(roster.students).items()}
    students = {} if roster is None else {student.key: student for student in roster.students}
    rows = []
    for name, marks in by_submission(grades).items():
        own = [name]
        if roster:
            student = students.get(people.get(name, ""), Student("", name))
            own = [
                student.name,
                student.email,
                "" if student.key in (student.email.casefold(), student.name.casefold()) else student.key,
            ]
        points, _, percent = totals(marks)
        rows.append([*own, *(mark.points for mark in marks), points, percent, reasons(marks)])
    first = ["student", "email", "id"] if roster else ["submission"]
    exercises = list(dict.fromkeys(mark.exercise for mark in grades))
    return _csv([[*first, *exercises, "total", "percent", "reasons"], *rows])


def moodle_csv(grades: Sequence[Grade], roster: Roster) -> str:
    """Return the rows of the roster with grades and feedback, in its columns for them if it is Moodle's worksheet."""
    lower = [column.casefold() for column in roster.columns]
    at_grade = lower.index("grade") if "grade" in lower else None
    at_note = lower.index("feedback comments") if "feedback comments" in lower else None
    maximum = lower.index("maximum grade") if "maximum grade" in lower else None
    added = ["Grade"] * (at_grade is None) + ["Feedback"] * (at_note is None)
    rows = [[*roster.columns, *added]]
    for key, marks in _of_students(grades, roster):
        cells = list(roster.cells[key]) + [""] * (len(roster.columns) - len(roster.cells[key]))
        points, of, _ = totals(marks)
        if at_grade is not None and maximum is not None:
            with suppress(ValueError, ZeroDivisionError):
                points = round(points / of * float(cells[maximum].replace(",", ".")), 2)
        for place, value in ((at_grade, f"{points:g}"), (at_note, reasons(marks))):
            if place is None:
                cells.append(value)
            else:
                cells[place] = value
        rows.append(cells)
    return _csv(rows)


def canvas_csv(grades: Sequence[Grade], roster: Roster, assignment: str) -> str:
    """Return the columns of students of a roster that Canvas exported, and a column with the grades of an assignment.

    Raise SessionError for another roster.
    """
    columns = list(roster.columns)
    if columns[:2] != ["Student", "ID"] or "Section" not in columns:
        raise SessionError(
            f"{roster.file} lacks the columns Student, ID and Section, which Canvas needs",
            hint="export the gradebook of the course from Canvas, and use it as the roster",
        )
    own = columns.index("Section") + 1
    same = next((title for title in columns[own:] if title.rpartition(" (")[0] == assignment), assignment)
    rows, of = [], 0.0
    for key, marks in _of_students(grades, roster):
        points, of, _ = totals(marks)
        rows.append([*roster.cells[key][:own], f"{points:g}"])
    possible = ["    Points Possible", *[""] * (own - 1), f"{of:g}"]
    return _csv([[*columns[:own], same], possible, *rows])


def _of_students(grades: Sequence[Grade], roster: Roster) -> list[tuple[str, list[Grade]]]:
    """Return the grades of each student of a roster, by key; those of other submissions are left out."""
    found = by_submission(grades)
    return [(key, found[name]) for key, name in labels(roster.students).items()]


def _csv(rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:g}"
    is_formula = isinstance(value, str) and value.startswith(_FORMULA) and value != "-"  # of Moodle, for no date
    return f"'{value}" if is_formula else value


# -- feedback


def write_feedback(grades: Sequence[Grade], folder: Path, title: str) -> list[Path]:
    """Write a page for each submission; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: dict[Path, str] = {}
    for name, marks in by_submission(grades).items():
        stem, number = _NOT_IN_FILES.sub("-", name.casefold()).strip("-")[:80] or "student", 1
        path = folder / f"{stem}.html"
        while path in paths:
            number += 1
            path = folder / f"{stem}-{number}.html"
        paths[path] = feedback_html(name, marks, title)
    for path, page in paths.items():
        path.write_text(page, "utf-8")
    return list(paths)


def feedback_html(name: str, grades: Sequence[Grade], title: str) -> str:
    """Return a page with the points of a submission, and for each exercise reasons, differing rows and hints."""
    points, of, percent = totals(grades)
    nothing = common_reason(grades) == NOTHING
    sections = f"<p>{_html(NOTHING.capitalize())}.</p>" if nothing else "\n".join(map(_section, grades))
    return Template(_PAGE.read_text("utf-8")).substitute(
        title=_html(title), name=_html(name), total=f"{points:g} of {of:g} points, {percent:g}%", exercises=sections
    )


def _section(mark: Grade) -> str:
    state = "all" if mark.points == mark.of else "some" if mark.points else "none"
    parts = [f"<h2>{_html(mark.exercise)} <span>{mark.points:g} of {mark.of:g}</span></h2>"]
    if mark.points < mark.of:
        items = "".join(map(_item, mark.reasons[:_MOST_REASONS]))
        parts.append(f"<ul>{items}</ul>" if items else "")
        parts.append(_table(mark.difference) if mark.difference else "")
        parts += [f'<p class="hint">{_html(note)}</p>' for note in mark.notes[:_MOST_REASONS]]
        parts += [f'<p class="hint">Hint: {_html(hint)}</p>' for hint in mark.hints[:_MOST_REASONS]]
    return f'<section class="{state}">{"".join(parts)}</section>'


def _item(reason: str) -> str:
    first, _, rest = reason.partition("\n")
    return f"<li>{_html(first)}{f'<pre>{_html(rest)}</pre>' if rest else ''}</li>"


def _table(table: Table) -> str:
    head = "".join(f"<tr>{_row(line, 'th')}</tr>" for line in table.header[:2])
    body = "".join(f"<tr>{_row(row, 'td')}</tr>" for row in table.rows[:_MOST_ROWS])
    return f"<p>{_html(table.heading)}</p><table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(values: Sequence[str], tag: str) -> str:
    return "".join(f"<{tag}>{_html(value)}</{tag}>" for value in values[:_MOST_ROWS])


def _html(value: str) -> str:
    return escape(escape_controls(shorten(value, _LONGEST), keep="\n\t"))


def unsolved(grades: Sequence[Grade]) -> Mapping[str, str]:
    """Return the exercises in which no submission has a point, with the most frequent reason."""
    found: dict[str, list[Grade]] = {}
    for mark in grades:
        if mark.reasons != (NOTHING,):
            found.setdefault(mark.exercise, []).append(mark)
    lost = {name: [mark.message for mark in marks] for name, marks in found.items() if not any(m.points for m in marks)}
    return {name: max(messages, key=messages.count) for name, messages in lost.items()}
