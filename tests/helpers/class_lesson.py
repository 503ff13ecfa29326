"""The class of docs/teachers/classes.md: its files, what the notebooks of the students record, and two submissions."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from course_notebooks import ANSWERS, SPECIES, write_answers, write_source

import pipemagic
from pipemagic.teaching.classes import model
from pipemagic.teaching.exercises.release import release_file

STUDENTS = {
    "ada": "Ada Lovelace", "grace": "Grace Hopper", "joerg": "Jörg Müller", "zoe": "Zoë Chan", "noor": "Noor Haddad",
    "tomas": "Tomás Silva",
}  # fmt: skip
MISTAKE = 'near "mass_g": syntax error'
RECORDED = {  # seconds ago; cells, errors, last error, exercise, points, possible points
    "Ada Lovelace": (80, [(2, 0, None, "heavy", 4, 4), (0, 0, None, "species", 2, 2)]),
    "Grace Hopper": (80, [(1, 0, None, "heavy", 4, 4), (0, 0, None, "species", 2, 2)]),
    "Jörg Müller": (80, [(3, 2, MISTAKE, "heavy", 0, 4), (0, 0, None, "species", 0, 2)]),
    "Zoë Chan": (15, [(1, 0, None, "heavy", 2, 4), (0, 0, None, "heavy", 4, 4), (0, 0, None, "species", 0, 2)]),
    "Tomás Silva": (15, [(2, 0, None, "heavy", 4, 4), (0, 0, None, "species", 0, 2)]),
}
WRONG = ("select species, count(*) as birds from bird", "1 missing row and 1 row that differs: is GROUP BY missing?")


def write_files() -> None:
    """Write birds.sqlite and roster.csv."""
    with sqlite3.connect("birds.sqlite") as file:
        file.execute("CREATE TABLE bird (name TEXT, species TEXT, mass_g INTEGER)")
        file.execute("INSERT INTO bird VALUES ('Ada', 'Adelie', 3750), ('Bo', 'Gentoo', 5050)")
    lines = ["name,email", *(f"{name},{account}@example.edu" for account, name in STUDENTS.items())]
    Path("roster.csv").write_text("\n".join(lines) + "\n", "utf-8")


def record_lesson() -> None:
    """Write what the notebooks of the students record: checks, and the same wrong answer of three students."""
    for seat in model.load().seats:
        ago, rows = RECORDED.get(seat.student, (0, []))
        with pipemagic.connect(seat.url, seat.token) as database:
            for row in rows:
                database.execute(
                    "INSERT INTO pipemagic_progress(at, cells, errors, error, exercise, points, of) "
                    f"VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-{ago} seconds'), ?, ?, ?, ?, ?, ?)",
                    row,
                )
            if rows and rows[-1][4] == 0:
                database.execute("INSERT INTO pipemagic_answers SELECT max(id), ?, ? FROM pipemagic_progress", WRONG)


def write_submissions() -> None:
    """Write a teacher's notebook on the template birds, release it, and write a right and a wrong submission."""
    source, released = write_source(Path("teacher"), SPECIES, template="birds"), Path("class/birds.ipynb")
    release_file(source, released)
    write_answers(released, Path("submissions/ada/birds.ipynb"), ANSWERS["right"])
    wrong = {"species": "SELECT DISTINCT species, 2 AS birds FROM bird"}
    write_answers(released, Path("submissions/grace/birds.ipynb"), wrong)
