"""The one-time codes of a class: on cards, from `class code`, and after each command that changes the class."""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from classes import new_class as class_on
from served import serve

from pipemagic import cli, connect
from pipemagic.errors import AuthError, SessionError, UnsupportedError
from pipemagic.management_api.client import management
from pipemagic.session import Session
from pipemagic.teaching.classes import commands, creation, model
from pipemagic.teaching.classes.model import Class
from pipemagic.teaching.classes.roster import Student

KEY, OTHER = "k" * 22, "o" * 22
VIRTUAL = "CREATE VIRTUAL TABLE words USING fts5(word); INSERT INTO words VALUES ('a')"


def new_class(place, *names, template="", name="sql"):
    """Return a class with these students, whose databases exist."""
    class_ = class_on(place.api, template, students=[Student(student.casefold(), student) for student in names])
    class_.name = name
    for seat in class_.seats:
        seat.database = seat.database.replace("sql", name)
    creation.create(place.api, class_)
    return class_


def exchange(place, code, key=KEY):
    """Return the name of the database of a code, or the code of the error."""
    try:
        with management(place.api.url) as api:
            return api.exchange_code(code, key).database
    except AuthError as error:
        return error.code


def texts(page):
    """Return the text of the cells of a page."""
    return re.sub(r"</?(?:code|span)>", "", page)


def opened(place, seat):
    """Exchange the code of a seat."""
    return exchange(place, seat.one_time_code)


def test_a_card_has_the_code_and_not_the_token(embedded):
    class_ = new_class(embedded, "Ada", "Grace")
    page = texts(commands.handouts_html(class_))
    for seat in class_.seats:
        assert len(seat.one_time_code) == 8
        assert f"%pipedb connect {embedded.api.url} --code {seat.one_time_code}" in page
        assert seat.token not in page
    class_.address = "http://teacher.lan:8080"
    page, code = texts(commands.handouts_html(class_)), class_.seats[0].one_time_code
    assert f"%pipedb connect http://teacher.lan:8080 --code {code}" in page
    assert [opened(embedded, seat) for seat in class_.seats] == [seat.database for seat in class_.seats]


def test_the_line_of_a_card_connects_and_works_after_a_restart(embedded, tmp_path):
    class_ = new_class(embedded, "Ada", template=embedded.template())
    [seat] = class_.seats
    for _ in range(2):
        with Session(environ={"PIPEMAGIC_CONFIG": str(tmp_path / "of Ada")}) as session:
            assert session.connect(embedded.api.url, code=seat.one_time_code).name == seat.database
            assert session.run("SELECT count(*) AS n FROM street")["n"].to_list() == [1]


def test_a_service_without_codes_has_cards_with_tokens(hosted):
    class_ = new_class(hosted, "Ada")
    [seat] = class_.seats
    assert (class_.codes, seat.one_time_code) == (False, "")
    page = commands.handouts_html(class_)
    assert "Enter this token when you are asked for it" in page
    assert seat.token in page
    assert "--code" not in page + commands.handouts_csv(class_)
    assert creation.create(hosted.api, class_) == 0
    with pytest.raises(UnsupportedError, match="Ada: this service has no codes") as caught:
        creation.renew_codes(hosted.api, class_, class_.seats)
    assert "give the student the token of the hand-outs" in caught.value.hint


def test_students_on_libsql_servers_have_codes(on_sqld, tmp_path):
    class_ = new_class(on_sqld, "Ada")
    with Session(environ={"PIPEMAGIC_CONFIG": str(tmp_path / "of Ada")}) as session:
        session.connect(on_sqld.api.url, code=class_.seats[0].one_time_code)
        assert session.run("SELECT 1 AS n")["n"].to_list() == [1]


def test_create_again_keeps_codes_until_the_lesson_is_extended(embedded):
    class_ = new_class(embedded, "Ada")
    before = class_.seats[0].one_time_code
    creation.add_students(class_, [Student("grace", "Grace")], "local")
    assert creation.create(embedded.api, class_) == 1
    assert class_.seats[0].one_time_code == before
    class_.expires += 3600
    assert creation.create(embedded.api, class_) == 2
    assert exchange(embedded, before) == "CODE_EXPIRED"
    assert opened(embedded, class_.seats[0]) == class_.seats[0].database


def test_a_class_of_an_earlier_version_gets_codes(embedded):
    class_ = new_class(embedded, "Ada")
    class_.seats[0].one_time_code = ""
    assert creation.create(embedded.api, class_) == 1
    assert opened(embedded, class_.seats[0]) == class_.seats[0].database


def test_a_new_code_ends_the_earlier_one_and_not_its_token(embedded):
    class_ = new_class(embedded, "Ada", "Grace")
    ada, grace = class_.seats
    with management(embedded.api.url) as api:
        token = api.exchange_code(ada.one_time_code, KEY).token
    earlier, unused = ada.one_time_code, grace.one_time_code
    creation.renew_codes(embedded.api, class_, [ada])
    assert exchange(embedded, earlier) == "CODE_EXPIRED"
    assert exchange(embedded, ada.one_time_code, OTHER) == ada.database
    assert grace.one_time_code == unused
    assert model.load(class_.name).seats[0].one_time_code == ada.one_time_code
    with connect(embedded.api.url, str(token)) as database:
        assert database.execute("SELECT 1").rows == [(1,)]


def test_a_new_code_after_the_tokens_were_invalidated(embedded):
    class_ = new_class(embedded, "Ada")
    [ada] = class_.seats
    embedded.api.invalidate_tokens(ada.database)
    assert opened(embedded, ada) == "CODE_EXPIRED"
    creation.renew_codes(embedded.api, class_, [ada])
    assert opened(embedded, ada) == ada.database
    with connect(ada.url, ada.token) as database:  # of the hand-outs; the status reads with it, too
        assert database.execute("SELECT 1").rows == [(1,)]


def test_the_table_of_a_mail_merge_tells_students_of_one_name_apart(embedded):
    class_ = class_on(embedded.api, "", students=[Student(key, "Ada") for key in "12"])
    rows = list(csv.DictReader(io.StringIO(commands.handouts_csv(class_))))
    assert [row["student"] for row in rows] == ["Ada (1)", "Ada (2)"]


def test_no_new_code_after_the_lesson_or_without_a_database(embedded):
    class_ = new_class(embedded, "Ada")
    embedded.api.delete_database(class_.seats[0].database)
    with pytest.raises(SessionError, match="no database yet for Ada") as caught:
        creation.renew_codes(embedded.api, class_, class_.seats)
    assert caught.value.hint == "run `pipemagic class create` again"
    class_.expires = time.time() - 1
    with pytest.raises(SessionError, match="the lesson of the class sql is over"):
        creation.renew_codes(embedded.api, class_, class_.seats)


def test_a_reset_keeps_codes_unless_the_databases_are_new(embedded):
    class_ = new_class(embedded, "Ada", template=embedded.template())
    [seat] = class_.seats
    before = seat.one_time_code
    creation.reset(embedded.api, class_, class_.seats)
    assert (seat.one_time_code, opened(embedded, seat)) == (before, seat.database)
    other = new_class(embedded, "Grace", name="other", template=embedded.template("virtual", VIRTUAL))
    [seat] = other.seats
    before = seat.one_time_code
    assert creation.reset(embedded.api, other, other.seats) == [seat]
    assert exchange(embedded, before) == "CODE_WRONG"
    assert opened(embedded, seat) == seat.database


def test_codes_end_with_the_class(embedded):
    class_ = new_class(embedded, "Ada")
    creation.close(embedded.api, class_)
    assert exchange(embedded, class_.seats[0].one_time_code) == "CODE_WRONG"


def test_the_command_prints_the_line_to_type(embedded, capsys):
    class_ = new_class(embedded, "Ada", "Grace")
    assert cli.main(["class", "code", "ada", class_.seats[1].database]) == 0
    out, err = capsys.readouterr()
    seats = model.load(class_.name).seats
    assert out.splitlines() == [
        f"{seat.student}: %pipedb connect {embedded.api.url} --code {seat.one_time_code}" for seat in seats
    ]
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(class_.expires))
    assert err == f"Each code is valid once, until {until}.\n"
    assert [opened(embedded, seat) for seat in seats] == [seat.database for seat in seats]
    assert cli.main(["class", "code", "Adda"]) == 1
    assert "did you mean Ada?" in capsys.readouterr().err


def test_the_next_lesson_has_codes_if_the_service_has_them_by_then(embedded, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    class_ = new_class(embedded, "Ada")
    class_.codes, class_.seats[0].one_time_code = False, ""  # as an earlier version of the service left them
    class_.save()
    (tmp_path / "roster.csv").write_text("name\nAda\n", "utf-8")
    command = ["class", "create", "roster.csv", "--group", "default", "--name", class_.name]
    assert cli.main(command) == 0
    assert model.load(class_.name).seats[0].one_time_code == ""
    assert cli.main([*command, "--new-tokens"]) == 0
    [seat] = model.load(class_.name).seats
    assert opened(embedded, seat) == seat.database


def test_cards_have_qr_codes_where_segno_is_installed(embedded, monkeypatch):
    class_ = new_class(embedded, "Ada")
    monkeypatch.setitem(sys.modules, "segno", None)
    without = commands.handouts_html(class_)
    assert "<svg" not in without
    monkeypatch.undo()
    segno = pytest.importorskip("segno")
    text = f"%load_ext pipemagic\n%pipedb connect {embedded.api.url} --code {class_.seats[0].one_time_code}"
    drawn = segno.make_qr(text, error="m").svg_inline(omitsize=True, border=0, svgclass="qr", lineclass=None)
    assert commands.handouts_html(class_).replace(drawn + "\n", "") == without


def test_200_students_behind_one_address_connect_while_wrong_codes_are_limited(tmp_path, settings_folder):
    folder = tmp_path / "data"
    with serve(folder, command="class serve") as served, management(
        served.url, served.platform_token, organization="local"
    ) as api:  # fmt: skip
        api.create_group("lessons", "ams")
        class_ = Class("c", served.url, "local", "lessons", expires=time.time() + 3600)
        creation.add_students(class_, [Student(f"s{number}", f"Student {number}") for number in range(200)], "local")
        creation.create(api, class_)
        with httpx.Client(base_url=served.url) as http:

            def wrong(_):
                return http.post("/v1/auth/code", json={"code": "WRNGWRNG", "key": KEY}).status_code

            def join(seat):
                with Session(environ={"PIPEMAGIC_CONFIG": str(tmp_path / seat.database)}) as session:
                    return session.connect(served.url, code=seat.one_time_code).name

            with ThreadPoolExecutor(16) as pool:
                assert list(map(wrong, range(100))).count(429) > 50  # from this address, and before the students
                joined = pool.map(join, class_.seats)
                attempts = list(pool.map(wrong, range(200)))
                assert list(joined) == [seat.database for seat in class_.seats]
            assert set(attempts) <= {401, 429}
            assert exchange_at(api, class_.seats[0].one_time_code) == "CODE_USED"
    with serve(folder, command="class serve") as served, management(served.url) as api:
        assert exchange_at(api, class_.seats[0].one_time_code) == "CODE_USED"  # after a restart, too


def exchange_at(api, code):
    try:
        return api.exchange_code(code, OTHER).database
    except AuthError as error:
        return error.code
