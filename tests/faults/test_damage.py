"""Damaged files: the damaged database reports an error, and the others work."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from contextlib import closing

import apsw
import pytest
from promises import Promise
from served import serve
from service_calls import CLOSE, caller_of, execute

from pipemagic.errors import ServiceError
from pipemagic.service.service import Service

pytestmark = pytest.mark.promise(Promise.DURABILITY)

ROWS = (
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {}) SELECT x, hex(randomblob(500)) FROM c"
)
READ_ALL = "SELECT count(*), sum(length(b)) FROM t"
DAMAGE_CODES = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR", "SQL_INPUT_ERROR", "SQLITE_ERROR"}


@pytest.fixture
def folder(tmp_path):
    """Return a closed data folder with two databases of 200 rows each."""
    service = Service(tmp_path / "data")
    service.catalog.create_group("local", "default", "ams")
    for name in ("one", "two"):
        codes = caller_of(service, name).run(
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b)", f"INSERT INTO t {ROWS.format(200)}"
        )
        assert set(codes.codes) == {"ok"}
    service.close()
    return tmp_path / "data"


@pytest.fixture
def start(folder):
    services = []

    def start():
        services.append(Service(folder))
        return services[-1]

    yield start
    for service in services:
        service.close()


def file_of(service, name):
    return service.folder / "databases" / service.catalog.database("local", name).id / "primary.sqlite"


def path_of(folder, name):
    catalog = apsw.Connection(str(folder / "catalog.sqlite"))
    [(identifier,)] = catalog.execute("SELECT id FROM databases WHERE name = ?", (name,)).fetchall()
    catalog.close()
    return folder / "databases" / identifier / "primary.sqlite"


OVERWRITE = """
import sys
path, size, *offsets = sys.argv[1:]
with open(path, "r+b") as file:
    for offset in offsets:
        file.seek(int(offset))
        file.write(sys.stdin.buffer.read(int(size)))
"""


def overwrite(path, data, *offsets):
    """Write equal parts of the data at the offsets, in another process.

    Closing a file here would drop the locks that SQLite holds on it in this process.
    """
    places = [str(number) for number in (len(data) // len(offsets), *offsets)]
    subprocess.run([sys.executable, "-IS", "-c", OVERWRITE, path, *places], input=data, check=True)


DAMAGES = {
    "no database at all": lambda path: path.write_bytes(b"This is a letter, not a database.\n" * 400),
    "half of it is missing": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "its first page": lambda path: overwrite(path, bytes(range(256)) * 10, 16),
    "a page in its middle": lambda path: overwrite(path, b"\xff" * 3 * 4096, 5 * 4096),
    "all but the first page": lambda path: overwrite(path, b"\xa5" * 20 * 4096, 4096),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_database_is_named_and_the_others_continue(folder, start, damage):
    damage(path_of(folder, "one"))
    service = start()
    db, other = caller_of(service, "one"), caller_of(service, "two")
    for _ in range(2):
        answer = db.post(
            execute(READ_ALL), execute("INSERT INTO t(b) VALUES ('x')"), execute("PRAGMA integrity_check"), CLOSE
        )
        if answer.status == 200:
            assert answer.codes[-1] == "ok"
            reported = DAMAGE_CODES & set(answer.codes)
            assert reported or answer.rows(2) != [["ok"]]
        else:
            assert (answer.status, answer.body["code"]) == (503, "FILE_DAMAGED")
            assert "put a copy of the file back" in answer.body["error"]
        assert other.run(READ_ALL).rows() == [["200", "200000"]]
        assert set(other.run("INSERT INTO t(b) VALUES ('x')", "DELETE FROM t WHERE b = 'x'").codes) == {"ok"}
    service.catalog.delete_database("local", "one")  # a damaged database can be deleted


def test_restoring_a_copy_repairs_a_damaged_database(folder, start):
    path = path_of(folder, "one")
    shutil.copy(path, path.with_suffix(".copy"))
    path.write_bytes(b"?" * 9000)
    service = start()
    db = caller_of(service, "one")
    assert db.post(execute(READ_ALL), CLOSE).body["code"] == "FILE_DAMAGED"
    path.with_suffix(".copy").replace(path)
    assert db.run(READ_ALL).rows() == [["200", "200000"]]


@pytest.mark.parametrize("seed", range(3))
def test_a_file_that_is_damaged_while_it_is_in_use(start, seed):
    service = start()
    db, other = caller_of(service, "one"), caller_of(service, "two")
    stream = db.post(execute("BEGIN"), execute("SELECT * FROM t LIMIT 3"))
    chance = random.Random(seed)
    pages = file_of(service, "one").stat().st_size // 4096
    places = [chance.randrange(1, pages) * 4096 for _ in range(5)]
    overwrite(file_of(service, "one"), chance.randbytes(5 * 4096), *places)
    answers = [
        db.post(execute(READ_ALL), baton=stream.baton),
        db.post(execute("PRAGMA integrity_check"), CLOSE),
        db.post(*[execute(f"INSERT INTO t {ROWS.format(50).replace('SELECT x,', 'SELECT x + 1000,')}")] * 2, CLOSE),
        db.post(execute("SELECT * FROM t ORDER BY b"), CLOSE),
    ]
    for answer in answers:
        assert answer.status in (200, 503), answer.body
        codes = set(answer.codes) if answer.status == 200 else {answer.body["code"]}
        assert codes <= DAMAGE_CODES | {"ok", "FILE_DAMAGED", "SQLITE_CONSTRAINT"}
    assert other.run(READ_ALL, "PRAGMA integrity_check").rows(1) == [["ok"]]


def test_an_invalid_catalog_is_reported_at_the_start(folder):
    (folder / "catalog.sqlite").write_bytes(b"not a catalog " * 1000)
    with pytest.raises(ServiceError, match=r"catalog\.sqlite is damaged") as caught:
        Service(folder)
    assert caught.value.code == "BAD_CATALOG"
    assert caught.value.hint == "restore it from a backup, or use another data folder"


@pytest.mark.parametrize("seed", range(2))
def test_a_damaged_catalog_does_not_damage_the_databases(folder, seed):
    before = {path.parent.name: path.read_bytes() for path in (folder / "databases").glob("*/primary.sqlite")}
    chance = random.Random(seed)
    path = folder / "catalog.sqlite"
    places = [chance.randrange(1, path.stat().st_size // 4096) * 4096 for _ in range(3)]
    overwrite(path, chance.randbytes(3 * 4096), *places)
    with pytest.raises(ServiceError, match=r"catalog\.sqlite is damaged"):
        Service(folder)
    after = {path.parent.name: path.read_bytes() for path in (folder / "databases").glob("*/primary.sqlite")}
    assert after == before


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Return the folder of a service that was killed after 42 commits."""
    folder = tmp_path_factory.mktemp("killed") / "data"
    with serve(folder) as served, served.database("one") as db:
        db.run("CREATE TABLE t(a INTEGER PRIMARY KEY, b)", "CREATE TABLE pairs(a)")
        for number in range(1, 41):
            db.run(
                "BEGIN",
                f"INSERT INTO t VALUES ({number}, hex(zeroblob(2000)))",
                f"INSERT INTO pairs VALUES ({number})",
                "COMMIT",
            )
    return folder


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_truncated_write_ahead_log_holds_complete_transactions(tmp_path, killed, share):
    """After a power failure that loses synchronized data, the file holds a prefix of the commits, each complete."""
    folder = tmp_path / "data"
    shutil.copytree(killed, folder)
    wal = path_of(folder, "one").with_name("primary.sqlite-wal")
    with wal.open("r+b") as file:
        file.truncate(int(wal.stat().st_size * share))
    with closing(Service(folder)) as service:
        db = caller_of(service, "one")
        tables = db.run("SELECT name FROM sqlite_master").rows()
        if share < 0.3 and ["pairs"] not in tables:
            return  # the first commits are lost, too
        found = [int(a) for (a,) in db.run("SELECT a FROM t ORDER BY a").rows()]
        assert found == list(range(1, len(found) + 1))
        assert [int(a) for (a,) in db.run("SELECT a FROM pairs ORDER BY a").rows()] == found
        assert db.run("PRAGMA integrity_check").rows() == [["ok"]]
        assert db.run("INSERT INTO t VALUES (1000, 'new')").codes == ["ok", "ok"]
