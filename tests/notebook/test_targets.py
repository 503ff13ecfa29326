"""`%pipedb connect` with what people type: quotes in `%env`, paths, hosts without a scheme."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from sqld_server import free_port

from pipemagic.errors import AddressError, ConnectError, SessionError


@pytest.fixture
def notebook(shell, data, tmp_path, monkeypatch):
    """A notebook beside a SQLite file, on an embedded service of its own."""
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect(tmp_path / "chinook.db")) as file, file:
        file.execute("CREATE TABLE t (a)")
        file.execute("INSERT INTO t VALUES (7)")
    return shell


@pytest.fixture
def variables(monkeypatch):
    """The variables that cells set with %env; they are removed after the test."""
    for name in ("PIPEMAGIC_URL", "PIPEMAGIC_TOKEN", "FLIGHTS_TOKEN"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def lines_of(cell):
    return [line for line in cell.out.splitlines() if line.startswith("%")]


# -- quotes in %env


@pytest.mark.parametrize("mark", ['"', "'", ""])
def test_quotes_in_env(shell, variables, sqld_database, mark):
    shell(f"%env PIPEMAGIC_URL={mark}{sqld_database.url}{mark}")
    shell(f"%env PIPEMAGIC_TOKEN={mark}Bearer {sqld_database.token}{mark}")
    assert shell("%pipedb connect").lines == [f"Connected to {sqld_database.name}.", f"Address: {sqld_database.url}"]
    assert shell("%sql SELECT 1 AS a").value["a"].tolist() == [1]


def test_a_quotation_mark_without_its_pair_is_named(shell, variables, sqld_database):
    shell(f'%env PIPEMAGIC_URL="{sqld_database.url}')
    cell = shell.fails("%pipedb connect")
    assert cell.out.splitlines() == [
        "ADDRESS: PIPEMAGIC_URL: the address begins with a quotation mark",
        "Hint: remove it",
    ]
    shell(f"%env PIPEMAGIC_URL={sqld_database.url}")
    shell(f'%env PIPEMAGIC_TOKEN="{sqld_database.token}')
    cell = shell.fails("%pipedb connect")
    assert isinstance(cell.error, ConnectError)
    assert "token in the environment variable PIPEMAGIC_TOKEN contains a quotation mark" in cell.out
    assert sqld_database.token[:12] not in cell.out + cell.err


# -- files


@pytest.mark.parametrize(
    "target", ["chinook.db", "./chinook.db", "file:chinook.db", "{folder}/chinook.db", "sqlite:///chinook.db"]
)
def test_a_file_gets_the_lines_that_copy_it(notebook, tmp_path, target):
    cell = notebook.fails(f"%pipedb connect {target.format(folder=tmp_path)}")
    assert isinstance(cell.error, AddressError)
    assert len(lines_of(cell)) == 3
    for line in lines_of(cell):
        notebook(line)
    assert notebook("%sql SELECT a FROM t").value["a"].tolist() == [7]


def test_other_paths_and_memory(notebook):
    cell = notebook.fails(r"%pipedb connect C:\data\chinook.db --as mine")
    assert r"C:\data\chinook.db names a file, not a database on a server" in cell.out
    assert lines_of(cell)[1:] == [
        "%pipedb create-database chinook", "%pipedb connect chinook --as mine",
    ]  # fmt: skip
    assert lines_of(notebook.fails("%pipedb connect :memory: --as m")) == ["%pipedb connect --temporary --as m"]
    lines = lines_of(notebook.fails("%pipedb connect chinook.db --temporary"))
    assert lines[0] == "%pipedb connect --temporary"
    for line in lines:
        notebook(line)
    assert notebook("%sql SELECT a FROM t").value["a"].tolist() == [7]


def test_an_sql_dump_and_a_file_of_rows(notebook, tmp_path):
    (tmp_path / "dump.sql").write_text("CREATE TABLE u (a); INSERT INTO u VALUES (3);")
    (tmp_path / "my rows.csv").write_text("a\n5\n")
    for name, question, expected in (("dump.sql", "SELECT a FROM u", 3), ('"my rows.csv"', "SELECT a FROM my_rows", 5)):
        for line in lines_of(notebook.fails(f"%pipedb connect {name}")):
            notebook(line)
        assert notebook(f"%sql {question}").value["a"].tolist() == [expected]


# -- hosts


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "main-local.localhost"])
def test_a_host_with_a_port_is_an_address(shell, host):
    port = free_port()
    cell = shell.fails(f"%pipedb connect {host}:{port}")
    assert cell.out.startswith(f"CONNECT: nothing is listening at http://{host}:{port} ")


def test_the_status_line_has_the_scheme(shell, variables, sqld_database):
    shell(f"%env PIPEMAGIC_TOKEN={sqld_database.token}")
    host = sqld_database.url.removeprefix("http://")
    assert shell(f"%pipedb connect {host}").lines == [f"Connected to {sqld_database.name}.", f"Address: http://{host}"]
    assert shell("%pipedb connections").value["where"].tolist() == [f"http://{host}"]


@pytest.mark.parametrize("host", ["flights-acme.turso.io", "db.example.org", "10.0.0.7", "main.sales"])
def test_a_host_without_a_scheme(shell, host):
    cell = shell.fails(f"%pipedb connect {host}")
    assert cell.out.splitlines() == ["ADDRESS: the address has no scheme", f"Hint: write libsql://{host}"]


def test_the_host_of_a_management_api(shell):
    assert "write https://api.example.org" in shell.fails("%pipedb organization acme --at api.example.org").out


# -- a variable that is not set


def test_a_python_variable_is_not_an_environment_variable(shell, variables, sqld_database):
    line = f"%pipedb connect {sqld_database.url} --token-env FLIGHTS_TOKEN"
    cell = shell.fails(line)
    assert isinstance(cell.error, SessionError)
    assert cell.out.splitlines() == [
        "SESSION: the environment variable FLIGHTS_TOKEN is not set",
        "Hint: set it before Python starts, or type it at a prompt:",
        'import getpass, os; os.environ["FLIGHTS_TOKEN"] = getpass.getpass()',
    ]
    for written in ("$FLIGHTS_TOKEN", "{FLIGHTS_TOKEN}"):
        assert shell.fails(line.replace("FLIGHTS_TOKEN", written)).out.splitlines()[-2:] == [
            "Hint: write the name alone:", line
        ]  # fmt: skip
    shell.names["FLIGHTS_TOKEN"] = sqld_database.token
    cell = shell.fails(line)
    assert cell.out.splitlines()[:2] == [
        "SESSION: the environment variable FLIGHTS_TOKEN is not set; "
        "the Python variable FLIGHTS_TOKEN is not an environment variable",
        "Hint: set it:",
    ]
    assert sqld_database.token[:12] not in cell.out
    shell(cell.out.splitlines()[-1])
    shell(line)
    assert shell("%sql SELECT 1 AS a").value["a"].tolist() == [1]


def test_the_value_of_a_variable_is_not_shown_where_the_name_of_an_environment_variable_belongs(shell, variables):
    line = "%pipedb connect http://127.0.0.1:1 --token-env FLIGHTS_TOKEN"
    shell.names["FLIGHTS_TOKEN"] = "s3cret_of_no_known_form"
    for written in ("$FLIGHTS_TOKEN", "$env:FLIGHTS_TOKEN", "{FLIGHTS_TOKEN}", "'{FLIGHTS_TOKEN}'"):
        cell = shell.fails(line.replace("FLIGHTS_TOKEN", written))
        assert cell.out.splitlines()[1:] == ["Hint: write the name alone:", line]
        assert "s3cret" not in cell.out
    assert "s3cret" not in shell.fails(line).out
    shell("import os; os.environ['FLIGHTS_TOKEN'] = FLIGHTS_TOKEN; name = 'FLIGHTS_TOKEN'")
    for written in ("FLIGHTS_TOKEN", "{name}"):
        assert shell.fails(line.replace("FLIGHTS_TOKEN", written)).out.startswith("CONNECT: nothing is listening")
