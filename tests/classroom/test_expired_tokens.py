"""Students whose tokens expire: in the middle of a transaction, and before they come.

Not on sqld, which accepts a token for a minute after its end.
"""

from __future__ import annotations

import time

import pytest
from waiting import until

from pipemagic import connect
from pipemagic.classroom import creation
from pipemagic.classroom.model import Class
from pipemagic.classroom.roster import Student
from pipemagic.errors import AuthError

TEACHER = "Tokens of a class expire at the end of the lesson: ask the teacher for a new one."


@pytest.fixture
def lesson(embedded, monkeypatch):
    """Create a class of one student whose lesson ends after some seconds; return the class."""
    embedded.template()

    def lesson(seconds: float) -> Class:
        made = Class("sql", embedded.api.url, embedded.api.slug, "default", "lesson", expires=time.time() + seconds)
        creation.add_students(made, [Student("ada", "Ada")], embedded.api.slug)
        creation.create(embedded.api, made)
        monkeypatch.setenv("PIPEMAGIC_TOKEN", made.seats[0].token)
        return made

    return lesson


def extend(embedded, made, monkeypatch) -> None:
    """Give the student a new token."""
    made.expires = time.time() + 3600
    creation.create(embedded.api, made)
    monkeypatch.setenv("PIPEMAGIC_TOKEN", made.seats[0].token)


def wait_for_expiry(made: Class) -> None:
    """Wait until the server refuses the token."""
    [seat] = made.seats

    def is_refused() -> bool:
        with connect(seat.url, seat.token) as database:
            try:
                database.execute("SELECT 1")
            except AuthError:
                return True
        return False

    until(is_refused)


def test_a_token_that_expires_in_a_transaction_and_a_new_one_in_time(embedded, lesson, shell, monkeypatch):
    made = lesson(4)
    [seat] = made.seats
    shell(f"%pipedb connect {seat.url} --as main")
    until(lambda: time.time() > made.expires - 1.5)
    shell("%%sql\nBEGIN; DELETE FROM street WHERE city = 1")
    wait_for_expiry(made)
    failed = shell.fails("%%sql\nINSERT INTO street VALUES ('Rheinweg', 1)")
    assert isinstance(failed.error, AuthError)
    assert "expired" in failed.out + failed.err
    for part in ("put a new token into PIPEMAGIC_TOKEN", "an open transaction stays open for at most 5 s", TEACHER):
        assert part in failed.out + failed.err
    extend(embedded, made, monkeypatch)
    shell(f"%pipedb connect {seat.url} --as main")
    shell("%%sql\nINSERT INTO street VALUES ('Rheinweg', 1); COMMIT")
    with connect(seat.url, made.seats[0].token) as database:
        assert database.execute("SELECT name FROM street").rows == [("Rheinweg",)]


def test_a_token_that_expires_in_a_transaction_and_a_new_one_too_late(embedded, lesson, shell, monkeypatch):
    made = lesson(4)
    [seat] = made.seats
    shell(f"%pipedb connect {seat.url} --as main")
    until(lambda: time.time() > made.expires - 2.5)
    shell("%%sql\nBEGIN; DELETE FROM street WHERE city = 1")
    began = time.time()
    wait_for_expiry(made)
    shell.fails("%%sql\nINSERT INTO street VALUES ('Rheinweg', 1)")
    until(lambda: time.time() > began + 5.2)
    extend(embedded, made, monkeypatch)
    shell(f"%pipedb connect {seat.url} --as main")
    failed = shell.fails("%%sql\nINSERT INTO street VALUES ('Rheinweg', 1)")
    assert "TRANSACTION_LOST" in failed.out + failed.err
    assert "DELETE FROM street" in failed.out + failed.err
    shell("%pipedb retry")
    with connect(seat.url, made.seats[0].token) as database:
        assert database.execute("SELECT name FROM street").rows == []


def test_a_student_who_comes_after_the_lesson(lesson, shell):
    made = lesson(1)
    wait_for_expiry(made)
    failed = shell.fails(f"%pipedb connect {made.seats[0].url}")
    assert isinstance(failed.error, AuthError)
    assert "get a new token; in a class, ask the teacher for it" in failed.out + failed.err
