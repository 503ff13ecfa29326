"""The progress of a student in the database of a class: what the notebook records, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import asdict

import pytest
from magic_shell import ipython, make_database, plain_shell, server, service, shell
from waiting import pause, until

from pipemagic.client.database import Database
from pipemagic.errors import StatementError
from pipemagic.teaching.classes import model, progress
from pipemagic.teaching.classes.progress import ANSWERS_DDL, PROGRESS_DDL
from pipemagic.teaching.classes.status import Progress, Tries, read_progress, summary, table_of
from pipemagic.teaching.exercises import results

__all__ = ["ipython", "plain_shell", "server", "service", "shell"]

BIRDS = "CREATE TABLE birds AS SELECT 'Ada' AS name UNION ALL SELECT 'Bo'"
ONE = "%%exercise one\n-- points: 2\nSELECT count(*) AS n FROM birds"
ROWS = "SELECT cells, errors, error, exercise, points, of FROM pipemagic_progress ORDER BY id"
SUMS = "SELECT sum(cells), sum(errors) FROM pipemagic_progress"
CONNECTED = (0, 0, None, None, None, None)
ANSWERS = "SELECT exercise, answer, reason FROM pipemagic_answers JOIN pipemagic_progress USING (id) ORDER BY id"


class Seat:
    """A student's notebook, and the database as the teacher sees it."""

    def __init__(self, shell, url, token):
        self.shell, self.url, self.token = shell, url, token
        self.teacher = Database(url, token)
        self.teacher.execute(PROGRESS_DDL)
        self.teacher.execute(BIRDS)

    def connect(self, *options):
        return self.shell(" ".join(["%pipedb connect", self.url, "--as db --token-env DB_TOKEN", *options]))

    def rows(self, count):
        """Return the recorded rows once there are at least that many."""
        return until(lambda: len(rows := self.teacher.execute(ROWS).rows) >= count and rows)

    @property
    def recorder(self):
        return progress.recorder_of(self.session)

    @property
    def session(self):
        return self.shell.ip.magics_manager.registry["PipeMagics"].session


@pytest.fixture
def seat(request, server, shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results.clear()
    if server == "sqld":
        made = request.getfixturevalue("sqld_database")
        url, token = made.url, made.token
    else:
        url, token = make_database(request.getfixturevalue("service"), request.node.nodeid)
    monkeypatch.setenv("DB_TOKEN", token)
    seat = Seat(shell, url, token)
    yield seat
    seat.teacher.close()


@pytest.fixture
def often(monkeypatch):
    """Send rows without delay, so that each cell is a row."""
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    monkeypatch.setattr(progress, "OCCUPIED", 0.05)


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_cells_errors_and_checks_are_recorded(seat, often):
    assert "Recorded for the teacher" in seat.connect().out
    assert seat.rows(1) == [CONNECTED]
    seat.shell("%sql SELECT count(*) FROM birds")
    seat.rows(2)
    seat.shell.fails("%%sql\nSELECT nme FROM birds")
    seat.rows(3)
    seat.shell.fails("%sql --no-such-option SELECT 1")
    seat.shell("1 + 1")
    seat.shell(ONE)
    seat.shell("%%check one\n-- no answer yet")
    seat.shell("%%check one\nSELECT count(*) + 1 AS n FROM birds")
    seat.rows(4)
    seat.shell("%%check one\nSELECT count(*) AS n FROM birds")
    assert seat.rows(5) == [
        CONNECTED,
        (1, 0, None, None, None, None),
        (1, 1, "no such column: nme", None, None, None),
        (0, 0, None, "one", pytest.approx(0, abs=1.99), 2.0),
        (0, 0, None, "one", 2.0, 2.0),
    ]
    assert seat.teacher.execute("SELECT max(abs(unixepoch() - unixepoch(at))) < 60 FROM pipemagic_progress").rows == [
        (1,)
    ]


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_wrong_answers_are_recorded_where_there_is_a_table_for_them(seat, often):
    seat.teacher.execute(ANSWERS_DDL)
    assert "points, and wrong answers to exercises without their literals" in seat.connect().out
    seat.shell(ONE)
    seat.shell("%%check one\nSELECT count(*) AS n FROM birds WHERE name = 'a secret'")
    seat.shell("%%check one\nSELECT nme FROM birds -- a secret")
    seat.shell("%%check one\nSELECT count(*) AS n FROM birds")
    seat.shell("frame = _")
    seat.shell("%check one frame")
    seat.rows(5)
    first, second = until(lambda: len(rows := seat.teacher.execute(ANSWERS).rows) == 2 and rows)
    assert first[:2] == ("one", "select count(*) as n from birds where name = ?")
    assert first[2]
    assert second == ("one", "select nme from birds", "no such column: nme")


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_a_student_who_deletes_the_wrong_answers(seat, often):
    """Points are recorded without them, and nothing is sent for ever."""
    seat.teacher.execute(ANSWERS_DDL)
    seat.connect()
    seat.shell(ONE)
    seat.shell("%sql DROP TABLE pipemagic_answers")
    seat.shell("%%check one\nSELECT count(*) AS n, 1 FROM birds")
    seat.shell("%sql SELECT 1")
    until(lambda: seat.teacher.execute(SUMS).rows == [(2, 0)])
    assert seat.teacher.execute("SELECT count(points) FROM pipemagic_progress").rows == [(1,)]
    until(lambda: not seat.recorder.failures)
    assert read_one(seat, record=True).exercises["one"].attempts == 1
    seat.teacher.execute("CREATE VIEW pipemagic_answers AS SELECT 1 AS id, 'x' AS answer, 'x' AS reason")
    row = read_one(seat, record=True)
    assert (row.exercises["one"].attempts, row.answers) == (1, {})


NO_ANSWERS = {
    "texts": "'never', 'x'",
    "a long text": "printf('%.*c', 5000, 'a'), printf('%.*c', 5000, 'b')",
    "blobs": "x'61', x'62'",
    "numbers": "1e999, 3",
    "controls": "char(27, 10, 0x202e) || 'x', '<script>'",
}


@pytest.mark.parametrize("values", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_student_who_writes_nonsense_as_an_answer(seat, values):
    seat.teacher.execute(ANSWERS_DDL)
    seat.teacher.execute("INSERT INTO pipemagic_progress(id, exercise, points, of) VALUES (1, 'one', 0, 2)")
    seat.teacher.execute(f"INSERT INTO pipemagic_answers VALUES (1, {values})")
    [answer] = read_one(seat, record=True).answers.values()
    assert 0 < len(answer.sql) <= 1000
    assert 0 < len(answer.reason) <= 200


def test_the_last_answer_of_an_exercise_that_was_not_passed(seat):
    seat.teacher.execute(ANSWERS_DDL)
    seat.teacher.execute(
        "INSERT INTO pipemagic_progress(id, exercise, points, of) VALUES"
        " (1, 'one', 0, 2), (2, 'one', 1, 2), (3, 'two', 0, 1), (4, 'two', 1, 1), (5, 'two', 0, 1), (6, 'one', 0.5, 2)"
    )
    seat.teacher.execute(
        "INSERT INTO pipemagic_answers VALUES (1, 'a', ''), (2, 'b', 'why'), (3, 'c', ''), (5, 'd', '')"
    )
    row = read_one(seat, record=True)
    assert row.answers == {"one": ("b", "why")}
    assert row.exercises == {"one": Tries(1.0, 2.0, 3), "two": Tries(1.0, 1.0, 2)}
    assert read_one(seat).answers == {}


def test_nothing_is_recorded_elsewhere_or_read_only(seat):
    assert "Recorded" not in seat.connect("--read-only").out
    seat.shell("%sql SELECT 1")
    seat.shell("%pipedb close")
    seat.teacher.execute("DROP TABLE pipemagic_progress")
    assert "Recorded" not in seat.connect().out
    seat.shell("%sql SELECT 1")
    assert seat.recorder is None
    with pytest.raises(StatementError, match="no such table"):
        seat.teacher.execute(ROWS)


def test_a_database_with_many_newer_tables_is_recorded_without_another_request(seat):
    seat.teacher.batch([f"CREATE TABLE t{number}(x)" for number in range(1001)])
    seat.shell("%pipedb wire on")
    assert "Recorded for the teacher" in seat.connect().out
    assert seat.rows(1) == [CONNECTED]
    assert len(seat.session.wire.last.requests) == 2  # the version of the protocol, and the check of the token


def test_a_connection_that_another_thread_has_closed_keeps_no_recorder(seat):
    seat.connect()
    connection = seat.session.connection()
    seat.session.close()
    seat.session.connected.send(connection)
    until(lambda: "pipemagic: progress" not in [thread.name for thread in threading.enumerate()])


def test_cells_are_added_up_and_sent_at_the_end(seat, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 1000.0)
    seat.connect()
    seat.rows(1)
    for _ in range(3):
        seat.shell("%sql SELECT 1")
    seat.shell.fails("%sql SELECT nope")
    assert seat.rows(1) == [CONNECTED]
    seat.shell("%unload_ext pipemagic")
    assert seat.teacher.execute(ROWS).rows == [CONNECTED, (4, 1, "no such column: nope", None, None, None)]


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_nothing_is_sent_while_a_transaction_is_open(seat, often):
    seat.connect()
    seat.rows(1)
    seat.shell("%%sql\nBEGIN; SELECT * FROM birds")
    pause(0.3)
    assert seat.teacher.execute(ROWS).rows == [CONNECTED]
    seat.shell("%sql INSERT INTO birds VALUES ('Cleo')")  # fails if another connection has written since BEGIN
    seat.shell("%sql COMMIT")
    assert seat.rows(2)[1:] == [(3, 0, None, None, None, None)]


def test_nothing_is_sent_while_a_check_runs(seat, often):
    seat.connect()
    seat.rows(1)
    with seat.recorder.paused():
        seat.shell("%sql SELECT 1")
        pause(0.3)
        assert seat.teacher.execute(ROWS).rows == [CONNECTED]
    seat.rows(2)


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_recording_resumes_when_a_deleted_table_is_created_again(seat, often):
    seat.connect()
    seat.rows(1)
    recorder = seat.recorder
    seat.shell("%sql DROP TABLE pipemagic_progress")
    until(lambda: recorder.failures)
    assert not seat.shell("%sql SELECT 1").err
    seat.teacher.execute(PROGRESS_DDL)
    until(lambda: seat.teacher.execute(SUMS).rows == [(2, 0)])
    assert not recorder.ended


def test_the_requests_are_not_in_the_wire_view(seat, often):
    seat.connect()
    seat.rows(1)
    seat.shell("%sql SELECT 1")
    seat.rows(2)
    seat.shell("%sql SELECT 2")
    seat.rows(3)
    assert len(seat.session.wire.last.requests) == 1
    assert "INSERT" not in str(seat.shell("%pipedb wire last").shown)


def test_a_closed_connection_sends_its_last_rows(seat, monkeypatch):
    monkeypatch.setattr(progress, "INTERVAL", 1000.0)
    seat.connect()
    seat.rows(1)
    seat.shell("%sql SELECT 1")
    seat.shell("%sql BEGIN")
    seat.shell("%pipedb close")
    assert seat.rows(2)[1:] == [(2, 0, None, None, None, None)]


KERNEL = """
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
shell.run_line_magic("load_ext", "pipemagic")
shell.run_line_magic("pipedb", "connect {url} --token-env DB_TOKEN")
for number in range(7):
    shell.run_line_magic("sql", "SELECT 1")
"""


def test_the_end_of_a_kernel_sends_the_last_rows(seat):
    program = [sys.executable, "-c", KERNEL.format(url=seat.url)]
    run = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert not run.stderr
    assert seat.teacher.execute(SUMS).rows == [(7, 0)]


def test_the_end_does_not_wait_for_a_server_that_does_not_respond(seat, often, monkeypatch):
    seat.connect()
    seat.rows(1)
    waiting, release = threading.Event(), threading.Event()
    monkeypatch.setattr(Database, "sibling", lambda *_arguments, **_options: waiting.set() or release.wait())
    seat.shell("%sql SELECT 1")
    assert waiting.wait(30)
    seat.shell("%unload_ext pipemagic")  # it ends before the server responds, or never
    release.set()


def test_an_exercise_on_a_statement_ignores_the_table(seat, often):
    """The states before and after the reference are compared, and rows may be recorded between them."""
    seat.connect()
    cell = "%%exercise egg\nINSERT INTO birds VALUES ('Cleo'); INSERT INTO pipemagic_progress(id) VALUES (1)"
    seat.shell(cell)
    labels = {probe.label for probe in results["egg"].exercise.probes}
    assert "birds" in labels
    assert not [label for label in labels if "pipemagic" in label]


def read(*seats, record=False):
    """Return the progress that the teacher reads."""
    class_ = model.Class("sql", "http://x", "local", "default", record=record, seats=list(seats))
    return read_progress(class_, lambda student: Database(student.url, student.token))


def test_the_teacher_reads_what_the_students_did(seat, often, monkeypatch):
    seat.connect()
    seat.shell(ONE)
    seat.shell("%%check one\nSELECT count(*) AS n FROM birds")
    seat.shell("%%check one\nSELECT 0 AS n")
    seat.shell.fails("%sql SELECT nope")
    until(lambda: seat.teacher.execute(SUMS).rows == [(1, 1)])
    until(lambda: seat.teacher.execute("SELECT count(exercise) FROM pipemagic_progress").rows == [(2,)])
    seats = [
        model.Seat("1", "Jürgen", "a", url=seat.url, token=seat.token),
        model.Seat("2", "Zoë", "b", url=seat.url, token="expired"),
        model.Seat("3", "Zoë", "c", "zoe@x.org", url="http://127.0.0.1:9", token=seat.token),
    ]
    rows = read(*seats)
    assert [row.student for row in rows] == ["Jürgen", "Zoë (2)", "Zoë (zoe@x.org)"]
    first = rows[0]
    assert time.time() - 60 < first.connected <= first.last < time.time() + 60
    assert (first.cells, first.errors, first.error) == (1, 1, "no such column: nope")
    assert (first.exercises, first.passed({"one"})) == ({"one": Tries(2.0, 2.0, 1)}, 1)
    assert all(row.problem and row.connected is None for row in rows[1:])
    assert summary(rows) == "1 of 3 connected, 1 passed the exercise, 1 with errors, 2 databases not readable"
    assert table_of(rows, first.last + 150)[0][2:] == ("2 min ago", "1", "1", "1 of 1", "no such column: nope")
    assert table_of(rows, 0)[1][0::6] == ("Zoë (2)", rows[1].problem)


def test_a_student_without_rows_and_one_without_the_table(seat):
    row = read_one(seat)
    assert row == Progress("Ana", "a")
    assert table_of([row], 0)[0] == ("Ana", "", "", "0", "0", "", "")
    seat.teacher.execute("DROP TABLE pipemagic_progress")
    assert read_one(seat).problem == "the table pipemagic_progress was deleted"


def read_one(seat, *, record=False):
    """Return the progress that the teacher reads."""
    [row] = read(model.Seat("1", "Ana", "a", url=seat.url, token=seat.token), record=record)
    json.dumps(asdict(row), allow_nan=False)
    return row


NONSENSE = {
    "texts": ("'never', 'many', 'few', 'bad', 'one', 'all', NULL", (0, 0, "bad", {"one": Tries(0.0, 0.0, 1)})),
    "infinity": ("1, 9e999, 9e999, 'bad', 'one', 9e999, 9e999", (10**6, 10**6, "bad", {"one": Tries(1e6, 1e6, 1)})),
    "less than nothing": ("1, -9e999, -3, 'bad', 'one', -9e999, -1", (0, 0, "bad", {"one": Tries(0.0, 0.0, 1)})),
    "large numbers": ("1, 1 << 62, 1 << 62, '', 'one', 1e300, 2", (10**6, 10**6, None, {"one": Tries(1e6, 2.0, 1)})),
    "blobs": ("1, x'61', x'62', x'6261', x'6f6e65', x'32', x'32'", (0, 0, "ba", {"one": Tries(2.0, 2.0, 1)})),
    "long texts": (
        "1, 1, 1, printf('%.*c', 1000, 'e'), printf('%.*c', 1000, 'n'), 1, 2",
        (1, 1, 200 * "e", {100 * "n": Tries(1.0, 2.0, 1)}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "expected"), NONSENSE.values(), ids=NONSENSE)
def test_a_student_who_writes_nonsense_into_the_table(seat, values, expected):
    """Students can write to their own database."""
    seat.teacher.execute(f"INSERT INTO pipemagic_progress VALUES (1, {values})")
    row = read_one(seat)
    assert (row.cells, row.errors, row.error, row.exercises, row.problem) == (*expected, "")


def test_bytes_that_are_no_text_are_a_problem_of_one_student(seat):
    seat.teacher.execute("INSERT INTO pipemagic_progress(id, error, exercise) VALUES (1, x'ff00', x'fe')")
    assert "utf-8" in read_one(seat).problem.lower()


def test_a_sum_that_is_no_number(seat):
    seat.teacher.execute("INSERT INTO pipemagic_progress(id, cells) VALUES (1, 9e999), (2, -9e999)")
    row = read_one(seat)
    assert (row.cells, row.problem) == (0, "")


def test_impossible_times_are_ignored(seat):
    """A student can write any time; the time of the server is between 2020 and now."""
    seat.teacher.execute(
        "INSERT INTO pipemagic_progress(id, at, cells) VALUES (1, '-4000-01-01', 1), (2, '9999-01-01', 1),"
        " (3, datetime('now', '+1 hour'), 1), (4, '2019-12-31', 1), (5, 'never', 1)"
    )
    row = read_one(seat)
    assert (row.connected, row.last, row.cells) == (None, None, 5)
    seat.teacher.execute("INSERT INTO pipemagic_progress(id, at) VALUES (6, '2025-06-01'), (7, '2025-06-02T00:00:09Z')")
    row = read_one(seat)
    assert (row.connected, row.last) == (1748736000, 1748822409)


def test_a_view_without_an_end_in_place_of_the_table(seat):
    seat.teacher.execute("DROP TABLE pipemagic_progress")
    columns = ", ".join(f"n AS {name}" for name in ("id", "at", "cells", "errors", "error", "exercise", "points", "of"))
    seat.teacher.execute(
        "CREATE VIEW pipemagic_progress AS WITH RECURSIVE all_n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM all_n)"
        f" SELECT {columns} FROM all_n"
    )
    assert read_one(seat).problem == "pipemagic_progress is not a table"  # not a timeout


def test_many_invented_exercises(seat):
    seat.teacher.execute(
        "WITH RECURSIVE ids(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ids WHERE n < 5000)"
        " INSERT INTO pipemagic_progress(id, exercise) SELECT n, 'invented ' || n FROM ids"
    )
    assert len(read_one(seat).exercises) == 200


def test_a_reload_of_the_extension_continues_to_record(seat, often):
    seat.connect()
    seat.rows(1)
    recorder = seat.recorder
    seat.shell("%reload_ext pipemagic")
    assert seat.recorder is recorder
    seat.shell("%sql SELECT count(*) FROM birds")
    assert seat.rows(2) == [CONNECTED, (1, 0, None, None, None, None)]
