"""Import and export from the command line, with a real service, real files and concurrent writes."""

from __future__ import annotations

import errno
import io
import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import apsw.shell
import psutil
import pytest
from waiting import until

from pipemagic import connect, launcher
from pipemagic.errors import SessionError
from pipemagic.frames.files import new_file


@pytest.fixture
def edge(run):
    assert run("group", "create", "edge", "--location", "ams")[0] == 0


@pytest.fixture
def original(tmp_path):
    path = tmp_path / "original.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
        CREATE TABLE t (id INTEGER PRIMARY KEY, v); CREATE VIRTUAL TABLE words USING fts5(w);
        CREATE TRIGGER x AFTER INSERT ON t BEGIN INSERT INTO words VALUES ('noted ' || typeof(new.v)); END;
        INSERT INTO t (v) VALUES ('one'), (2.5), (NULL), (x'00ff'); PRAGMA user_version = 7;
        """)
    return path


def contents(path):
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [
            db.execute(sql).fetchall()
            for sql in ("SELECT *, typeof(v) FROM t", "SELECT rowid, w FROM words", "PRAGMA user_version")
        ]


def left_behind(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_import_and_export_of_a_file(run, edge, original, tmp_path):
    assert run("db", "create", "copy", "--group", "edge", "--from-file", str(original), "--wait") == (0, "copy\n", "")
    out = tmp_path / "out.sqlite"
    assert run("db", "export", "copy", str(out)) == (0, f"{out}\n", "")
    assert contents(out) == contents(original)
    code, _, err = run("db", "export", "copy", str(out))
    assert (code, err.splitlines()[0]) == (1, f"Error: {out} already exists")
    assert run("db", "export", "copy", str(out), "--force")[0] == 0
    for options in ([], ["--force"]):
        code, _, err = run("db", "export", "copy", str(tmp_path), *options)
        assert (code, err) == (1, f"Error: {tmp_path} is a folder\nHint: name a file in it\n")
    code, _, err = run("db", "export", "copy", str(tmp_path / "missing" / "out"))
    assert (code, err) == (1, f"Error: folder {tmp_path / 'missing'} does not exist\nHint: create it first\n")
    assert left_behind(tmp_path) == []


def test_import_and_export_of_sql_text(run, edge, original, tmp_path, monkeypatch):
    shell = apsw.shell.Shell(stdout=io.StringIO(), args=[str(original), ".dump"])
    (tmp_path / "in.sql").write_text(shell.stdout.getvalue())
    assert run("db", "create", "first", "--group", "edge", "--from-dump", str(tmp_path / "in.sql"))[0] == 0
    out = tmp_path / "out.sql"
    assert run("db", "dump", "first", str(out))[0] == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(out.read_bytes())))
    assert run("db", "create", "second", "--group", "edge", "--from-dump", "-")[0] == 0
    assert run("db", "export", "second", str(tmp_path / "second.sqlite"))[0] == 0
    with closing(sqlite3.connect(original)) as db:
        db.execute("PRAGMA user_version = 0")  # the shell's dump may omit it
    with closing(sqlite3.connect(tmp_path / "second.sqlite")) as db:
        db.execute("PRAGMA user_version = 0")
    assert contents(tmp_path / "second.sqlite") == contents(original)
    assert run("db", "dump", "second")[1] == out.read_text()


def test_the_text_that_recover_writes(run, edge, tmp_path):
    """SQLite's shell is defensive by default, so such texts begin with a command of the shell."""
    (tmp_path / "rec.sql").write_text(
        ".dbconfig defensive off\nBEGIN;\nPRAGMA writable_schema = on;\nPRAGMA foreign_keys = off;\n"
        "PRAGMA user_version = 7;\nCREATE TABLE t(a);\nINSERT INTO t VALUES(1);\n"
        "PRAGMA writable_schema = off;\nCOMMIT;\n"
    )
    assert run("db", "create", "rec", "--from-dump", str(tmp_path / "rec.sql")) == (0, "rec\n", "")
    query = "SELECT a, user_version FROM t, pragma_user_version"
    assert run("db", "shell", "rec", "--mode", "csv", query)[1].splitlines()[1:] == ["1,7"]
    (tmp_path / "bad.sql").write_text("CREATE TABLE t(a);\n.read more.sql\n")
    code, _, err = run("db", "create", "bad", "--from-dump", str(tmp_path / "bad.sql"))
    assert code == 1
    assert ".read more.sql is a command of SQLite's shell" in err


def test_the_text_of_an_empty_database(run, edge, tmp_path):
    run("db", "create", "empty", "--group", "edge")
    out = tmp_path / "out.sql"
    assert run("db", "dump", "empty", str(out))[0] == 0
    assert run("db", "create", "again", "--group", "edge", "--from-dump", str(out)) == (0, "again\n", "")
    assert run("db", "shell", "again", "CREATE TABLE t (a)")[0] == 0


def test_a_copy_of_a_database(run, edge, original, tmp_path):
    run("db", "create", "a", "--group", "edge", "--from-file", str(original))
    assert run("db", "create", "b", "--group", "edge", "--from-db", "a") == (0, "b\n", "")
    run("db", "export", "b", str(tmp_path / "b"))
    assert contents(tmp_path / "b") == contents(original)


def test_a_file_that_is_in_use(run, edge, original):
    """Rows in the write-ahead log are imported, those of an open transaction are not."""
    with closing(sqlite3.connect(original)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("INSERT INTO t (v) VALUES ('in the log')")
        db.commit()
        db.execute("INSERT INTO t (v) VALUES ('not committed')")
        assert run("db", "create", "copy", "--group", "edge", "--from-file", str(original))[0] == 0
        out = run("db", "dump", "copy")[1]
        db.rollback()
    assert "in the log" in out
    assert "not committed" not in out


def test_a_failed_import_or_export_leaves_nothing(run, edge, original, tmp_path):
    broken = tmp_path / "broken"
    data = original.read_bytes()
    broken.write_bytes(data[:4096] + os.urandom(4096) + data[8192:])
    (tmp_path / "bad.sql").write_text("CREATE TABLE t (a); INSERT INTO nope VALUES (1)")
    (tmp_path / "blank.sql").write_text("-- nothing\n")
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9'")
    for source, words in [
        (["--from-file", "broken"], "damaged"), (["--from-file", "bad.sql"], "not a SQLite database"),
        (["--from-file", "missing"], "No such file"), (["--from-dump", "missing"], "No such file"),
        (["--from-dump", "original.sqlite"], "use --from-file"), (["--from-dump", "latin.sql"], "not UTF-8"),
        (["--from-dump", "bad.sql"], "statement 2: no such table: nope"), (["--from-db", "nope"], "nope"),
        (["--from-dump", "blank.sql"], "blank.sql contains no SQL"),
        (["--from-file", "original.sqlite", "--size-limit", "8kb"], "larger than the 8,192 bytes"),
    ]:  # fmt: skip
        named = [str(tmp_path / source[1]) if source[0] != "--from-db" else source[1]]
        code, out, err = run("db", "create", "copy", "--group", "edge", source[0], *named, *source[2:])
        assert (code, out) == (1, ""), source
        assert words in err
        assert "Traceback" not in err
        assert json.loads(run("db", "list", "--json")[1]) == []
    code, _, err = run("db", "create", "copy", "--group", "nope", "--from-file", str(original))
    assert (code, "pipemagic group create nope" in err) == (1, True)
    assert run("db", "export", "nope", str(tmp_path / "out"))[0] == 1
    assert not (tmp_path / "out").exists()
    assert left_behind(tmp_path) == []


def test_an_interrupted_download_leaves_no_file(run, edge, tmp_path, monkeypatch):
    run("db", "create", "copy", "--group", "edge")

    def cut(path, pieces):
        path.write_bytes(next(iter(pieces)))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipemagic.session.database_files.write_file", cut)
    code, _, err = run("db", "export", "copy", str(tmp_path / "out"))
    assert (code, err) == (1, f"Error: cannot write {tmp_path / 'out'}: No space left on device\n")
    assert not (tmp_path / "out").exists()
    assert left_behind(tmp_path) == []


def test_a_file_that_another_program_creates_meanwhile_is_kept(tmp_path):
    path = tmp_path / "out"

    def race():
        with new_file(path, overwrite=False) as draft:
            draft.write_text("mine")
            path.write_text("somebody else's")

    with pytest.raises(SessionError, match="already"):
        race()
    assert path.read_text() == "somebody else's"
    assert left_behind(tmp_path) == []


def test_nothing_is_left_of_a_file_that_cannot_be_renamed(tmp_path, monkeypatch):
    """On a file system without hard links, where an empty file reserves the name."""

    def fail(*_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def write():
        with new_file(tmp_path / "out", overwrite=False) as draft:
            draft.write_text("mine")

    monkeypatch.setattr(Path, "hardlink_to", fail)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(SessionError, match="cannot write "):
            write()
    assert list(tmp_path.iterdir()) == []
    write()
    assert (tmp_path / "out").read_text() == "mine"


def test_export_during_writes(run, edge, folder, tmp_path):
    """The sum of both tables is zero in every file and every text, and writes continue."""
    run("db", "create", "bank", "--group", "edge")
    url = run("db", "show", "bank", "--http-url")[1].strip()
    token = run("db", "tokens", "create", "bank")[1].strip()
    done, moves = threading.Event(), []
    with connect(url, token) as db:
        db.batch(["CREATE TABLE a (n)", "CREATE TABLE b (n)", "INSERT INTO a VALUES (0)", "INSERT INTO b VALUES (0)"])

        def move():
            while not done.is_set():
                db.batch(["UPDATE a SET n = n + 1", "UPDATE b SET n = n - 1"])
                moves.append(1)

        thread = threading.Thread(target=move)
        thread.start()
        try:
            for number in range(4):
                before = len(moves)
                out = tmp_path / f"{number}.sqlite"
                assert run("db", "export", "bank", str(out))[0] == 0
                with closing(sqlite3.connect(out)) as copy:
                    assert copy.execute("SELECT a.n + b.n FROM a, b").fetchall() == [(0,)]
                with closing(sqlite3.connect(":memory:")) as copy:
                    copy.executescript(run("db", "dump", "bank")[1])
                    assert copy.execute("SELECT a.n + b.n FROM a, b").fetchall() == [(0,)]
                until(lambda before=before: len(moves) > before, "the writes ended")
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize("declared", ["with its size", "in chunks"])
def test_an_upload_is_refused_before_its_body_is_read(run, edge, folder, declared):
    """The service returns 401 before it reads the body, and stores nothing of it."""
    import http.client

    run("db", "create", "flights", "--group", "edge")
    address = launcher.find(folder).url.removeprefix("http://")
    with closing(http.client.HTTPConnection(address, timeout=20)) as connection:
        connection.putrequest("POST", "/v1/upload")
        connection.putheader("Authorization", "Bearer wrong")
        connection.putheader("Expect", "100-continue")
        if declared == "with its size":
            connection.putheader("Content-Length", str(10**12))
        else:
            connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 401
    assert list((folder / "transfers").iterdir()) == []


def test_a_server_without_file_exports_is_exported_as_text(run, edge, original, tmp_path, sqld_database):
    """A libSQL server has only `/dump`."""
    from pipemagic.client.database import Database
    from pipemagic.session.database_files import save

    with Database(sqld_database.url, sqld_database.token) as database:
        database.batch(["CREATE TABLE t (a)", "INSERT INTO t VALUES (1), ('two')"])
        save(database, tmp_path / "out")
    with closing(sqlite3.connect(tmp_path / "out")) as db:
        assert db.execute("SELECT a FROM t").fetchall() == [(1,), ("two",)]


@pytest.mark.skipif(sys.platform != "linux", reason="the figures of other systems differ")
def test_transfers_need_little_memory(run, own_folder, edge, folder, tmp_path, soak):
    """Import and export a database of 60 MB; the service and the command use far less memory than that.

    The service is that of this test: a service that many tests have used once grew by 95 MB here.
    """
    size = 250 if soak else 60
    path = tmp_path / "large.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (v)")
        db.executemany("INSERT INTO t VALUES (?)", ((os.urandom(1_000_000),) for _ in range(size)))
        db.commit()
    process = psutil.Process(json.loads((folder / "service.json").read_bytes())["pid"])
    before = process.memory_info().rss
    code = (
        "import re, sys; from pipemagic import cli; code = cli.main(sys.argv[1:]);"
        "most = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1];"
        "print(code, int(most) * 1024, file=sys.stderr)"
    )
    for command in (
        ["create", "large", "--group", "edge", "--from-file", str(path)],
        ["export", "large", str(tmp_path / "out.sqlite")], ["dump", "large", str(tmp_path / "out.sql")],
    ):  # fmt: skip
        made = subprocess.run(
            [sys.executable, "-c", code, "db", *command, "--data", str(folder)],
            capture_output=True, text=True, timeout=900, check=True,
        )  # fmt: skip
        status, most = map(int, made.stderr.split())
        assert status == 0
        assert most < 90_000_000
    assert process.memory_info().rss - before < 45_000_000
    with closing(sqlite3.connect(tmp_path / "out.sqlite")) as db:
        assert db.execute("SELECT count(*), sum(length(v)) FROM t").fetchone() == (size, size * 1_000_000)
    assert (tmp_path / "out.sql").stat().st_size > size * 2_000_000
    assert list((folder / "transfers").iterdir()) == []
