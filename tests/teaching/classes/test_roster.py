"""Rosters as people and learning platforms write them."""

from __future__ import annotations

import io
import zipfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic import cli
from pipemagic.client.names import problem
from pipemagic.errors import SessionError
from pipemagic.teaching.classes.creation import add_students
from pipemagic.teaching.classes.model import Class, load
from pipemagic.teaching.classes.roster import Student, database_name, read_roster, slug


@pytest.fixture
def roster(tmp_path):
    """Write a roster and read it."""

    def read(content: str | bytes):
        path = tmp_path / "sql-101.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_roster(path)

    return read


LAYOUTS = {
    "names only": "Ada Lovelace\nAlan Turing\n",
    "a header": "name\nAda Lovelace\nAlan Turing\n",
    "other columns": "id;name;points\n1;Ada Lovelace;3\n2;Alan Turing;4\n",
    "Moodle": '"First name",Surname,"Email address"\nAda,Lovelace,ada@x.org\nAlan,Turing,alan@x.org\n',
    "German": "Nachname\tVorname\nLovelace\tAda\nTuring\tAlan\n",
    "French Moodle": "Prénom,Nom de famille,Adresse de courriel\nAda,Lovelace,ada@x.org\nAlan,Turing,alan@x.org\n",
    "Spanish Moodle": "Nombre,Apellido(s),Dirección de correo\nAda,Lovelace,ada@x.org\nAlan,Turing,alan@x.org\n",
    "no header": "Ada Lovelace,ada@x.org,17\nAlan Turing,alan@x.org,18\n",
    "quoted, blank lines, CRLF": '\r\n"Ada  Lovelace"\r\n\r\n   \r\nAlan Turing\r\n',
    "a mark": "\ufeffname,email\nAda Lovelace,\nAlan Turing,\n",
    "Excel's first line": "sep=;\r\nname;email\r\nAda Lovelace;ada@x.org\r\nAlan Turing;alan@x.org\r\n",
    "Excel's first line, tabs, no header": '"sep=\t"\nAda Lovelace\tada@x.org\nAlan Turing\t\n',
    "no header, a comma in names": "Ada, Lovelace, ada@x.org\nAlan, Turing, alan@x.org\n",
    "no header, a comma in quotation marks": '"Ada, Lovelace";ada@x.org\n"Alan, Turing";alan@x.org\n',
    "empty cells behind the header": "name,email\nAda Lovelace,ada@x.org,,\nAlan Turing,alan@x.org, \n",
    "Canvas": (
        "Student,ID,SIS Login ID,Section,Final Score\n,,,,Manual Posting\n    Points Possible,,,,(read only)\n"
        'Ada Lovelace,7,ada,SQL,1\nAlan Turing,8,alan,SQL,2\n"Student, Test",9,t9,SQL,\n'
    ),
}


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
def test_the_layouts_of_rosters(roster, text):
    assert [student.name.replace(",", "") for student in roster(text).students] == ["Ada Lovelace", "Alan Turing"]


def test_the_key_is_the_id_then_the_email_then_the_name(roster):
    students = roster("name,email,id\nAda,a@x.org,S1\nBob,B@x.org,\nCleo,,\n").students
    assert students == [Student("s1", "Ada", "a@x.org"), Student("b@x.org", "Bob", "B@x.org"), Student("cleo", "Cleo")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_umlauts_in_the_encodings_of_spreadsheets(roster, encoding):
    found = roster("name;email\nJürgen Groß;j@x.org\n".encode(encoding))
    assert [student.name for student in found.students] == ["Jürgen Groß"]
    assert bool(found.notes) is (encoding == "cp1252")  # a guess, which is reported


def test_composed_and_decomposed_umlauts_are_the_same_student(roster):
    with pytest.raises(SessionError, match="line 2, Jürgen, cannot be distinguished from line 1, Jürgen"):
        roster("Jürgen\nJu\u0308rgen\n")


def test_two_students_of_the_same_name_need_an_id(roster):
    with pytest.raises(SessionError, match="line 4, Anna Schmidt, cannot be distinguished from line 2") as caught:
        roster("name\nAnna Schmidt\nBob\nanna schmidt\n".replace("anna schmidt", "Anna Schmidt"))
    assert "add an id or email column" in caught.value.hint
    both = roster("name,id\nAnna Schmidt,1\nAnna Schmidt,2\n").students
    assert [student.key for student in both] == ["1", "2"]


def test_the_same_line_twice_is_one_student(roster):
    found = roster("name,email\nAnna,a@x.org\nBob,b@x.org\nAnna,A@x.org\n")
    assert [student.name for student in found.students] == ["Anna", "Bob"]
    assert found.notes == ["Line 4 repeats line 2 (Anna)."]


def test_one_id_with_two_names_is_an_error(roster):
    with pytest.raises(SessionError, match="line 3, Bob, cannot be distinguished from line 2, Anna"):
        roster("name,email\nAnna,a@x.org\nBob,a@x.org\n")


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "@x", "a\x1b[2J", "a\u2029\x07b", "\u200d\x7f"])
def test_names_that_programs_would_run_are_refused(roster, name):
    with pytest.raises(SessionError, match=r"sql-101\.csv: line 2: .* is not a name"):
        roster(f"name\n{name}\n")


@pytest.mark.parametrize(
    "email",
    ['=HYPERLINK("//x")@x', "+1@x", "-a@x", "@x.org", "a@", "a\x1b[2J@x.org", "a@b@x.org", "a b@x.org", "none"],
)
def test_email_addresses_that_programs_would_run_are_refused(roster, email):
    quoted = email.replace('"', '""')
    with pytest.raises(SessionError, match=r"sql-101\.csv: line 2: .* is not an email address") as caught:
        roster(f'name,email\nAda,"{quoted}"\n')
    assert "an email address has one @ and no spaces" in caught.value.hint


def test_a_bad_name_is_shortened_in_the_message(roster):
    with pytest.raises(SessionError) as caught:
        roster("name\n=" + "x" * 1000)
    assert str(caught.value).startswith(f"sql-101.csv: line 2: '={'x' * 37}… is not a name")


def test_invisible_marks_of_other_programs_are_removed(roster):
    marks = "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
    found = roster(f"{marks}name,{marks}email\nA{marks}da,{marks}ada@x.org{marks}\n")
    assert found.students == [Student("ada@x.org", "Ada", "ada@x.org")]


@pytest.mark.parametrize("name", ["می\u200cخواهم", "Ada 👩\u200d💻"])
def test_joiners_of_persian_and_emojis_stay(roster, name):
    assert [student.name for student in roster(f"name\n{name}\n").students] == [name]


@pytest.mark.parametrize("text", ['name\n"Ada\nBob\nCleo\n', 'name\n"Ada\nBob\n"Cleo"\n', 'name\n"Ada "A." L"\nBob\n'])
def test_a_quotation_mark_that_is_not_closed_is_an_error(roster, text):
    with pytest.raises(SessionError, match=r"sql-101\.csv: line 2 is not valid CSV: ") as caught:
        roster(text)
    assert "quotation mark" in caught.value.hint


def test_quoted_cells_with_line_breaks_and_quotation_marks(roster):
    found = roster('name,note\n"Ada ""A."" Lovelace","1\n2\n"\nBob,\n')
    assert [student.name for student in found.students] == ['Ada "A." Lovelace', "Bob"]
    with pytest.raises(SessionError, match="line 5: '=x' is not a name"):
        roster('name,note\nAda,"1\n2\n"\n=x,\n')


def test_a_huge_cell_is_an_error(roster):
    with pytest.raises(SessionError, match="line 3 is not valid CSV: field larger than field limit"):
        roster(f"name\nAda\n{'x' * 131_073}\n")


def test_a_title_above_the_header(roster):
    found = roster("Course 9b, summer\n\nName;E-Mail\nLovelace, Ada;ada@x.org\n")
    assert found.students == [Student("ada@x.org", "Lovelace, Ada", "ada@x.org")]
    assert found.notes == ["The header is in line 3; the lines above it were ignored."]


def test_a_comma_that_is_not_quoted_is_an_error(roster):
    with pytest.raises(SessionError, match="line 3 has more fields than the header") as caught:
        roster("name,email\nAda,ada@x.org\nMüller, Anna,anna@x.org\n")
    assert "quotation marks" in caught.value.hint


def test_workbooks_and_binary_files_are_refused(roster):
    workbook = io.BytesIO()
    with zipfile.ZipFile(workbook, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/worksheets/sheet1.xml", "<sheetData>" * 99)
    for data in (workbook.getvalue(), b"\xd0\xcf\x11\xe0\0\0", b"name\nAda\0\n", "name\nAda\n".encode("utf-16-le")):
        with pytest.raises(SessionError) as caught:
            roster(data)
        assert str(caught.value) == "sql-101.csv is not CSV\nHint: save the file as CSV UTF-8"


NAMES = [
    "Łukasz Żółć", "Jürgen Groß", "João Conceição", "Tomáš Dvořák", "Ştefan Ţurcanu", "Øystein Åse", "Dvořáková Zoë",
    "王小明", "Иван Петров", "Ελένη Παπά", "محمد علي", "Nguyễn Thị Ánh", "Çağla Şahin", "Þórður Æsir", "Ñuñez",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_were_read_in_a_wrong_encoding_are_refused(roster, name):
    broken = {
        name.encode("ascii", "replace").decode(), name.encode("cp1252", "replace").decode("cp1252"),
        name.encode("ascii", "replace").decode().replace("?", "\ufffd"),
        *(name.encode().decode(encoding, "replace") for encoding in ("cp1252", "cp1250", "mac_roman")),
    }  # fmt: skip
    assert roster(f"name\nAda\n{name}\n").students[1].name == name
    for text in broken - {name}:
        with pytest.raises(SessionError, match=r"sql-101\.csv: line 3: .* was saved in a wrong encoding") as caught:
            roster(f"name,email\nAda,\n{text},a@x.org\n")
        assert "export the roster again as CSV UTF-8" in caught.value.hint


def test_letters_of_mac_os_roman_are_refused(roster):
    with pytest.raises(SessionError, match="line 1: 'MŸller' was saved in a wrong encoding"):
        roster("Müller".encode("mac_roman"))


def test_a_broken_email_address_is_refused(roster):
    with pytest.raises(SessionError, match=r"line 2: '.*ller@x\.org' was saved in a wrong encoding"):
        roster("name,email\nAda,m\ufffdller@x.org\n")


SIMILAR = [
    "JOÃO CONCEIÇÃO", "IRMÃ ÂNGELA", "KŘÍŽ", "MÍŠA", "TOMÁŠ DVOŘÁK", "PĂŞCANU", "Mÿller", "Ghÿs", "ÅNGSTRÖM", "O’Neil",
    "D’Angelò", "NGUYỄN ÃNH", "ÑANDÚ", "ÞÓRÐUR", "Šimon Žižka", "Béa “Bé” Ünal", "ÇELİK", "Œuvrard", "ŠŤASTNÝ", "ÎLE",
    "ΩΡΑΙΑ", "LÕHMUS PÄÄ", "ĐORĐEVIĆ", "ŚWIĘTOSŁAW", "GROẞ", "Ādams", "Ürün–Öz", "ÉŽ", "S. Ÿ", "Ada <b>L</b>",
]  # fmt: skip


@pytest.mark.parametrize("name", SIMILAR)
def test_names_with_similar_letters_are_names(roster, name):
    assert roster(f"name\nAda\n{name}\n").students[1].name == name


def new_class(*students: Student) -> Class:
    """Return a class with seats for the students, all created."""
    made = Class("sql", "http://x", "local", "default")
    add_students(made, students, "local")
    for seat in made.seats:
        seat.token = f"token of {seat.student}"
    return made


def test_students_keep_their_seats_when_the_roster_gets_addresses_and_ids(roster):
    made = new_class(*roster("name\nAda\nJörg Müller\n").students)
    before = [(seat.database, seat.token) for seat in made.seats]
    assert not add_students(made, roster("name,email\njörg müller,j@x.org\nAda,ada@x.org\n").students, "local")
    assert [(seat.key, seat.student, seat.email) for seat in made.seats] == [
        ("ada@x.org", "Ada", "ada@x.org"), ("j@x.org", "jörg müller", "j@x.org")
    ]  # fmt: skip
    assert not add_students(made, roster("name,email,id\nAda,ADA@x.org,S1\nJörg Müller,j@x.org,S2\n").students, "local")
    assert [seat.key for seat in made.seats] == ["s1", "s2"]
    assert [(seat.database, seat.token) for seat in made.seats] == before


def test_a_corrected_name_keeps_the_seat(roster):
    made = new_class(*roster("name,id\nAda Lovlace,7\n").students)
    assert not add_students(made, roster("name,id,email\nAda Lovelace,7,ada@x.org\n").students, "local")
    assert [(seat.student, seat.email) for seat in made.seats] == [("Ada Lovelace", "ada@x.org")]


def test_a_seat_is_not_given_to_one_of_two_students_of_its_name(roster):
    made = new_class(*roster("name\nAnna\nBob\n").students)
    new = add_students(made, roster("name,id\nAnna,1\nAnna,2\nBob,3\n").students, "local")
    assert [seat.key for seat in new] == ["1", "2"]
    assert [seat.key for seat in made.seats] == ["anna", "3", "1", "2"]


def test_a_student_with_the_email_of_another_gets_a_new_seat(roster):
    made = new_class(*roster("name,email\nAnna,parents@x.org\n").students)
    [new] = add_students(made, roster("name,email,id\nBob,parents@x.org,2\nAnna,parents@x.org,1\n").students, "local")
    assert (new.student, made.seats[0].student, made.seats[0].key) == ("Bob", "Anna", "1")


def test_a_class_keeps_its_students_and_refuses_others(embedded, tmp_path, capsys):
    command = ["class", "create", str(tmp_path / "9b.csv"), "--group", "default", "--output", str(tmp_path)]
    (tmp_path / "9b.csv").write_text("name\nAda\nBob\n")
    assert cli.main([*command, "--name", "sql"]) == 0
    before, names = load("sql"), embedded.names()
    (tmp_path / "9b.csv").write_text("name,email\nBob,bob@x.org\nADA,ada@x.org\n")
    capsys.readouterr()
    assert cli.main([*command, "--name", "sql"]) == 0
    assert "The class sql has 2 students. The roster adds no students." in capsys.readouterr().err
    renamed = load("sql")
    assert [seat.token for seat in renamed.seats] == [seat.token for seat in before.seats]
    assert [(seat.student, seat.email) for seat in renamed.seats] == [("ADA", "ada@x.org"), ("Bob", "bob@x.org")]
    assert "ADA,ada@x.org," in (tmp_path / "sql-handouts.csv").read_text("utf-8-sig")

    (tmp_path / "9b.csv").write_text("name\nCleo\nDan\n")
    assert cli.main([*command, "--name", "sql"]) == 1
    err = capsys.readouterr().err
    assert "none of the 2 students of 9b.csv is in the class sql" in err
    assert "--name" in err
    assert (load("sql"), embedded.names()) == (renamed, names)


@pytest.mark.parametrize("text", ["", "\n\n", "sep=;\n", "name,email\n", "name\n,\n"])
def test_a_roster_without_students_is_an_error(roster, text):
    with pytest.raises(SessionError, match=r"sql-101\.csv has no students"):
        roster(text)


def test_a_missing_roster_is_an_error(tmp_path):
    with pytest.raises(SessionError, match=r"cannot read the roster .*none\.csv: No such file"):
        read_roster(tmp_path / "none.csv")


_PARTS = [
    piece.encode() for piece in ("name,email", "sep=;", "Ada", "ada@x.org", "Mü", '"', ",", ";", "\t", "\n", "\r", "\0")
]


@given(st.lists(st.sampled_from(_PARTS) | st.binary(max_size=4), max_size=20).map(b"".join))
def test_any_file_is_a_roster_or_an_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content)
    with suppress(SessionError):
        students = read_roster(path).students
        assert len({student.key for student in students}) == len(students) > 0
        assert all(student.name and student.name[0] not in "=+-@" for student in students)


def test_names_of_databases():
    taken: set[str] = set()
    long = "Maximiliane " + "von und zu " * 8
    names = []
    for student in [Student("1", "Jörg Groß"), Student("2", "Jorg Gross"), Student("3", "王小明"), Student("4", long)]:
        names.append(database_name("sql", student, 30, taken))
        taken.add(names[-1])
    assert names[0] == "sql-jorg-gross"
    assert names[1].startswith("sql-jorg-gross-")
    assert names[2].startswith("sql-")
    assert len(names[3]) == 30
    assert len(set(names)) == 4


@given(st.lists(st.tuples(st.text(min_size=1, max_size=100), st.text(min_size=1)), unique_by=lambda pair: pair[1]))
def test_every_name_of_a_database_is_valid_and_different(pairs):
    taken: set[str] = set()
    for name, key in pairs:
        made = database_name(slug("SQL 101"), Student(key, name), 39, taken)
        assert problem("database", made, "an-organization-22-long") == ""
        assert made not in taken
        taken.add(made)
