"""The SQL shell in a terminal and in scripts."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import until

import pipemagic
from pipemagic import cli
from pipemagic.cli import console

pexpect = pytest.importorskip("pexpect", reason="a terminal needs pexpect, which comes with IPython")

WAIT = 20


@pytest.fixture
def flights(run):
    run("group", "create", "edge", "--location", "ams")
    assert run("db", "create", "flights", "--group", "edge")[0] == 0
    return "flights"


@pytest.fixture
def script(run, monkeypatch):
    """Run SQL from standard input."""

    def script(text, *options):
        data = text.encode() if isinstance(text, str) else text
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return run("db", "shell", "flights", *options)

    return script


@pytest.fixture
def terminal(flights, folder, settings_folder):
    """Open the shell in a terminal; return the process of pexpect."""
    opened = []

    def terminal(*options, prompt="flights> "):
        environment = os.environ | {
            "PYTHONPATH": str(Path(pipemagic.__file__).parents[1]), "PIPEMAGIC_CONFIG": str(settings_folder),
            "TERM": "dumb", "INPUTRC": os.devnull,
        }  # fmt: skip
        child = pexpect.spawn(
            sys.executable, ["-m", "pipemagic", "db", "shell", "flights", *options, "--data", str(folder)],
            env=environment, encoding="utf-8", timeout=WAIT, echo=False, dimensions=(40, 200),
        )  # fmt: skip
        opened.append(child)
        child.expect_exact(prompt)
        return child

    yield terminal
    for child in opened:
        child.close(force=True)


# -- in scripts


def test_an_argument(run, flights):
    assert run("db", "shell", "flights", "SELECT 1 AS one, NULL AS none") == (
        0, "one  none\n---  ----\n  1  NULL\n", ""
    )  # fmt: skip
    assert run("db", "shell", "flights", "CREATE TABLE t (a); INSERT INTO t VALUES (1)") == (0, "", "")
    counted = run("db", "shell", "flights", "SELECT count(*) /* all */ FROM t")
    assert counted == (0, "count(*)\n--------\n       1\n", "")
    assert run("db", "shell", "flights", ".tables") == (0, "t\n", "")
    assert run("db", "shell", "flights", ".schema") == (0, "CREATE TABLE t (a);\n", "")
    assert run("db", "shell", "flights", ".schema nope") == (0, "", "")
    assert run("db", "shell", "flights", ".nope")[0] == 1
    assert run("db", "shell", "flights", ".mode xml") == (
        1, "", "Error: unknown format: xml\nHint: the formats are csv, json, table\n"
    )  # fmt: skip


def test_an_argument_may_begin_with_a_comment_and_unknown_options_are_refused(run, flights):
    assert run("db", "shell", "flights", "-- a=b\nSELECT 1 AS one", "--mode", "csv") == (0, "one\n1\n", "")
    for unknown in ("--nope", "-x"):
        code, out, err = run("db", "shell", "flights", unknown)
        assert (code, out) == (2, "")
        assert "No such option" in err


def test_escape_sequences_are_data_in_a_pipe(run, flights):
    assert run("db", "shell", "flights", "SELECT char(27) || '[31m' AS a", "--mode", "csv") == (
        0, "a\n\x1b[31m\n", ""
    )  # fmt: skip


def test_standard_input_is_utf_8_with_or_without_a_byte_order_mark(script, flights):
    assert script("\ufeffSELECT 'é' AS a;", "--mode", "csv") == (0, "a\né\n", "")
    code, out, err = script(b"SELECT '\xff' AS a;")
    assert (code, out) == (1, "")
    assert err.startswith("Error: the SQL text is not UTF-8")


def test_standard_input_stops_at_the_first_error(script, flights, run):
    code, out, err = script("CREATE TABLE t (a);\nINSERT INTO t VALUES (1);\nSELECT nope FROM t;\nDROP TABLE t;")
    assert (code, out) == (1, "")
    assert err == "Error: no such column: nope\n  SELECT nope FROM t\n         ^\n"
    assert run("db", "shell", "flights", "SELECT a FROM t", "--mode", "csv") == (0, "a\n1\n", "")


def test_a_syntax_error_has_a_hint(run, flights):
    assert run("db", "shell", "flights", "SELECT 1 AS a FORM t") == (
        1,
        "",
        'Error: near "FORM": syntax error\n  SELECT 1 AS a FORM t\n                ^\nHint: did you mean FROM?\n',
    )
    assert run("db", "shell", "flights", "SELECT 1 WHERE")[2] == (
        "Error: incomplete input\n  SELECT 1 WHERE\n                ^\nHint: an expression is missing after WHERE\n"
    )


def test_a_transaction_spans_the_statements(script, flights):
    assert script("CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1); ROLLBACK; SELECT count(*) AS n FROM t;") == (
        0, "n\n-\n0\n", ""
    )  # fmt: skip
    code, _, err = script("BEGIN; INSERT INTO t VALUES (1)")
    assert (code, err.splitlines()[0]) == (1, "Error: the script ended inside a transaction, which was rolled back")
    assert script("SELECT count(*) AS n FROM t", "--mode", "json")[1] == '[{"n": 0}]\n'


def test_an_address(run, flights, monkeypatch, capsys):
    url = run("db", "show", "flights", "--url")[1].strip()
    token = run("db", "tokens", "create", "flights")[1].strip()
    code, _, err = run("db", "shell", url, "SELECT 1")
    assert (code, "token" in err) == (1, True)
    monkeypatch.setenv("TURSO_AUTH_TOKEN", token)
    assert run("db", "shell", url, "SELECT 1 AS one", "--mode", "csv") == (0, "one\n1\n", "")
    monkeypatch.delenv("TURSO_AUTH_TOKEN")
    monkeypatch.setenv("MINE", token)
    assert run("db", "shell", url, "SELECT 1 AS one", "--mode", "csv", "--token-env", "MINE")[0] == 0


def test_a_libsql_server(run, sqld_database, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_TOKEN", sqld_database.token)
    script = "CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1); COMMIT; SELECT a FROM t"
    assert run("db", "shell", sqld_database.url, script, "--mode", "csv") == (0, "a\n1\n", "")


# -- formats


VALUES = [(1, "NULL", None, b"\0\xff"), (-2.5, "two\nlines\x1b[31m", "", b"")]
NAMES = ["n", "text", "text", "blob"]


def test_a_table():
    assert list(console.format_table(NAMES, VALUES)) == [
        "   n  text                  text  blob",
        "----  --------------------  ----  -------",
        "   1  'NULL'                NULL  x'00ff'",
        "-2.5  two\\nlines\\u001b[31m        x''",
    ]
    assert list(console.format_table(["wide", "b"], [("汉字", 1)])) == ["wide  b", "----  -", "汉字  1"]
    assert list(console.format_table(["a"], [])) == ["a", "-"]


def test_csv():
    assert list(console.format_csv(NAMES, VALUES)) == [
        "n,text,text,blob", "1,NULL,,00ff", '-2.5,"two\nlines\x1b[31m","",',
    ]  # fmt: skip
    assert list(console.format_csv(["a,b"], [('"',)])) == ['"a,b"', '""""']


def test_json():
    first, second = json.loads("\n".join(console.format_json(NAMES, VALUES)))
    assert first == {"n": 1, "text": "NULL", "text:1": None, "blob": {"base64": "AP8="}}
    assert second["text"] == "two\nlines\x1b[31m"
    assert "\n".join(console.format_json(["a"], [])) == "[]"
    assert json.loads("\n".join(console.format_json(["a"], [(float("inf"),), (2**63 - 1,)]))) == [
        {"a": "inf"}, {"a": 2**63 - 1},
    ]  # fmt: skip


# -- in a terminal


def test_control_characters_in_names_are_escaped_in_a_terminal(script, terminal):
    script('CREATE TABLE "a\x1b[2Jb\tc" (x);')
    child = terminal()
    for command, shown in [(".tables", "a\\u001b[2Jb"), (".schema", 'TABLE "a\\u001b[2Jb')]:
        child.sendline(command)
        child.expect_exact(shown)
        child.expect_exact("flights> ")
        assert "\x1b[2J" not in child.before


def test_statements_over_several_lines(terminal):
    child = terminal()
    child.sendline("CREATE TABLE t (")
    child.expect_exact("...> ")
    child.sendline("a TEXT -- a comment;")
    child.expect_exact("...> ")
    child.sendline(");")
    child.expect_exact("flights> ")
    child.sendline("INSERT INTO t VALUES ('x'), (NULL);")
    child.expect_exact("2 rows changed")
    child.expect_exact("flights> ")
    child.sendline("SELECT a FROM t;")
    child.expect(r"a\s+----\s+x\s+NULL\s+\(2 rows\)")
    child.expect_exact("flights> ")
    child.sendline(".mode csv")
    child.expect_exact("flights> ")
    child.sendline("SELECT a FROM t;")
    child.expect(r"a\r\nx\r\n\r\n")
    child.sendline(".quit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_an_open_transaction_shows_in_the_prompt(terminal, run):
    child = terminal()
    child.sendline("CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1);")
    child.expect_exact("flights*> ")
    child.sendline("SELECT nope;")
    child.expect_exact("Error: no such column: nope")
    child.expect_exact("flights*> ")
    child.sendeof()
    child.expect_exact("The open transaction was rolled back.")
    child.expect(pexpect.EOF)
    assert run("db", "shell", "flights", "SELECT count(*) AS n FROM t", "--mode", "csv")[1] == "n\n0\n"


def test_control_c(terminal, folder):
    """Ctrl-C cancels a running statement or the lines typed so far; the shell continues."""
    child = terminal()
    child.sendline("SELECT 1")
    child.expect_exact("...> ")
    child.sendintr()
    child.expect_exact("flights> ")
    child.sendline("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c;")
    service = psutil.Process(json.loads((folder / "service.json").read_text())["pid"])
    before = sum(service.cpu_times()[:2])
    until(lambda: sum(service.cpu_times()[:2]) > before + 0.4)  # the statement is running
    child.sendintr()
    child.expect_exact("Error: interrupted")
    child.expect_exact("flights> ")
    child.sendline("SELECT 40 + 2 AS answer;")
    child.expect(r"answer\s+------\s+42\s")
    child.sendline(".help")
    child.expect_exact(".tables")


def test_lines_are_in_the_history_of_the_next_shell(terminal, settings_folder):
    pytest.importorskip("readline")
    child = terminal()
    child.sendline("SELECT 'remembered';")
    child.expect_exact("(1 row)")
    child.sendline(".quit")
    child.expect(pexpect.EOF)
    history = settings_folder / "shell_history"
    assert "SELECT 'remembered';" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    child = terminal()
    child.send("\x10")  # Ctrl-P: the line before
    child.send("\x10\r")
    child.expect_exact("(1 row)")


def test_no_banner_without_a_terminal(run, flights, folder, settings_folder):
    """In a pipe, the shell prints neither a prompt nor a banner."""
    made = subprocess.run(
        [sys.executable, "-m", "pipemagic", "db", "shell", "flights", "--data", str(folder), "--mode", "csv"],
        env=os.environ | {"PYTHONPATH": str(Path(pipemagic.__file__).parents[1])},
        input="SELECT 1 AS one;\n", capture_output=True, text=True, timeout=WAIT, check=True,
    )  # fmt: skip
    assert (made.stdout, made.stderr) == ("one\n1\n", "")


# -- targets


def test_addresses_as_people_write_them(run, sqld_database, monkeypatch):
    host = sqld_database.url.removeprefix("http://")
    for token in (f'"{sqld_database.token}"\n', f"Bearer {sqld_database.token}"):
        monkeypatch.setenv("PIPEMAGIC_TOKEN", token)
        for target in (host, f"turso://{host}", f'"{sqld_database.url}"'):
            assert run("db", "shell", target, "SELECT 1 AS a", "--mode", "csv") == (0, "a\n1\n", "")


@pytest.mark.parametrize(
    ("target", "message", "hint"),
    [
        ("flights-acme.turso.io", "the address has no scheme", "write libsql://flights-acme.turso.io"),
        ("shop.db", "shop.db names a file", "pipemagic db create shop --from-file shop.db"),
        (":memory:", "':memory:' is not a database on a server", "pipemagic db create NAME"),
        ('"http://h', "the address begins with a quotation mark", "remove it"),
    ],
)
def test_targets_that_are_no_address(run, target, message, hint):
    code, out, err = run("db", "shell", target, "SELECT 1")
    assert (code, out) == (1, "")
    assert err.startswith(f"Error: {message}")
    assert hint in err


@pytest.mark.skipif(sys.platform == "win32", reason="PowerShell has another line")
def test_a_variable_that_is_not_set(run):
    assert run("db", "shell", "http://127.0.0.1:1", "SELECT 1", "--token-env", "MINE") == (
        1, "",
        "Error: the environment variable MINE is not set\nHint: set it in this terminal, which asks for the value:\n"
        "read -rs MINE && export MINE\n",
    )  # fmt: skip


def test_the_variable_of_a_wrong_address_is_named(monkeypatch, capsys):
    monkeypatch.setenv("PIPEMAGIC_API_URL", "api.example.org")
    assert cli.main(["db", "list"]) == 1
    err = capsys.readouterr().err
    assert err == "Error: PIPEMAGIC_API_URL: the address has no scheme\nHint: write https://api.example.org\n"
