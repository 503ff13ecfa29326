"""Cells and commands on an encrypted database."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from encrypted_service import KEY

CELLS = [
    "%%sql\nCREATE TABLE t (a INTEGER, b TEXT)", "%pipedb load frame --table t --append",
    "%%sql\nBEGIN; INSERT INTO t VALUES (-1, 'y'); SELECT count(*) FROM t", "%pipedb rollback",
    "%sql SELECT sum(a) AS s FROM frame", "%sql --grid SELECT * FROM t", "%sql --explain SELECT * FROM t",
    "%pipedb profile t", "%pipedb tables", "%pipedb copy t --to other --as u", "%pipedb status", "%pipedb wire",
    "import pipemagic; pipemagic.current().query('SELECT 1')",
    "%pipedb plot histogram t --x a", "%pipedb connect other --as again --encryption-key-env KEY",
]  # fmt: skip


@pytest.fixture
def notebook(encrypted, plain_shell, monkeypatch):
    for variable, text in encrypted.environ.items():
        monkeypatch.setenv(variable, text)
    plain_shell("%load_ext pipemagic")
    plain_shell(
        f"%pipedb create-database other{encrypted.name} --group g --encryption-key-env KEY --encryption-cipher x"
    )
    plain_shell(f"%pipedb connect {encrypted.address} --as db --encryption-key-env KEY")
    return plain_shell


def test_every_request_of_a_notebook_has_the_key(notebook, encrypted):
    other = f"other{encrypted.name}"
    notebook(f"%pipedb connect {other} --encryption-key-env KEY")
    notebook("%pipedb use db")
    notebook("frame = __import__('pandas').DataFrame({'a': range(2000), 'b': 'x'})")
    for cell in CELLS:
        notebook(cell.replace("other", other))
    notebook("%pipedb use db")
    assert notebook("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [2000]
    assert notebook(f"%sql --on {other} SELECT count(*) AS n FROM u").value["n"].tolist() == [2000]
    assert encrypted.had_every_key
    assert len(encrypted.hosted.posts) > 20


def test_an_encrypted_database_is_exported_with_its_key(notebook, encrypted, tmp_path):
    other = f"other{encrypted.name}"
    notebook(f"%pipedb connect {other} --encryption-key-env KEY\n%sql CREATE TABLE t AS SELECT 1 AS a")
    line = f'%pipedb export-database {other} "{tmp_path / "copy.db"}"'
    assert "encrypt" in notebook.fails(line).out
    notebook(f"{line} --encryption-key-env KEY")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as db:
        assert db.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_no_output_of_a_notebook_has_the_key(notebook, encrypted):
    notebook("%pipedb wire on")
    shown = [notebook.run(line) for line in (
        f"%sql SELECT '{KEY}' AS a", "%pipedb wire", "%pipedb connections", "%pipedb status", "%pipedb panel session",
        f"%pipedb connect {encrypted.address} --as x --encryption-key-env OTHER", "%sql --explain SELECT 1",
    )]  # fmt: skip
    for cell in shown[1:]:
        assert KEY not in cell.out + cell.err + repr(cell.shown)
    assert "the encryption key was not accepted" in shown[5].out + shown[5].err
