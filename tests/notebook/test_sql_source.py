"""--params and --file, --confirm, and connections that are read-only."""

from __future__ import annotations

import pytest

from pipemagic.errors import ConfirmError, ParameterError, ReadOnlyError, StatementError, UsageError


def test_params_takes_a_dict_or_json(db):
    db("city, row = 'of the notebook', {'city': 'of the dict'}")
    assert db("%sql SELECT :city AS c").value["c"].tolist() == ["of the notebook"]
    assert db("%sql --params row SELECT :city AS c").value["c"].tolist() == ["of the dict"]
    json = '\'{"city": "it\'\'s", "ids": [1, 2], "t": "two words", "n": null}\''
    frame = db(f"%sql --params {json} SELECT :city AS c, 2 IN :ids AS i, :n AS n, x.a FROM (SELECT 1 AS a) AS x").value
    assert frame.iloc[0, :2].tolist() == ["it's", 1]
    assert db(f"%sql --params {json} SELECT 1 AS {{t}}").value.columns.tolist() == ["two words"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("city=Lom", r"--params: name 'city=Lom' is not defined\n.*to pass values directly, use JSON: --params '\{"),
        ("numbr", r"--params: name 'numbr' is not defined\n.*did you mean number\?"),
        ("number", "--params: number must be a dict, not int"),
        ("'{a: 1}'", "--params is not valid JSON: .*\nHint: write"),
        ("'{\"a\": NaN}'", "--params: NaN is not valid JSON"),
    ],
)
def test_params_refuses_other_values(shell, given, message):
    shell("number = 1")
    assert isinstance(shell.fails(f"%sql --params {given} SELECT :a").error, UsageError)
    with pytest.raises(UsageError, match=message):
        raise shell.fails(f"%sql --params {given} SELECT :a").error


def test_file_runs_a_file_and_errors_name_it(db, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    db("year = 2013")
    (tmp_path / "my flights.sql").write_bytes("\ufeffSELECT 1;\r\nSELECT :year AS é".encode())
    assert db('%sql --file "my flights.sql"').value["é"].tolist() == [2013]
    db('%sql --out kept --file "my flights.sql"')
    assert db.names["kept"]["é"].tolist() == [2013]
    (tmp_path / "bad.sql").write_text("-- é\nSELECT 1;\n\nSELECT nope FROM sqlite_master")
    error = db.fails("%sql --file bad.sql").error
    assert isinstance(error, StatementError)
    assert error.message.splitlines()[1:4] == [
        "statement 2 of 2, bad.sql, line 4:", "  SELECT nope FROM sqlite_master", "         ^"
    ]  # fmt: skip
    (tmp_path / "param.sql").write_text("SELECT 1,\n:yaer")
    with pytest.raises(ParameterError, match=r"^param.sql, line 2: :yaer has no value"):
        raise db.fails("%sql --file param.sql").error


def test_a_file_that_cannot_be_read_is_an_error(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.sql").write_bytes(b"SELECT 1;\nSELECT '\xe9'")
    (tmp_path / "empty.sql").write_text(" \n")
    for name, message in {
        "nope.sql": "cannot read nope.sql: No such file or directory",
        ".": "cannot read .: Is a directory",
        "latin.sql": "latin.sql is not UTF-8: byte 0xe9 on line 2",
        "empty.sql": "empty.sql is empty",
    }.items():
        error = shell.fails(f"%sql --file {name}").error
        assert isinstance(error, UsageError)
        assert str(error) == message
    with pytest.raises(UsageError, match=r"--file empty.sql and SQL in the cell cannot be combined"):
        raise shell.fails("%%sql --file empty.sql\nSELECT 1").error


def test_a_write_without_where_is_not_sent_unless_confirmed(db):
    db("%%sql\nCREATE TABLE t (a);\nINSERT INTO t VALUES (1), (2)")
    for cell in ("%sql DELETE FROM t", "%%sql\nINSERT INTO t VALUES (3);\nUPDATE t SET a = 0"):
        error = db.fails(cell).error
        assert isinstance(error, ConfirmError)
        assert "nothing was sent" in error.message
    assert db("%sql SELECT a FROM t").value["a"].tolist() == [1, 2]
    assert db("%sql --confirm UPDATE t SET a = 0").lines == ["2 rows affected."]
    assert db("%sql UPDATE t SET a = 1 WHERE true").lines == ["2 rows affected."]
    db("%config PipeMagic.confirm = True")
    assert db("%sql DELETE FROM t").lines == ["2 rows affected."]


def test_a_read_only_connection_refuses_writes(db, monkeypatch):
    db("%sql CREATE TABLE t (a)")
    url = db("%pipedb connections") and db.ip.find_line_magic("sql").__self__.session.connection().database.url
    assert db(f"%pipedb connect {url} --as look --token-env DB_TOKEN --read-only").lines[0].endswith("read-only).")
    error = db.fails("%sql INSERT INTO t VALUES (1)").error
    assert isinstance(error, ReadOnlyError)
    assert "line 1: INSERT writes, and look is connected read-only; nothing was sent" in error.message
    db("import pandas as pd\nframe = pd.DataFrame({'a': [1]})")
    assert isinstance(db.fails("%pipedb load frame --table t --append").error, ReadOnlyError)
    assert db("%sql SELECT count(*) AS c FROM t").value["c"].tolist() == [0]
    shown = db("%pipedb connections").value.set_index("connection")["where"]
    assert shown["look"].endswith(", read-only")
    assert not shown["db"].endswith("read-only")
    assert "read-only, current" in db("%pipedb status --on look").lines[0]
    assert db("%sql --on db INSERT INTO t VALUES (1)").lines == ["1 row affected."]
