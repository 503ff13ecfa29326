"""``pipemagic class serve``: one student takes all that a student may have, and another one works.

``python -m benchmarks lesson`` shows the same with a class of 200 students, and their p95.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NamedTuple

import pytest
from probes import ENDLESS, connections, open_streams, post_sql
from promises import Promise
from served import Database, Served, serve
from waiting import until

import pipemagic
from pipemagic.errors import PipemagicError

pytestmark = pytest.mark.promise(Promise.FAIRNESS)

STREAMS = 32
PATIENCE = 10.0
"""Seconds for a cell of the other student; less than the time limit of a statement, after which attacks end."""
LARGE, RESPONSES = 12_000_000, 48
"""Bytes of a response, larger than the buffers of a socket, and responses that exceed a student's share of memory."""


class Scene(NamedTuple):
    """A service of a class, and the tokens of three students."""

    service: Served
    greedy: str
    partner: str
    other: str

    def works(self) -> None:
        """Connect as the other student and run cells, which must succeed."""
        with pipemagic.connect(self.service.url, self.other, timeout=PATIENCE) as db:
            db.execute("CREATE TABLE IF NOT EXISTS notes(a)")
            with db.transaction() as transaction:
                transaction.execute("INSERT INTO notes VALUES (1)")
            assert db.execute("SELECT count(*) > 0 FROM notes").rows == [(1,)]


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    options = ("--port", "0", "--max-streams", str(3 * STREAMS), "--max-database-size", "2MB")
    with serve(tmp_path_factory.mktemp("class") / "data", *options, command="class serve") as service:
        names = ["greedy", "partner", "other"]
        for name in names:
            service.create(name)
        yield Scene(service, *map(service.token, names))


def test_a_student_who_closes_no_stream_gets_an_error_and_another_one_works(scene):
    with ExitStack() as stack:
        tokens = [scene.greedy, scene.service.token("greedy", authorization="read-only")]
        clients = [stack.enter_context(Database(scene.service.url, token)) for token in tokens]
        answers = [clients[number % 2].post("SELECT 1", close=False) for number in range(STREAMS + 1)]
        assert [answer.status_code for answer in answers] == [200] * STREAMS + [429]
        assert answers[-1].json()["error"] == (
            f"Too many open streams: this database has {STREAMS} open, which is the limit of one database; "
            "close those that are not needed, idle ones end after 10 s"
        )
        scene.works()
        for number, answer in enumerate(answers[:-1]):
            clients[number % 2].run(baton=answer.json()["baton"])


def test_endless_queries_of_two_students_leave_threads_for_others(scene):
    with connections(scene.service, 2 * STREAMS) as opened:
        for number, connection in enumerate(opened):
            connection.sendall(post_sql([scene.greedy, scene.partner][number % 2], ENDLESS))
        until(lambda: open_streams(scene.service) == 2 * STREAMS)
        scene.works()
    until(lambda: open_streams(scene.service) == 0)


@pytest.mark.promise(Promise.MEMORY)
def test_unread_responses_of_a_student_leave_memory_for_others(scene):
    wide = f"SELECT hex(zeroblob({LARGE // 2}))"
    with connections(scene.service, RESPONSES, receive_buffer=4096) as opened:
        for connection in opened:
            connection.sendall(post_sql(scene.greedy, wide))
        with Database(scene.service.url, scene.greedy) as greedy:
            until(lambda: greedy.post(wide).json()["results"][0]["type"] == "error")
            assert greedy.error(wide)["code"] == "RESPONSE_TOO_LARGE"
        with Database(scene.service.url, scene.other) as other:
            [(text,)] = other.rows(wide)
        assert len(text) == LARGE


def test_a_student_with_more_connections_than_the_service_accepts_locks_no_one_out(tmp_path):
    with serve(tmp_path / "data", "--port", "0", "--max-connections", "100", command="class serve") as service:
        service.create("greedy"), service.create("other")
        scene = Scene(service, service.token("greedy"), "", service.token("other"))
        with connections(service, 400) as opened:
            for connection in opened:
                with suppress(ConnectionError):  # the service has closed it, as it was idle beyond the limit
                    connection.sendall(post_sql(scene.greedy, "SELECT 1"))
                    assert connection.recv(9) in (b"HTTP/1.1 ", b"")
            until(lambda: succeeds(scene.works), "connections that have been idle for a second are closed")


def succeeds(call: Callable[[], None]) -> bool:
    try:
        call()
    except PipemagicError:
        return False
    return True
