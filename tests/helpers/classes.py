"""Classes for tests: their students, and a class whose databases do not exist yet."""

from __future__ import annotations

import time

from pipemagic.management_api.client import Management
from pipemagic.teaching.classes import creation
from pipemagic.teaching.classes.model import Class
from pipemagic.teaching.classes.roster import Student

NAMES = ["Ada", "Jörg Müller", "王小明", "Maximiliane " + "von und zu " * 8, "O'Neil; DROP TABLE city"]
STUDENTS = [Student(name.casefold(), name) for name in NAMES]


def new_class(
    api: Management, template: str = "lesson", *, hours: float = 2, students: list[Student] = STUDENTS
) -> Class:
    """Return a class named sql with the group default."""
    made = Class("sql", api.url, api.slug, "default", template, expires=time.time() + hours * 3600)
    creation.add_students(made, students, api.slug)
    return made
