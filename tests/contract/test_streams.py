"""Batons and the idle window (section 9)."""

import base64
import json
import threading
import time

import pytest
from contract_wire import CLOSE, execute

USED = "Received a baton that has already been used"
INVALID = "Received an invalid baton"
EXPIRED = (400, "application/json", "The stream has expired due to inactivity", "STREAM_EXPIRED")
SLOW = "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT {rows}) SELECT count(*) FROM c"


def refusal(answer):
    return answer.status, answer.content_type, answer.fault


def expiry(answer):
    return *refusal(answer), answer.body.get("code") if isinstance(answer.body, dict) else None


def test_every_response_has_a_new_baton(db):
    stream = db.stream()
    batons = []
    for _ in range(5):
        stream.run("SELECT 1")
        batons.append(stream.baton)
    assert len(set(batons)) == 5


def test_batons_cannot_be_guessed(db):
    batons = [db.post().baton for _ in range(20)]
    assert len({baton[:16] for baton in batons}) == 20
    assert min(map(len, batons)) >= 32


def test_the_stream_keeps_its_state(db):
    stream = db.stream()
    stream.run("PRAGMA foreign_keys = OFF", "BEGIN", "CREATE TABLE t(a)")
    assert stream.rows("SELECT count(*) FROM t") == [[0]]
    assert stream.rows("PRAGMA foreign_keys") == [[0]]
    assert db.rows("PRAGMA foreign_keys") == [[1]]


def test_the_state_of_a_closed_stream_is_not_visible_to_the_next(db):
    db.run("CREATE TABLE t(a)")
    db.run("PRAGMA foreign_keys = OFF", "INSERT INTO t VALUES (1)")
    for _ in range(3):
        answer = db.run("PRAGMA foreign_keys", "SELECT last_insert_rowid(), total_changes()")
        assert (answer.rows(0), answer.rows(1)) == ([[1]], [[0, 0]])


def test_an_old_baton_is_refused_and_the_newest_stays_valid(db):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()
    old = stream.run("SELECT 1").baton
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    answer = db.post(execute("INSERT INTO t VALUES (2)"), baton=old)
    assert refusal(answer) == (400, "text/plain", USED)
    assert stream.rows("SELECT a FROM t") == [[1]]


def flipped(baton):
    return ("A" if baton[0] != "A" else "B") + baton[1:]


TAMPERED = {
    "garbage": lambda baton: "garbage",
    "empty": lambda baton: "",
    "flipped at the start": flipped,
    "flipped at the end": lambda baton: flipped(baton[::-1])[::-1],
    "cut": lambda baton: baton[:-4],
    "longer": lambda baton: baton + "AAAA",
    "padded": lambda baton: baton + "=",
    "with a blank": lambda baton: " " + baton,
    "with a newline": lambda baton: baton[:8] + "\n" + baton[8:],
    "random": lambda baton: base64.b64encode(b"x" * 48).decode(),
    "not ASCII": lambda baton: "é" + baton[1:],
    "NUL": lambda baton: baton + "\0",
    "long": lambda baton: baton * 1000,
}


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_a_wrong_baton_is_refused_and_the_right_one_stays_valid(db, tamper):
    stream = db.stream()
    stream.run("BEGIN")
    assert refusal(db.post(execute("SELECT 1"), baton=tamper(stream.baton))) == (400, "text/plain", INVALID)
    assert stream.autocommit is False


def test_a_baton_is_invalid_after_close(db):
    stream = db.stream()
    baton = stream.run("SELECT 1").baton
    stream.send(CLOSE)
    assert refusal(db.post(execute("SELECT 1"), baton=baton)) == (400, "text/plain", INVALID)
    assert refusal(db.post(CLOSE, baton=baton)) == (400, "text/plain", INVALID)


@pytest.mark.every_server
def test_a_stream_takes_one_request_at_a_time(db):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()
    baton = stream.run("SELECT 1").baton
    answers, start = [], threading.Barrier(8)

    def insert():
        start.wait()
        answers.append(db.post(execute("INSERT INTO t VALUES (1)"), execute(SLOW.format(rows=200_000)), baton=baton))

    threads = [threading.Thread(target=insert) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [200] + [400] * 7
    assert {answer.fault for answer in answers if answer.status == 400} == {USED}
    (good,) = [answer for answer in answers if answer.status == 200]
    assert db.post(execute("SELECT count(*) FROM t"), baton=good.baton).rows() == [[1]]


def test_streams_do_not_see_each_other_s_transactions(db):
    db.run("CREATE TABLE t(a)")
    one, two = db.stream(), db.stream()
    one.run("BEGIN", "INSERT INTO t VALUES (1)")
    assert two.rows("SELECT count(*) FROM t") == [[0]]
    one.run("COMMIT")
    assert two.rows("SELECT count(*) FROM t") == [[1]]


@pytest.mark.every_server
def test_a_disconnected_client_ends_its_stream_and_its_transaction(server, db):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()
    stream.run("BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)")
    endless = SLOW.format(rows=10**12)
    body = json.dumps({"baton": stream.baton, "requests": [execute(endless), execute("COMMIT")]}).encode()
    server.disconnect(db, body, 0.3)
    db.run("INSERT INTO t VALUES (2)")  # the write lock is released; in process, no time passes until then
    assert db.rows("SELECT a FROM t") == [[2]]
    assert refusal(stream.send(execute("SELECT 1"))) == (400, "text/plain", INVALID)


# The idle window; `test_transactions` has the test that waits real seconds for it.


@pytest.mark.fake_clock
def test_the_idle_window_is_exact(server, db):
    stream = db.stream()
    stream.run("BEGIN")
    for _ in range(3):
        server.pass_time(4.75)
        assert stream.send().status == 200
    server.pass_time(9.75)
    assert stream.send().status == 200
    server.pass_time(10)
    assert expiry(stream.send()) == EXPIRED


@pytest.mark.fake_clock
def test_the_window_is_checked_at_each_request_without_a_sweep(server, db):
    stream = db.stream()
    stream.run("SELECT 1")
    server.clock.time += 10
    assert expiry(stream.send(execute("SELECT 1"))) == EXPIRED


@pytest.mark.fake_clock
def test_an_expired_stream_has_rolled_back(server, db):
    db.run("CREATE TABLE t(a)")
    stream = db.stream()
    stream.run("BEGIN", "INSERT INTO t VALUES (1)")
    server.pass_time(10.5)
    db.run("INSERT INTO t VALUES (2)")
    assert db.rows("SELECT a FROM t") == [[2]]
    assert expiry(stream.send(execute("COMMIT"))) == EXPIRED


@pytest.mark.fake_clock
def test_a_baton_is_invalid_long_after_its_expiry(server, db):
    stream = db.stream()
    stream.run("SELECT 1")
    server.pass_time(10.5)
    assert expiry(stream.send()) == EXPIRED
    server.clock.time += 301
    server.service.engine.sweep()
    assert refusal(stream.send()) == (400, "text/plain", INVALID)


@pytest.mark.fake_clock
def test_a_running_request_does_not_expire(server, db):
    """The idle window of a stream starts at the end of its response."""
    stream = db.stream()
    stream.run("SELECT 1")
    answers = []
    call = threading.Thread(target=lambda: answers.append(stream.send(execute(SLOW.format(rows=2_000_000)))))
    call.start()
    server.until_one_runs()  # until then the stream is idle, and may expire
    for _ in range(15):
        if call.is_alive():
            server.pass_time(1)
            time.sleep(0.01)
    call.join()
    assert answers[0].rows() == [[2_000_000]]
    assert stream.rows("SELECT 1") == [[1]]
