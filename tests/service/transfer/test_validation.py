"""Uploaded files are validated in a process of their own: it ends in time, within its memory, and has no secrets.

Promise against anyone: a file of any content becomes a valid database or is refused, and nothing else happens. Promise
against mistakes: an upload ends at its time limit, also inside one function of SQLite.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import psutil
import pytest
from served import serve
from waiting import until

from pipemagic.service.responses import Refused
from pipemagic.service.transfer import upload
from pipemagic.service.transfer.upload import validate_upload
from pipemagic.service.transfer.validation import validate

from .test_transfers import awaiting, make_file

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def index_over(path, expression, *rows):
    """Make a file whose index has an expression that SQLite has not evaluated yet."""
    make_file(path, "CREATE TABLE t (a); CREATE INDEX i ON t (length(a))")
    with closing(sqlite3.connect(path)) as db:
        db.executemany("INSERT INTO t VALUES (?)", [(row,) for row in rows])
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'i'", (f"CREATE INDEX i ON t ({expression})",))
        db.commit()
    return path


@pytest.fixture
def endless(tmp_path):
    """A file whose validation stays in one call of json_patch for many minutes."""
    document = json.dumps({f"k{number}": 1 for number in range(400_000)})
    return index_over(tmp_path / "endless", "json_patch(a, a)", document)


def children(pid=None):
    """Return the ids of the child processes of a process, by default of this one."""
    return {child.pid for child in psutil.Process(pid).children()}


def exists(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_function_that_does_not_end_ends_with_the_time_limit(courier, endless, monkeypatch):
    monkeypatch.setattr(upload, "CHECK_TIME", 1.0)
    monkeypatch.setattr(upload, "CHECK_RATE", 10**9)
    awaiting(courier)
    status, body = courier.upload("flights", endless)
    assert (status, body["code"]) == (400, "CHECK_TIMEOUT")
    assert "took more than 1 s" in body["message"]
    assert courier.left_over() == []
    monkeypatch.undo()
    assert courier.upload("flights", make_file(endless.with_name("f")))[0] == 200


def test_a_value_that_needs_too_much_memory(courier, tmp_path):
    awaiting(courier)
    file = index_over(tmp_path / "f", "hex(a)", "x" * 45_000_000, "x" * 45_000_000)
    status, body = courier.upload("flights", file)
    assert (status, body["code"]) == (400, "CHECK_MEMORY")


class Seen(Exception):
    """Ends a validation once the test has seen its process."""


@linux
def test_a_cancelled_validation_ends_its_process(endless):
    before, seen = children(), []

    def must_end():
        seen.extend(children() - before)
        raise Seen

    with pytest.raises(Seen):
        validate_upload(endless, must_end)
    assert len(seen) == 1
    assert not exists(seen[0])


def begin_upload(service, name, file):
    """Send a file on a connection whose response is not read; return the connection."""
    seed = {"name": name, "group": "g", "seed": {"type": "database_upload"}}
    service.manage("POST", "/databases", json=seed).raise_for_status()
    connection = http.client.HTTPConnection("127.0.0.1", service.port)
    headers = {"authorization": f"Bearer {service.token(name)}"}
    connection.request("POST", "/v1/upload", file.read_bytes(), headers)
    return connection


@linux
def test_two_uploads_are_checked_at_a_time_and_a_client_that_disconnects_ends_its_check(tmp_path, endless):
    with ExitStack() as stack:
        service = stack.enter_context(serve(tmp_path / "data", "--port", "0"))
        other = stack.enter_context(service.database("other"))
        connections = [
            stack.enter_context(closing(begin_upload(service, f"slow{number}", endless))) for number in range(3)
        ]
        running = until(lambda: len(found := children(service.process.pid)) == 2 and found)
        assert other.rows("SELECT 1") == [("1",)]
        connections[0].close()
        connections[1].close()
        [third] = until(lambda: (found := children(service.process.pid)) and not found & running and found)
        connections[2].close()
        until(lambda: not exists(third))
        until(lambda: not list((tmp_path / "data/transfers").iterdir()))
        with closing(begin_upload(service, "quick", make_file(tmp_path / "f"))) as connection:
            assert connection.getresponse().status == 200


@linux
def test_the_process_has_no_secrets(endless, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_TOKEN", "the-secret")
    before, seen = children(), []

    def must_end():
        folders = [Path(f"/proc/{pid}") for pid in children() - before]
        content = [(folder / name).read_bytes() for folder in folders for name in ("environ", "cmdline")]
        if b"validation" in content[1]:  # the program has been started
            seen.extend(content)
            raise Seen
        return False

    with pytest.raises(Seen):
        validate_upload(endless, must_end)
    names = {line.partition(b"=")[0] for line in seen[0].split(b"\0")}
    assert names <= {b"", b"PATH", b"LD_LIBRARY_PATH", b"SQLITE_TMPDIR", b"TMP", b"TEMP"}
    assert b"the-secret" not in seen[0] + seen[1]


VALIDATE = """
import os, sys
from pathlib import Path
from pipemagic.service.limits import Limits
from pipemagic.service.transfer.upload import validate_upload
if len(sys.argv) > 2:
    os.rmdir(sys.argv[2])
print(validate_upload(Path(sys.argv[1]), lambda: False))
"""


@linux
def test_the_process_ends_with_its_parent(endless):
    with subprocess.Popen([sys.executable, "-c", VALIDATE, str(endless)]) as parent:
        while not (pids := children(parent.pid)):
            assert parent.poll() is None
        [pid] = pids
        while b"validation" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            time.sleep(0.001)
        parent.kill()
    until(lambda: not exists(pid))


@pytest.mark.skipif(sys.platform == "win32", reason="the folder of a process cannot be removed")
def test_a_service_whose_folder_was_removed(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    file = make_file(tmp_path / "f")
    ended = subprocess.run(
        [sys.executable, "-c", VALIDATE, str(file), str(folder)],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ended.stdout, ended.returncode) == ("None\n", 0), ended.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_file_that_crashes_sqlite_is_refused(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(upload, "_CODE", f"import os; os.kill(os.getpid(), {int(signal.SIGSEGV)})")
    with pytest.raises(Refused) as caught:
        validate_upload(make_file(tmp_path / "f"), lambda: False)
    assert (caught.value.status, caught.value.code) == (400, "CORRUPT_DATABASE")
    assert "exit code -11" in caplog.text


PARTS = [
    "{} || char(0)", "{} || char(0) || 'x'", "char(0) || {}", "char(0)", "CAST({} AS BLOB)", "x'00'",
    "CAST(CAST({} AS BLOB) || x'ffd8ff' AS TEXT)",
]  # fmt: skip
SCHEMAS = [
    "CREATE TABLE u (a)", "CREATE TABLE t (a); CREATE INDEX u ON t (a)", "CREATE VIEW u AS SELECT 1 AS a",
    "CREATE TABLE t (a); CREATE TRIGGER u AFTER INSERT ON t BEGIN SELECT 1; END",
    "CREATE TABLE t (a); CREATE VIRTUAL TABLE u USING fts5(a)",
]  # fmt: skip


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
@pytest.mark.parametrize("column", ["type", "name", "tbl_name", "sql"])
def test_a_definition_of_which_sqlite_reads_only_a_part(tmp_path, column, encoding):
    """NUL characters, blobs and invalid text."""
    forms = [part.format(column) for part in (PARTS if encoding == "UTF-8" else PARTS[:-1])]
    for number, (schema, form) in enumerate(itertools.product(SCHEMAS, forms)):
        change = f"PRAGMA writable_schema = ON; UPDATE sqlite_schema SET {column} = {form} WHERE name = 'u'"
        file = make_file(tmp_path / f"f{number}", f"{schema}; {change}", f"PRAGMA encoding = '{encoding}'")
        assert validate(file).code == "CORRUPT_DATABASE", (schema, form)


@pytest.mark.parametrize("change", [
    "sql = replace(sql, 'a', '\"a' || char(0) || '\"')", "sql = sql || char(0) || '; ATTACH 1 AS x'",
    "name = name || char(0)", "type = CAST(type AS BLOB)", "tbl_name = 't' || char(0)", "sql = CAST(x'ff' AS TEXT)",
])  # fmt: skip
def test_the_service_refuses_such_a_definition(courier, tmp_path, change):
    awaiting(courier)
    script = f"CREATE TABLE t (a); PRAGMA writable_schema = ON; UPDATE sqlite_schema SET {change}"
    status, body = courier.upload("flights", make_file(tmp_path / "f", script))
    assert (status, body["code"]) == (400, "CORRUPT_DATABASE")
    assert courier.left_over() == []
