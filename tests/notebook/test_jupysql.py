"""Lines in the syntax of JupySQL and ipython-sql raise an error with the equivalent line."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from itertools import pairwise

import pandas
import polars
import pytest
from IPython.core.magic import Magics, line_magic, magics_class

from pipemagic.errors import PipemagicError, UsageError

FLIGHTS = """
import pandas
flights = pandas.DataFrame({"id": [1, 2, 3], "dep_delay": [4.5, -2.0, 700.0], "carrier": ["AA", "UA", "AA"],
                            "my col": [1, 2, 3]})
"""


def lines_of(cell):
    """Return the lines to type in an error: magics and code after its first line."""
    text = cell.out.strip()
    assert "Traceback" not in text
    return [line for line in text.replace("\nHint: ", "\n").splitlines()[1:] if re.match(r"%|import ", line)]


def follow(shell, cell):
    """Run the lines to type in an error; return the result of the last one."""
    lines = lines_of(cell)
    assert lines, cell.out
    return [shell(line) for line in lines][-1]


@pytest.fixture
def notebook(shell, local_service, tmp_path, monkeypatch):
    """A notebook in a folder of its own, with a DataFrame and without a connection."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    shell(FLIGHTS)
    return shell


@pytest.fixture
def connected(notebook):
    notebook("%pipedb connect\n%pipedb create-database two --group default\n%pipedb connect two")
    notebook("%pipedb use main\n%pipedb load flights --table flights")
    return notebook


def make_file(path, value):
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE t (a)")
        file.execute("INSERT INTO t VALUES (?)", (value,))


# -- addresses


@pytest.mark.parametrize(
    ("file", "address"),
    [
        ("My Flights.SQLITE", '"sqlite:///My Flights.SQLITE"'),
        ("main.db", "sqlite:///main.db?mode=ro"),
        ("x.db", "sqlite+pysqlite:///{folder}/x.db"),
    ],
)
def test_address_of_a_file(notebook, tmp_path, file, address):
    make_file(tmp_path / file, 7)
    done = follow(notebook, notebook.fails(f"%sql {address.format(folder=tmp_path)} SELECT a FROM t"))
    assert done.value["a"].tolist() == [7]
    again = notebook.fails(f"%sql {address.format(folder=tmp_path)} --alias other")
    assert "%pipedb connect" not in lines_of(again)
    follow(notebook, again)
    assert notebook("%sql --on other SELECT a FROM t").value["a"].tolist() == [7]


def test_address_of_a_missing_file_creates_an_empty_database(notebook, tmp_path):
    follow(notebook, notebook.fails("%sql sqlite:///new.db"))
    assert notebook("%pipedb tables").value.empty
    assert not (tmp_path / "new.db").exists()


def test_address_of_a_database_in_memory(notebook):
    for address in ("sqlite://", "sqlite:///:memory:", "duckdb://", "duckdb:///:memory:"):
        cell = notebook.fails(f"%sql {address}")
        assert lines_of(cell) == ["%pipedb connect --temporary"]
    follow(notebook, cell)


def test_connect_translates_addresses_too(notebook, tmp_path):
    make_file(tmp_path / "x.db", 7)
    follow(notebook, notebook.fails("%pipedb connect sqlite:///x.db"))
    assert notebook("%sql SELECT a FROM t").value["a"].tolist() == [7]


@pytest.mark.parametrize("address", ["libsql://h.example.com", "turso://h.example.com", "http://h.example.com:8080/x"])
def test_address_of_a_libsql_server(shell, address):
    assert lines_of(shell.fails(f"%sql {address}")) == [f"%pipedb connect {address}"]
    assert lines_of(shell.fails(f"%%sql {address} --alias two\nSELECT 1")) == [f"%pipedb connect {address} --as two"]
    assert lines_of(shell.fails(f"%sql sqlite+libsql://h.example.com/?authToken=x{'y' * 9}&secure=true")) == [
        "%pipedb connect libsql://h.example.com"
    ]


def test_address_of_an_engine_of_this_package(shell, notebook):
    for line in ("%sql {}", "%pipedb connect {}"):
        assert lines_of(shell.fails(line.format("sqlite+pipemagic://h.example.com:8080/?timeout=9"))) == [
            "%pipedb connect libsql://h.example.com:8080"
        ]
        cell = follow(shell, shell.fails(line.format("sqlite+pipemagic://")))
        assert "Connected" in cell.out
        assert lines_of(shell.fails(line.format("sqlite+pipemagic://"))) == ["%sql SELECT 1"]
        shell("%pipedb close")


SECRETS = ["secret", "s%65cret-secret", "p@secret/secret", "se:secret", "secret?secret#secret", "'secret"]
ADDRESSES = [
    "postgresql://user:{}@h/db", "mysql+pymysql://user:{}@h:3306/db", "duckdb://user:{}@h", "sqlite://:{}@/x.db",
    "sqlite+pysqlcipher://:{}@//tmp/x.db?cipher=aes", "sqlite+pipemagic://:{}@h", "http://user:{}@h",
    "libsql://user:{}@h/x", "http://{}@h",
]  # fmt: skip
LINES = [
    "%sql {}",
    "%sql {} SELECT 1",
    "%%sql {}\nSELECT 1",
    "%%sql\n{}\nSELECT 1",
    "%sql --alias x {}",
    "%sql {} --alias x",
    "%sql {} --persist flights",
    "%sql --close {}",
    "%sql -x {}",
    "%sql --on {} SELECT 1",
    "%sql x << {} SELECT 1",
    "%sql SELECT 1; {}",
    "%sql --limit 3 {}",
    "%sql --section {}",
    "%pipedb connect {}",
    "%pipedb connect x --as {}",
    "%pipedb use {}",
    "%pipedb {}",
    "%pipedb help {}",
    "%pipedb load flights --table {}",
    "%pipedb load {} --table t",
    "%pipedb organization --at {}",
    "%pipedb profiles --delete {}",
    "%sqlcmd {}",
    "%sqlcmd tables --schema {}",
    "%sqlplot {}",
    "%sqlplot bar --table {} --column x",
    "%sql SELECT '{}' FROM nowhere_at_all",
]


@pytest.mark.parametrize("line", LINES)
def test_a_password_is_never_printed(shell, line):
    """All pairs of line, address and secret."""
    for number, address in enumerate(ADDRESSES, LINES.index(line)):
        secret = SECRETS[number % len(SECRETS)]
        cell = shell.run(line.format(address.format(secret)))
        assert "secret" not in cell.out + cell.err, (line, address, secret)
        wire = shell.ip.magics_manager.registry["PipeMagics"].session.wire
        assert "secret" not in repr(wire.__dict__)
        if isinstance(cell.error, PipemagicError):
            assert "secret" not in repr(cell.error)
            assert "secret" not in str(cell.error)


@pytest.mark.parametrize("line", ["%pipedb connect user:secret@h/db", "%pipedb use user:secret@h/db"])
def test_a_password_without_a_scheme_is_never_printed(shell, line):
    cell = shell.fails(line)
    assert "secret" not in cell.out + cell.err + repr(cell.error)


@pytest.mark.parametrize("address", ["postgresql://user:secret@h/db", "http://user:secret@h", "user:secret@h/db"])
def test_a_password_in_a_setting_is_never_printed(shell, address, monkeypatch):
    shell(f"%config PipeMagic.connection = '{address}'")
    cell = shell.fails("%sql SELECT 1")
    assert "secret" not in cell.out + cell.err + repr(cell.error)
    shell("%config PipeMagic.connection = ''")
    monkeypatch.setenv("PIPEMAGIC_API_URL", address)
    monkeypatch.setenv("PIPEMAGIC_API_TOKEN", "x")
    cell = shell.fails("%pipedb databases")
    assert "secret" not in cell.out + cell.err + repr(cell.error)


@pytest.mark.parametrize("password", ["p secret", "p secret secret", "secret "])
def test_a_password_with_a_blank_is_never_printed(shell, password):
    for rest in ("", " SELECT 1", " SELECT '@'"):
        cell = shell.fails(f"%sql postgresql://user:{password}@h/db{rest}")
        assert "secret" not in cell.out + cell.err + repr(cell.error)
    assert "%sql SELECT '@'" in shell.fails("%sql postgresql://h/db SELECT '@'").out


def test_the_caret_is_correct_after_a_masked_password(connected):
    for address in ("http://user:a-long-secret@host/x", "http://u:s@h"):
        filler = " " * 40
        for text in (f"SELECT '{address}', nope FROM flights", f"SELECT '{address}',{filler} '{filler}', nope"):
            lines = connected.fails(f"%sql {text}").out.splitlines()
            line, caret = next(pair for pair in pairwise(lines) if pair[1].strip() == "^")
            assert line[caret.index("^") :].startswith("nope"), line
            assert "secret" not in line
    shown = connected.fails(f"%sql SELECT 'http://user:{'secret' * 9}@host/x', {'-' * 90} nope").out
    assert "secret" not in shown


def test_sql_with_an_address_in_a_string_runs(connected):
    assert connected("%sql SELECT 'http://user@h/x' AS a").value["a"].tolist() == ["http://user@h/x"]
    assert connected("%sql SELECT 1 AS a -- see http://h/x").value["a"].tolist() == [1]
    shown = connected.fails("%sql SELECT 'http://u:secret@h/x' FORM t")
    assert "secret" not in shown.out
    assert "http://***@h/x" in shown.out


# -- the options of %sql


OPTIONS = [
    ("%sql --connections", ["%pipedb connections"]),
    ("%sql -l", ["%pipedb connections"]),
    ("%sql --close two", ["%pipedb close two"]),
    ("%sql -x two", ["%pipedb close two"]),
    ("%sql two", ["%pipedb use two"]),
    ("%sql --persist-replace flights", ["%pipedb load flights --table flights --replace"]),
    ("%sql -P flights", ["%pipedb load flights --table flights --replace"]),
    ("%sql --append flights", ["%pipedb load flights --table flights --append"]),
    ("%sql --persist more;", ["%pipedb load more --table more"]),
    ("%sql --persist --no-index schema.more", ["%pipedb load more --table more"]),
    ("%sql --persist sqlite:// more", ["%pipedb load more --table more"]),
    ("%sql sqlite:// --persist more", ["%pipedb load more --table more"]),
    ("%sql -f late.sql", ["%sql --file late.sql"]),
    ("%sql -S slow SELECT * FROM flights", ["%sql --save slow SELECT * FROM flights"]),
    ("%sql -S slow -N SELECT 1 AS a", ["%sql --save slow SELECT 1 AS a"]),
    ("%sql --save slow --no-execute SELECT 1 AS a", ["%sql --save slow SELECT 1 AS a"]),
    ("%sql --no-execute SELECT 1 AS a", ["%sql --dry-run SELECT 1 AS a"]),
    ("%%sql --limit 2 -S slow\nSELECT 1", ["%%sql --limit 2 --save slow"]),
    ("%sql -w one SELECT * FROM one", ["%sql --with one SELECT * FROM one"]),
    ("%sql --with one --with two SELECT * FROM one, two", ["%sql --with one,two SELECT * FROM one, two"]),
    ("%sql x = << SELECT 1", ["%sql -o x SELECT 1"]),
]


def test_options_of_jupysql(connected, tmp_path):
    (tmp_path / "late.sql").write_text("SELECT * FROM flights")
    connected("more = flights")
    connected("%sql --save one SELECT 1 AS a\n%sql --save two SELECT 2 AS b")
    for typed, lines in OPTIONS:
        connected("%sql DROP TABLE IF EXISTS more\n%pipedb connect two\n%pipedb use main")
        cell = connected.fails(typed)
        assert isinstance(cell.error, UsageError), typed
        assert lines_of(cell) == lines, typed
        for line in lines:
            connected(f"{line}\nSELECT 1" if line.startswith("%%") else line)


def test_persist_without_a_connection_connects_first(notebook):
    follow(notebook, notebook.fails("%sql --persist flights"))
    assert notebook("%sql SELECT count(*) AS n FROM flights").value["n"].tolist() == [3]


def test_options_without_an_equivalent(connected):
    assert "ipywidgets.interact" in connected.fails("%sql --interact x SELECT :x").out
    follow(connected, connected.fails("%sql --creator make"))
    follow(connected, connected.fails('%sql -a \'{"password": "secret"}\' SELECT 1'))
    assert lines_of(connected.fails("%sql --section work")) == ["%pipedb connect work"]
    assert lines_of(connected.fails("%sql [work]")) == ["%pipedb connect work"]


def test_engines_and_connections_in_variables(connected):
    url = type("URL", (), {"__str__": lambda _: "sqlite:///x.db"})()
    connected.names["engine"] = type("Engine", (), {"__module__": "sqlalchemy.engine.base", "url": url})()
    assert "%pipedb create-database x" in lines_of(connected.fails("%sql engine"))
    with closing(sqlite3.connect(":memory:")) as opened:
        connected.names["opened"] = opened
        follow(connected, connected.fails("%sql opened"))
    connected("import pipemagic\nown = pipemagic.current()\nconnection = own.dbapi()")
    for name in ("own", "connection"):
        cell = connected.fails(f"%sql {name}")
        assert f"{name} is a connection, not a statement" in cell.out
        assert lines_of(cell) == ["%sql SELECT 1"]


# -- %sqlcmd and %sqlplot


COMMANDS = [
    ("%sqlcmd tables", ["%pipedb tables"]),
    ("%sqlcmd tables --schema main", ["%pipedb tables"]),
    ("%sqlcmd columns --table flights", ["%pipedb columns flights"]),
    ("%sqlcmd columns -t 'flights' -s other", ["%pipedb columns flights"]),
    ("%sqlcmd columns", ["%pipedb columns --help"]),
    ("%sqlcmd profile --table={{name}}", ["%pipedb profile flights"]),
    ("%sqlcmd test -t flights -c carrier --no-nulls -g ''", ["%pipedb rules flights --not-null carrier"]),
    ("%sqlcmd test -t flights -c dep_delay -goe -2 -loe 700.0",
     ["%pipedb rules flights --range dep_delay=-2..700.0"]),
    ("%sqlcmd test -t flights -c dep_delay --greater -61 --less-than 701 -nn",
     ['%pipedb rules flights --not-null dep_delay --rows "dep_delay > -61" --rows "dep_delay < 701"']),
    ("%sqlcmd test -t flights -c carrier -goe AA", ["""%pipedb rules flights --rows "carrier >= 'AA'\""""]),
    ("%sqlcmd test -t flights -c 'my col' -goe 1", ["""%pipedb rules flights --range '"my col"=1..'"""]),
    ("%sqlcmd test -t flights -c 'my col' -g 0", ["""%pipedb rules flights --rows '"my col" > 0'"""]),
    ("%sqlcmd explore --table flights", ["%pipedb panel explore"]),
    ("%sqlcmd snippets", ["%pipedb snippets"]),
    ("%sqlcmd snippets slow", ["%pipedb snippets slow"]),
    ("%sqlcmd snippets -d slow", ["%pipedb snippets --delete slow"]),
    ("%sqlcmd snippets --delete-force-all slow", ["%pipedb snippets --delete slow"]),
    ("%sqlcmd", ["%pipedb help"]),
    ("%sqlplot histogram --table flights --column dep_delay", ["%pipedb plot histogram flights --x dep_delay"]),
    ("%sqlplot hist -t flights -c dep_delay -b 20", ["%pipedb plot histogram flights --x dep_delay --bins 20"]),
    ("%sqlplot histogram -t slow -c a --with slow", ["%pipedb plot histogram --with slow --x a"]),
    ("%sqlplot histogram -t slow -c a", ["%pipedb plot histogram --with slow --x a"]),
    ("%sqlplot histogram -t flights -c dep_delay -W 10", ["%pipedb plot histogram flights --x dep_delay"]),
    ("%sqlplot boxplot --table flights --column dep_delay id --orient h",
     ["%pipedb plot box flights --x dep_delay", "%pipedb plot box flights --x id"]),
    ("%sqlplot box -t flights -c 'my col'", ['%pipedb plot box flights --x "my col"']),
    ("%sqlplot bar -t flights -c carrier -S", ["%pipedb plot bar flights --x carrier"]),
    ("%sqlplot bar -t flights -c carrier id", ["%pipedb plot bar flights --x carrier --y id"]),
    ("%sqlplot pie --table flights --column carrier", ["%pipedb plot bar flights --x carrier"]),
    ("%sqlplot", ["%pipedb plot --help"]),
    ("%sqlcmd connect", ["%pipedb connect"]),
]  # fmt: skip


def test_commands_of_jupysql(connected):
    connected("name = 'flights'")
    for typed, lines in COMMANDS:
        connected("%sql --save slow SELECT id AS a FROM flights")
        cell = connected.fails(typed)
        assert isinstance(cell.error, UsageError), typed
        assert lines_of(cell) == lines, typed
        for line in lines:
            connected(line)


def test_a_report_is_written_to_the_file(connected, tmp_path):
    lines = lines_of(connected.fails("%sqlcmd profile -t flights --output report.html"))
    assert lines[0] == "%pipedb profile flights"
    connected.names["_"] = connected(lines[0]).value
    connected(lines[1])
    assert "dep_delay" in (tmp_path / "report.html").read_text("utf-8")


def test_an_unknown_option_is_named(shell):
    failed = shell.fails("%sqlcmd columns --tabel x")
    assert "has no option --tabel\nHint: its options are --table, --schema" in failed.out


# -- which extension has the names


@magics_class
class Others(Magics):
    @line_magic
    def sqlcmd(self, line):
        return f"theirs: {line}"


def line_magics(shell):
    return shell.ip.magics_manager.magics["line"]


def test_sqlcmd_of_an_extension_loaded_earlier_is_kept(plain_shell):
    plain_shell.ip.register_magics(Others)
    try:
        assert plain_shell("%load_ext pipemagic").err == ""
        assert plain_shell("%sqlcmd tables").value == "theirs: tables"
        assert "JupySQL" in plain_shell.fails("%sqlplot bar -t x -c y").out
        plain_shell("%unload_ext pipemagic")
        assert plain_shell("%sqlcmd tables").value == "theirs: tables"
        assert "sqlplot" not in line_magics(plain_shell)
    finally:
        del line_magics(plain_shell)["sqlcmd"]


# -- a DataFrame with the name of a missing table


@pytest.mark.parametrize(
    "statement",
    ["%sql INSERT INTO more (id) VALUES (99)", "%%sql\nSELECT 1;\nSELECT * FROM main.more", "%pipedb columns MORE",
     "%pipedb schema more", "%pipedb columns more", "%pipedb profile more",
     "%sql --atomic DELETE FROM more WHERE 1",
     "%pipedb rules more --not-null id", "%pipedb plot histogram more --x id"],
)  # fmt: skip
def test_a_missing_table_suggests_loading_a_frame_of_that_name(connected, statement):
    connected("more = flights")
    cell = connected.fails(statement)
    assert "more is a DataFrame in the notebook; load it:" in cell.out
    assert "%pipedb tables lists" not in cell.out
    follow(connected, cell)
    connected(statement)


def test_the_hint_names_the_connection_of_the_command(connected):
    connected("%pipedb connect two --as 'my db'\n%pipedb use main")
    for line in ("%sql --on 'my db' SELECT * FROM main.{}", "%pipedb profile {} --on 'my db'"):
        for name in ("more", "others"):
            connected(f"{name} = flights")
        name = "more" if line.startswith("%sql") else "others"
        cell = connected.fails(line.format(name))
        assert f'%pipedb load {name} --table {name} --on "my db"' in cell.out
        follow(connected, cell)
        connected(line.format(name))


def test_only_frames_are_suggested(connected):
    connected("more = [1]; schema = 5")
    assert "DataFrame" not in connected.fails("%sql SELECT * FROM more").out
    assert "DataFrame" not in connected.fails("%sql SELECT * FROM missing").out


def test_what_cannot_be_loaded_is_not_suggested(connected):
    connected.names["birds"] = polars.LazyFrame({"a": [1]})
    connected.names["towns"] = pandas.Series([1], name="a")
    for name in ("birds", "towns"):
        assert "in the notebook; load it" not in connected.fails(f"%sql SELECT * FROM {name}").out
