"""``pipemagic class create``, ``reset`` and ``close`` from the command line, and the hand-outs."""

from __future__ import annotations

import csv
import os
import pty
import re
import stat
import subprocess
import sys
import time
from datetime import datetime
from functools import partial

import pytest

from pipemagic import connect
from pipemagic.teaching.classes import commands, model
from pipemagic.teaching.classes.model import Class, Seat

ROSTER = "name;email\nAda <b>Lovelace</b>;ada@x.org\nJörg Müller;joerg@x.org\n"


@pytest.fixture
def run(command, embedded, tmp_path):
    """Run a command on classes, in a folder with a roster."""
    (tmp_path / "SQL 101.csv").write_text(ROSTER, encoding="utf-8")
    embedded.template()
    return partial(command, "class")


def read_handouts(folder):
    with (folder / "sql-101-handouts.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


LOCAL = "The addresses work only on this machine. Use --address URL to name one for other machines."
CREATE = ["create", "SQL 101.csv", "--group", "default", "--from", "lesson"]


def test_a_class_from_roster_to_close(run, tmp_path, embedded):
    code, out, err = run(*CREATE, "--expires", "90m", "--link", "https://hub.example.org/?a=1&b=2")
    assert (code, err) == (0, LOCAL + "\n")
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(model.load().expires))
    files = [str(tmp_path / f"sql-101-handouts.{suffix}") for suffix in ("csv", "html")]
    assert out.splitlines() == [f"sql-101: 2 students, tokens until {until}", *files]

    rows = read_handouts(tmp_path)
    assert [row["student"] for row in rows] == ["Ada <b>Lovelace</b>", "Jörg Müller"]
    assert [row["email"] for row in rows] == ["ada@x.org", "joerg@x.org"]
    assert 5300 < datetime.fromisoformat(rows[0]["expires"]).timestamp() - time.time() <= 5400
    with connect(rows[1]["address"], rows[1]["token"]) as database:
        database.execute("DELETE FROM street")

    page = (tmp_path / "sql-101-handouts.html").read_text("utf-8")
    assert "Ada &lt;b&gt;Lovelace&lt;/b&gt;" in page
    assert 'href="https://hub.example.org/?a=1&amp;b=2"' in page
    assert page.count("<section>") == 2
    for row in rows:
        assert f"%pipedb connect {embedded.api.url} --code {row['code']}" == row["line"]
        assert row["line"] in re.sub(r"</?(?:code|span)>", "", page)
        assert row["token"] not in page

    assert run("reset", "jörg müller", "--yes") == (0, "Jörg Müller\n", "")
    with connect(rows[1]["address"], rows[1]["token"]) as database:
        assert database.execute("SELECT count(*) FROM street").rows == [(1,)]
    assert run("close", "--confirm", "sql-101") == (0, "sql-101\n", "")
    assert embedded.names() == {"lesson"}


def test_the_files_with_tokens_are_private(run, tmp_path, settings_folder):
    run(*CREATE)
    paths = [*tmp_path.glob("*handouts*"), *settings_folder.rglob("*.json"), *settings_folder.rglob("*.lock")]
    assert len(paths) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o600}


def test_create_again_with_a_longer_roster(run, tmp_path):
    run(*CREATE, "--expires", "1h")
    first = {seat.student: seat.token for seat in model.load().seats}
    (tmp_path / "SQL 101.csv").write_text("name;email\nJörg Müller;joerg@x.org\nZoë;zoe@x.org\n", encoding="utf-8")
    code, out, err = run(*CREATE, "--expires", "8h")
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(model.load().expires))
    assert (code, out.splitlines()[0]) == (0, f"sql-101: 3 students, tokens until {end}")
    assert err.splitlines() == [
        "The class sql-101 has 2 students. The roster adds 1 student.",
        f"The lesson still ends at {end}. Use --new-tokens to create new tokens and codes for all students.",
        "These students are in the class but not in the roster: Ada <b>Lovelace</b>.",
        LOCAL,
    ]
    again = {seat.student: seat.token for seat in model.load().seats}
    assert again | first == again
    assert model.load().expires < time.time() + 3600
    code, _, err = run(*CREATE, "--expires", "8h", "--new-tokens")
    assert "still ends" not in err
    assert {seat.token for seat in model.load().seats}.isdisjoint(again.values())
    assert model.load().expires > time.time() + 7 * 3600


REFUSED = {
    "an unknown group": (
        ["create", "SQL 101.csv", "--group", "none"], "group not found",
        "create it with `pipemagic group create none --location CODE`",  # behind the groups, to which other tests add
    ),
    "an unknown template": ([*CREATE[:-1], "lessn"], "lessn", "check the name"),
    "a missing roster": (["create", "none.csv", "--group", "default"], "cannot read the roster", ""),
    "a wrong name": ([*CREATE, "--name", "SQL 101"], "invalid class name 'SQL 101'", "--name"),
    "no class": (["reset", "--all", "--yes"], "no class exists", "pipemagic class create ROSTER.csv --group G"),
    "an unknown class": (["close", "none"], "class none does not exist", "pipemagic class create ROSTER.csv --group G"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message", "hint"), REFUSED.values(), ids=REFUSED)
def test_mistakes(run, arguments, message, hint):
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert message in err
    assert hint in err


def test_a_wrong_group_can_be_corrected(run):
    assert run("create", "SQL 101.csv", "--group", "none", "--from", "lesson")[0] == 1
    assert run(*CREATE)[0] == 0


def test_another_template_needs_another_class(run):
    run(*CREATE)
    code, _, err = run(*CREATE[:-1], "other")
    assert code == 1
    assert "the class sql-101 has the template lesson, not other" in err
    assert "--name" in err


def test_a_class_records_wrong_answers_from_its_start_or_never(run, tmp_path):
    run(*CREATE)
    code, _, err = run(*CREATE, "--record")
    assert code == 1
    assert "the class sql-101 was created without --record" in err
    assert not model.load("sql-101").record
    assert run(*CREATE, "--record", "--name", "two")[0] == 0
    assert run(*CREATE, "--name", "two")[0] == 0
    assert model.load("two").record
    cards = [(tmp_path / f"{name}-handouts.html").read_text("utf-8") for name in ("sql-101", "two")]
    assert ["points and wrong answers are recorded in it" in card for card in cards] == [False, True]


def test_a_roster_that_changes_many_names_is_refused(run, tmp_path):
    """The ids show that they are the same students, and the file is readable: its names are those of others."""
    roster = tmp_path / "SQL 101.csv"
    names = [f"Student {number}" for number in range(8)]

    def write(names):
        roster.write_text("\n".join(["name,id", *(f"{name},{at}" for at, name in enumerate(names))]))

    write(names)
    run(*CREATE)
    before = model.load()
    write(["Mÿller", "STUDENT 1", *names[2:]])
    code, _, err = run(*CREATE)
    assert (code, err.splitlines()[0]) == (0, "The roster changes names: Student 0 to Mÿller.")
    write(names[1:] + names[:1])
    code, _, err = run(*CREATE)
    assert code == 1
    assert "the roster changes the names of 8 of 8 students, for example Mÿller to Student 1" in err
    assert "use --rename if the new names are right" in err
    assert [seat.student for seat in model.load().seats] == ["Mÿller", "STUDENT 1", *names[2:]]
    assert run(*CREATE, "--rename")[0] == 0
    assert [seat.student for seat in model.load().seats] == names[1:] + names[:1]
    assert [seat.token for seat in model.load().seats] == [seat.token for seat in before.seats]


def test_a_length_of_time_that_is_none(run):
    code, _, err = run(*CREATE, "--expires", "soon")
    assert code == 2
    assert "'soon' is not a duration of at most a year, such as 90m, 2h or 1d12h" in err


def test_the_students_of_a_reset(run):
    run(*CREATE)
    assert run("reset")[0] == 2
    assert run("reset", "--all", "Jörg Müller")[0] == 2
    code, _, err = run("reset", "Jorg Muller")
    assert code == 1
    assert "the class sql-101 has no student Jorg Muller" in err
    assert "did you mean Jörg Müller?" in err
    code, _, err = run("reset", "ada@x.org")
    assert code == 1
    assert "confirmation required: Discard everything in the databases of Ada <b>Lovelace</b>?" in err
    assert run("reset", "sql-101-jorg-muller", "ADA@x.org", "-y")[:2] == (0, "Jörg Müller\nAda <b>Lovelace</b>\n")
    assert run("reset", "--all", "-y")[0] == 0


def test_students_of_one_name_are_told_apart(run, tmp_path):
    students = "Anna,7,a@x.org\nAnna,8,both@x.org\nANNA,9,both@x.org\nBo,10,\n"
    (tmp_path / "SQL 101.csv").write_text(f"name,id,email\n{students}")
    run(*CREATE)
    names = ["Anna (a@x.org)", "Anna (8)", "ANNA (9)", "Bo"]
    assert list(model.load().labels().values()) == names
    page = (tmp_path / "sql-101-handouts.html").read_text("utf-8")
    assert re.findall("<h2>(.*)</h2>", page) == names
    code, _, err = run("reset", "Anna", "-y")
    assert code == 1
    assert "the class sql-101 has 3 students named Anna" in err
    assert "write a@x.org or 8 or 9" in err
    assert "in the databases of Anna (8)?" in run("reset", "8")[2]
    assert run("reset", "a@x.org", "anna (8)", "9", "-y")[:2] == (0, "Anna (a@x.org)\nAnna (8)\nANNA (9)\n")


def test_a_student_of_an_earlier_roster_without_ids_is_told_apart_by_the_database(run, tmp_path):
    (tmp_path / "SQL 101.csv").write_text("name\nAnna\nBo\n")
    run(*CREATE)
    (tmp_path / "SQL 101.csv").write_text("name,id\nAnna,1\nAnna,2\nBo,3\n")
    run(*CREATE)
    assert list(model.load().labels().values()) == ["Anna", "Bo", "Anna (1)", "Anna (2)"]
    assert "write sql-101-anna or 1 or 2" in run("reset", "Anna", "-y")[2]


def test_close_needs_the_name(run, embedded):
    run(*CREATE)
    code, _, err = run("close")
    assert code == 1
    assert "Permanently delete 2 databases and all work of the students?" in err
    assert "--confirm sql-101" in err
    assert run("close", "--confirm", "sql-10")[0] == 1
    assert len(embedded.names()) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of Unix")
def test_close_asks_in_a_terminal(run, embedded):
    run(*CREATE)
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "pipemagic", "class", "close"], stdin=child, stdout=child, stderr=child,
        env={**os.environ, "PIPEMAGIC_DATA": ""},
    ) as process:  # fmt: skip
        os.close(child)
        shown = b""
        while b"Type sql-101 to confirm" not in shown:
            shown += os.read(parent, 1000)
        os.write(parent, b"yes\n")
        while True:
            try:
                more = os.read(parent, 1000)
            except OSError:  # the end of a terminal on Linux
                break
            if not more:
                break
            shown += more
    os.close(parent)
    assert len(embedded.names()) == 3
    assert process.returncode != 0
    assert b"nothing was changed: you did not type sql-101" in shown


def test_a_class_of_another_service_is_refused(run, monkeypatch):
    run(*CREATE)
    changed = model.load()
    changed.organization = "acme"
    changed.save()
    code, _, err = run("reset", "--all", "-y")
    assert code == 1
    assert "the class sql-101 belongs to the organization acme" in err


def test_two_commands_at_once(run):
    run(*CREATE)
    with model.locked("sql-101"):
        code, _, err = run(*CREATE)
    assert code == 1
    assert "another command is changing the class sql-101" in err


def test_the_address_of_the_students_may_be_another(run, tmp_path):
    run(*CREATE, "--address", "https://hub.example.org/services/sql")
    rows = read_handouts(tmp_path)
    assert {row["address"] for row in rows} == {"https://hub.example.org/services/sql"}
    run(*CREATE)  # a repeated command keeps it
    assert "https://hub.example.org/services/sql" in (tmp_path / "sql-101-handouts.html").read_text("utf-8")


def test_the_address_of_the_students_gets_its_scheme(run, tmp_path):
    run(*CREATE, "--address", "hub.example.org:8443")
    assert {row["address"] for row in read_handouts(tmp_path)} == {"https://hub.example.org:8443"}


def test_the_card_of_a_long_name_is_complete():
    name = "Maximiliane " + "von und zu " * 9
    seat = Seat("1", name, "sql-1", url="http://x", token="t")
    made = Class("sql", "http://x", "local", "g", expires=1e9, seats=[seat])
    assert re.search(f"<h2>{name}</h2>", commands.handouts_html(made))


def test_a_class_file_that_is_no_class(run, settings_folder):
    run(*CREATE)
    (settings_folder / "classes" / "sql-101.json").write_text("{}")
    code, _, err = run("reset", "--all", "-y")
    assert code == 1
    assert "it was written by another version of pipemagic" in err
