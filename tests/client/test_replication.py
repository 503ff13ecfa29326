"""Reads that see one's own writes at a replica: what is sent along, and what is forgotten when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripted_server import Answer, Call, ScriptedServer, as_json, error_entry, good
from sqld_server import Sqld, SqldDatabase, free_port

from pipemagic import errors
from pipemagic.client import replication
from pipemagic.client.address import Endpoint, parse_address
from pipemagic.client.database import Database
from pipemagic.client.stream import Dialect
from pipemagic.hrana.messages import (
    Execute,
    Stmt,
)


def execute(text: str) -> Execute:
    return Execute(Stmt(text))


def at(index: int, *, wrote: bool = False, duration: float = 0.1) -> Callable[[Call], Answer]:
    """Answer each statement as one that saw, or made, the state ``index``."""

    def answer(call: Call) -> Answer:
        results = []
        for request in call.json["requests"]:
            result = {
                "cols": [], "rows": [], "affected_row_count": int(wrote), "last_insert_rowid": None,
                "replication_index": str(index), "query_duration_ms": duration,
            }  # fmt: skip
            response = {"type": request["type"]}
            if request["type"] == "execute":
                response["result"] = result
            elif request["type"] == "batch":
                count = len(request["batch"]["steps"])
                step = result | {"replication_index": None}
                response["result"] = {
                    "step_results": [step] * count, "step_errors": [None] * count, "replication_index": str(index),
                }  # fmt: skip
            elif request["type"] == "get_autocommit":
                response["is_autocommit"] = True
            results.append({"type": "ok", "response": response})
        return as_json({"baton": None if "close" in call.kinds else "b", "base_url": None, "results": results})

    return answer


def indexes(server: ScriptedServer) -> list[list[str | None]]:
    """The indexes that each pipeline sent along, one for each request that has a statement."""
    return [
        [
            (request.get("stmt") or request.get("batch") or {}).get("replication_index")
            for request in call.json["requests"] if request["type"] in ("execute", "batch")
        ]
        for call in server.posts
    ]  # fmt: skip


# -- what is sent


@pytest.fixture
def database(scripted) -> Iterator[Callable[..., tuple[Database, ScriptedServer]]]:
    opened: list[Database] = []

    def make(*script: Answer | Callable[[Call], Answer]) -> tuple[Database, ScriptedServer]:
        server = scripted(*script)
        opened.append(Database(server.url, "a-token", timeout=5))
        return opened[-1], server

    yield make
    for item in opened:
        item.close()


def test_a_one_shot_read_names_the_state_that_a_write_made(database) -> None:
    db, server = database(at(7, wrote=True), at(7))
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("SELECT 1")
    db.batch(["SELECT 1", "SELECT 2"], atomic=False)
    assert indexes(server) == [[None], ["7"], ["7"]]


def test_a_write_goes_to_the_primary_and_names_nothing(database) -> None:
    db, server = database(at(7, wrote=True))
    for _ in range(2):
        db.execute("INSERT INTO t VALUES (1)")
    db.batch(["SELECT 1", "INSERT INTO t VALUES (2)"])
    assert indexes(server) == [[None], [None], [None]]


def test_a_stream_names_each_state_once_and_again_when_it_is_reopened(database, clock) -> None:
    db, server = database(at(7, wrote=True), at(7), at(7), at(8, wrote=True), at(8))
    db._clock = clock
    with db.open_stream(is_empty=lambda: True) as stream:
        for text in ("INSERT INTO t VALUES (1)", "SELECT 1", "SELECT 2", "INSERT INTO t VALUES (2)", "SELECT 3"):
            stream.send([execute(text)])
        clock.advance(11)
        stream.send([execute("SELECT 4")])
    assert indexes(server)[:6] == [[None], ["7"], [None], [None], ["8"], ["8"]]
    assert server.posts[5].baton is None


def test_streams_of_a_database_know_what_the_others_wrote(database) -> None:
    db, server = database(at(7, wrote=True), at(7))
    with db.open_stream() as one, db.open_stream() as other:
        one.send([execute("INSERT INTO t VALUES (1)")])
        other.send([execute("SELECT 1")])
    assert indexes(server)[:2] == [[None], ["7"]]


def test_in_a_transaction_nothing_is_named(database) -> None:
    db, server = database(at(7, wrote=True), lambda call: good(call, autocommit=False))
    with db.open_stream() as stream:
        for text in ("INSERT INTO t VALUES (1)", "BEGIN", "SELECT 1"):
            stream.send([execute(text)])
    assert indexes(server)[:3] == [[None]] * 3


def test_a_seed_server_gets_only_requests_of_the_seed(database) -> None:
    db, server = database(at(7, wrote=True))
    server.pages.clear()
    db.execute("INSERT INTO t VALUES (1)")
    db.execute("SELECT 1")
    with db.open_stream() as stream:
        stream.send([execute("SELECT 1")])
    assert db.dialect is Dialect.SEED
    assert indexes(server) == [[None], [None], [None], []]
    assert all("replication_index" not in call.body.decode() for call in server.posts)


# -- what is forgotten


@pytest.mark.parametrize("failure", [
    Answer(vanish=True), as_json({"error": "oh no"}, 500), as_json({"error": "later"}, 503), Answer(body=b"{}", cut=1),
    as_json({"baton": None, "base_url": None, "results": [error_entry("it is behind", "REPLICA_BEHIND")] * 2}),
])  # fmt: skip
def test_after_what_may_have_been_a_crash_nothing_is_waited_for(database, failure) -> None:
    db, server = database(at(36, wrote=True), failure, at(4))
    db.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(errors.PipemagicError):
        db.execute("SELECT 1")
    db.execute("SELECT 1")
    assert indexes(server) == [[None], ["36"], [None]]


def test_a_refusal_is_no_crash(database) -> None:
    db, server = database(at(7, wrote=True), as_json({"error": "no"}, 401), at(7))
    db.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(errors.AuthError):
        db.execute("SELECT 1")
    db.execute("SELECT 1")
    assert indexes(server) == [[None], ["7"], ["7"]]


def test_a_lower_index_after_a_write_resets_the_known_state(database) -> None:
    db, server = database(at(36, wrote=True), at(4, wrote=True), at(4))
    for text in ("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "SELECT 1"):
        db.execute(text)
    assert indexes(server) == [[None], [None], ["4"]]


def test_a_read_at_a_replica_that_is_behind_forgets_nothing(database) -> None:
    db, server = database(at(36, wrote=True), at(35), at(36))
    for text in ("INSERT INTO t VALUES (1)", "SELECT 1", "SELECT 1"):
        db.execute(text)
    assert indexes(server) == [[None], ["36"], ["36"]]


def test_the_error_of_a_lagging_replica_has_a_hint(database) -> None:
    behind = error_entry("the replica is behind", "REPLICA_BEHIND")
    ok = {"type": "ok", "response": {"type": "close"}}
    db, _ = database(at(7, wrote=True), as_json({"baton": None, "base_url": None, "results": [behind, ok]}))
    db.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(errors.StatementError, match="the replica is behind\nHint: run it again"):
        db.execute("SELECT 1")


# -- instances


@pytest.fixture
def gone() -> Endpoint:
    """An address where nothing listens."""
    return parse_address(f"http://127.0.0.1:{free_port()}")


def test_when_an_instance_is_gone_the_named_address_gives_another_one(database, gone) -> None:
    db, server = database(good)
    with db.open_stream() as stream:
        stream.send([execute("SELECT 1")])
        stream._endpoint = gone
        assert len(stream.send([execute("SELECT 2")])) == 1
        assert stream.reopened == 1
    assert server.posts[1].baton is None


def test_with_a_transaction_open_an_instance_that_is_gone_is_an_error(database, gone) -> None:
    db, _ = database(lambda call: good(call, autocommit=False))
    with db.open_stream() as stream:
        stream.send([execute("BEGIN")])
        stream._endpoint = gone
        with pytest.raises(errors.ConnectError):
            stream.send([execute("SELECT 2")])
        stream._endpoint = None


def test_instances_on_loopback_share_the_connections(database) -> None:
    db, server = database(lambda call: good(call, base_url=f"http://ams-127.localhost:{server.port}"), good)
    with db.open_stream() as stream:
        for _ in range(3):
            stream.send([execute("SELECT 1")])
        assert len({call.port for call in server.posts}) == 1
    assert [call.headers["host"] for call in server.posts][:2] == [
        f"127.0.0.1:{server.port}", f"ams-127.localhost:{server.port}",
    ]  # fmt: skip


# -- a real primary and its replica


@pytest.fixture(scope="module")
def replica_database(sqld_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqldDatabase]:
    """A database of sqld as a replica of it serves it."""
    folder, grpc = tmp_path_factory.mktemp("pair"), free_port()
    primary = Sqld(sqld_binary, folder / "primary", "--grpc-listen-addr", f"127.0.0.1:{grpc}")
    try:
        replica = Sqld(
            sqld_binary, folder / "replica", "--primary-grpc-url", f"http://127.0.0.1:{grpc}", key=primary.key
        )
        try:
            made = primary.database()
            yield SqldDatabase(f"http://{made.name}.localhost:{replica.port}", made.name, made.key)
        finally:
            replica.close()
    finally:
        primary.close()


@pytest.fixture
def at_replica(replica_database: SqldDatabase) -> Iterator[Database]:
    with Database(replica_database.url, replica_database.token) as database:
        database.batch(["DROP TABLE IF EXISTS t", "CREATE TABLE t (a)"])
        yield database


def test_every_read_at_a_replica_of_sqld_sees_the_own_writes(at_replica: Database) -> None:
    for number in range(1, 51):
        at_replica.execute("INSERT INTO t VALUES (?)", [number])
        assert at_replica.execute("SELECT count(*) FROM t").rows == [(number,)]
    assert at_replica.replication.unbounded


def test_a_stream_at_a_replica_of_sqld_sees_its_writes_and_those_of_others(at_replica: Database) -> None:
    with at_replica.open_stream() as one, at_replica.open_stream() as other:
        for number in range(1, 51):
            one.send([execute(f"INSERT INTO t VALUES ({number})")])
            for stream in (one, other):
                (entry, *_) = stream.send([execute("SELECT count(*) FROM t")])
                assert entry.response.result.rows[0][0].value == str(number)


def test_a_replica_of_sqld_is_not_waited_for_without_end(at_replica: Database, monkeypatch) -> None:
    monkeypatch.setattr(replication, "WAIT_LIMIT", 1.0)
    at_replica.execute("INSERT INTO t VALUES (1)")
    at_replica.replication.index = 10**6  # as after a crash of the primary, which then counts from a lower number
    with pytest.raises(errors.UnknownOutcome, match="did not show your last write within 1 s") as caught:
        at_replica.execute("SELECT count(*) FROM t")
    assert caught.value.hint == "run it again; it will no longer wait for that write"
    assert at_replica.execute("SELECT count(*) FROM t").rows in ([(0,)], [(1,)])


def test_a_read_that_was_refused_waits_when_it_is_sent_again(monkeypatch) -> None:
    monkeypatch.setattr("pipemagic.client.transport.BUSY_PAUSES", ())
    server = ScriptedServer(at(5, wrote=True), as_json({"error": "busy"}, 429), at(5))
    try:
        with Database(server.url) as database, database.open_stream() as stream:
            stream.send([execute("INSERT INTO t VALUES (1)")])
            with pytest.raises(errors.BusyError):
                stream.send([execute("SELECT 1")])
            stream.send([execute("SELECT 1")])
        posts = [call for call in server.calls if call.method == "POST"]
        stamps = [call.json["requests"][0]["stmt"].get("replication_index") for call in posts[:3]]
        assert stamps == [None, "5", "5"]
    finally:
        server.close()
