"""The Class panel: the progress of students, and resets of their databases, on the embedded service."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from panel_session import page, service_folder, session
from started_services import shared_service
from waiting import until

from pipemagic import connect
from pipemagic.teaching.classes import creation, model
from pipemagic.teaching.classes.roster import Student
from pipemagic.teaching.panel import NO_CLASS, ClassPanel

__all__ = ["page", "service_folder", "session", "shared_service"]

NAMES = ["Ada", "Jörg Müller", "王小明"]
ROW = "INSERT INTO pipemagic_progress(id, cells, errors, error, exercise, points, of) VALUES "


@pytest.fixture(autouse=True)
def _own_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path / "config"))


def a_class(session, name="sql", *, template="main", record=False):
    """Create a class with a database for each student, and return it."""
    api = session.organization.api
    made = model.Class(name, api.url, api.slug, "default", template, expires=time.time() + 3600, record=record)
    creation.add_students(made, [Student(student.casefold(), student) for student in NAMES], api.slug)
    creation.create(api, made)
    return made


@pytest.fixture
def made(session):
    session.run("CREATE TABLE city AS SELECT 'Köln' AS name")
    return a_class(session)


def work(seat, *rows):
    """Write rows as the kernel of a student does, with the student's token."""
    with connect(seat.url, seat.token) as database:
        for number, row in enumerate(rows):
            database.execute(f"{ROW} ('{number}', {row})")


def cities(seat):
    with connect(seat.url, seat.token) as database:
        return [name for (name,) in database.execute("SELECT name FROM city").rows]


def test_without_a_class_the_panel_shows_how_to_create_one(page):
    panel = page("class")
    assert NO_CLASS in panel.words
    assert panel.text == f"Class\n{NO_CLASS}"
    assert "Class" not in page().panel.titles


def test_the_panel_shows_what_each_student_did(page, made):
    first, second, _ = made.seats
    work(first, "2, 0, NULL, 'one', 2, 2", "1, 1, 'no such table: <b>', 'two', 0.5, 1")
    work(second, "0, 0, NULL, NULL, NULL, NULL")
    panel = page("class")
    panel.wait("2 of 3 connected, 0 passed all 2 exercises, 1 with errors")
    assert panel.words.count("sql: 3 databases, copies of main; tokens until ") == 1
    cells = panel.cells("Students", "Ada")
    clock = time.strftime("%H:%M", time.localtime(panel.panel.rows[0].connected))
    assert cells["Connected"] == clock
    assert [cells[title] for title in ("Cells", "Errors", "Passed", "Last error")] == [
        "3", "1", "1 of 2", "no such table: <b>",
    ]  # fmt: skip
    assert panel.cells("Students", "王小明")["Connected"] == ""
    panel.click("Details of Ada")
    assert panel.rows("Exercises of the student") == [["one", "2", "2", "1"], ["two", "0.5", "1", "1"]]
    panel.click("Close details")
    assert not panel.can("Reset database ...")


def test_the_exercises_and_wrong_answers_have_no_names(page, session):
    session.run("CREATE TABLE city AS SELECT 'Köln' AS name")
    made = a_class(session, record=True)
    for number, seat in enumerate(made.seats):
        work(seat, *["0, 0, NULL, 'first', 1, 2"] * (number + 1), "0, 0, NULL, 'second', 1, 1")
        with connect(seat.url, seat.token) as database:
            database.execute("INSERT INTO pipemagic_answers VALUES ('0', 'select <b>', 'no such column: <b>')")
    panel = page("class")
    panel.wait("3 of 3 connected, 0 passed all 2 exercises, 0 with errors")
    assert panel.rows("Exercises") == [["first", "3", "0", "2.0", "1 of 2"], ["second", "3", "3", "1.0", "1 of 1"]]
    assert panel.rows("Wrong answers") == [["first", "3", "select <b>", "no such column: <b>"]]
    assert "Ada" in panel.words
    panel.click("Details of Ada")
    panel.click("Hide students")
    assert "first" in panel.words
    assert not any(name in panel.words for name in NAMES)
    panel.click("Show students")
    assert "Ada" in panel.words
    assert "select" not in panel.html


def test_a_class_that_records_no_answers_shows_none(page, made):
    for seat in made.seats:
        work(seat, "0, 0, NULL, 'first', 1, 2")
    panel = page("class")
    panel.wait("3 of 3 connected, 0 passed the exercise")
    assert panel.rows("Exercises") == [["first", "3", "0", "1.0", "1 of 2"]]
    assert "No wrong answer is that of three students or more now." not in panel.words


def test_the_panel_reads_again_while_it_is_displayed(page, made, monkeypatch):
    monkeypatch.setattr(ClassPanel, "interval", 0.1)
    panel = page("class")
    panel.wait("0 of 3 connected, 0 with errors")
    work(made.seats[0], "1, 0, NULL, 'one', 2, 2")
    panel.wait("1 of 3 connected, 1 passed the exercise, 0 with errors")
    panel.panel.unmount()
    until(lambda: "pipemagic: Class panel" not in [thread.name for thread in threading.enumerate()])
    until(lambda: not panel.panel.reading.busy)


def test_a_database_is_reset_after_its_name_was_typed(page, made):
    first, second, _ = made.seats
    for seat in (first, second):
        with connect(seat.url, seat.token) as database:
            database.execute("UPDATE city SET name = 'Bonn'")
    panel = page("class")
    panel.wait("0 of 3 connected")
    panel.click("Details of Ada")
    panel.click("Reset database ...")
    assert "This permanently replaces everything in the database of Ada by the content of main as it is" in panel.words
    panel.type(f"Type {first.database} to reset", "Ada")
    panel.click("Reset database")
    panel.wait("nothing was reset: the typed name is not")
    panel.type(f"Type {first.database} to reset", first.database)
    panel.click("Reset database")
    panel.wait("Reset the database of Ada.")
    assert (cities(first), cities(second)) == (["Köln"], ["Bonn"])


def test_a_deleted_database_and_an_expired_token(page, session, made):
    first, second, third = made.seats
    work(third, "1, 0, NULL, NULL, NULL, NULL")
    session.organization.delete_database(first.database)
    second.expires = third.expires = time.time() - 1  # the teacher's own token reads them
    second.token = third.token = "expired"
    made.save()
    panel = page("class")
    panel.wait("1 of 3 connected, 0 with errors, 1 database not readable")
    assert panel.cells("Students", "Ada")["Last error"]
    panel.click("Details of Ada")
    assert panel.panel.rows[0].problem in panel.words


def test_no_token_goes_to_the_earlier_port_of_a_deleted_database(page, session, made):
    """Another process may listen there now."""
    session.organization.delete_database(made.seats[0].database)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0.2)
        for seat in made.seats:
            seat.url = f"http://{seat.database}-local.localhost:{stranger.getsockname()[1]}"
        made.save()
        panel = page("class")
        panel.wait("0 of 3 connected, 0 with errors, 1 database not readable")
        with pytest.raises(TimeoutError):
            stranger.accept()


def test_the_saved_form_has_numbers_only(page, made):
    work(made.seats[0], "1, 1, 'no such table: x', 'one', 2, 2")
    panel = page("class")
    panel.wait("1 of 3 connected")
    line = "sql: 1 of 3 connected, 1 passed the exercise, 1 with errors"
    assert panel.text == f"Class\n{line}"
    assert line in panel.html
    assert "Ada" not in panel.html


def test_two_classes_and_one_of_another_organization(page, session, made):
    other = a_class(session, "more", template="")
    other.organization, other.api = "elsewhere", "https://api.example.com"
    other.save()
    panel = page("class")
    panel.wait("the class more belongs to the organization elsewhere at https://api.example.com")
    assert "%pipedb organization elsewhere --at https://api.example.com" in panel.alerts[0]
    panel.choose("Class", "sql")
    panel.wait("0 of 3 connected")
    assert "Class" in page().panel.titles
