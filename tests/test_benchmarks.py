"""Tests of the benchmarks' arithmetic and tools; `python -m benchmarks` runs the measurements."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from small_heap import small_heap

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import __main__ as command
from benchmarks import lesson, measure, students
from benchmarks.lines import Line, at_least, at_most, below, faster, table
from benchmarks.peers import PeerError, Peers, Worker
from benchmarks.proxy import Proxy, Requests


@pytest.mark.parametrize(
    ("aim", "ours", "theirs", "ratio", "reached", "far_off"),
    [
        (at_most(1.8), 1.7, 1.0, 1.7, True, False),
        (at_most(1.8), 3.5, 1.0, 3.5, False, False),
        (at_most(1.8), 3.7, 1.0, 3.7, False, True),
        (at_least(2), 220.0, 100.0, 2.2, True, False),
        (at_least(2), 110.0, 100.0, 1.1, False, False),
        (at_least(2), 90.0, 100.0, 0.9, False, True),
        (faster(4), 1.0, 5.0, 5.0, True, False),
        (faster(4), 1.0, 3.0, 3.0, False, False),
        (faster(4), 1.0, 1.9, 1.9, False, True),
    ],
)
def test_a_ratio_reaches_its_target_misses_it_or_is_far_off(aim, ours, theirs, ratio, reached, far_off):
    line = Line("x", "s", [ours], "y", [theirs], aim)
    assert line.ratio == pytest.approx(ratio)
    assert (line.reached, line.far_off) == (reached, far_off)


def test_medians_are_compared():
    line = Line("x", "s", [1.0, 9.0, 2.0], "y", [8.0, 4.0, 1.0], at_most(0.5))
    assert (line.median, line.reference_median, line.ratio, line.reached) == (2.0, 4.0, 0.5, True)


@pytest.mark.parametrize(("unit", "far_off"), [("s", False), ("MB", False), ("KB", False), ("B", True), ("", True)])
def test_results_that_depend_on_the_machine_are_never_far_off(unit, far_off):
    line = Line("x", unit, [100.0], "y", [1000.0], below(1))
    assert (line.reached, line.far_off) == (False, far_off)


def test_without_the_reference_there_is_no_ratio():
    line = Line("x", "s", [1.0], aim=at_most(2))
    assert (line.ratio, line.reached, line.far_off) == (None, None, False)


def test_the_table_and_the_json():
    lines = [
        Line("reading", "s", [0.5], "theirs", [2.5], faster(4)),
        Line("rate", "requests/s", [1500.0], "sqld", [1000.0], at_least(2)),
        Line("start", "s", [1.25], aim=below(0.5)),
        Line("loading", "s", [1.0], "pandas", [0.1], faster(2)),
    ]
    assert table(lines).splitlines() == [
        "what     median            beside  median            ratio        aim",
        "-------  ----------------  ------  ----------------  -----------  -----------  -------",
        "reading  500.00 ms         theirs  2.50 s            5.00 faster  >= 4 faster  reached",
        "rate     1,500 requests/s  sqld    1,000 requests/s  1.50         >= 2         MISSED",
        "start    1.25 s                                                   <= 0.5 s     MISSED",
        "loading  1.00 s            pandas  100.00 ms         0.10 faster  >= 2 faster  FAR OFF",
    ]
    first = json.loads(json.dumps(lines[0].as_json()))
    assert first == {
        "name": "reading", "unit": "s", "values": [0.5], "reference": "theirs", "reference_values": [2.5],
        "aim": {"limit": 4, "of": "times faster", "at_most": False},
        "median": 0.5, "reference_median": 2.5, "ratio": 5.0, "reached": True, "far_off": False,
    }  # fmt: skip


def test_candidates_take_turns_and_the_first_round_is_discarded():
    calls = []

    def candidate(name):
        calls.append(name)
        return len(calls)

    with small_heap():  # garbage is collected before each
        values = measure.interleave(2, {name: lambda name=name: candidate(name) for name in "ab"})
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert values == {"a": [4, 5], "b": [3, 6]}


@pytest.fixture
def echo():
    """Start a server that echoes its input; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                while data := connection.recv(1024):
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


def test_the_proxy_delays_each_direction_and_keeps_the_requests(echo):
    request = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi"
    with Proxy(echo, 0.05) as proxy, socket.create_connection(("127.0.0.1", proxy.port), 10) as client:
        for _ in range(2):
            start = time.perf_counter()
            client.sendall(request)
            assert client.recv(1024) == request
            assert time.perf_counter() - start >= 0.1
        assert proxy.requests == [request, request]


def test_requests_are_separated_at_any_byte():
    whole = [b"GET /v3 HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"]
    for size in range(1, 40):
        found: list[bytes] = []
        requests, data = Requests(found), b"".join(whole * 2)
        for start in range(0, len(data), size):
            requests.feed(data[start : start + size])
        assert found == whole * 2


SCRIPT = """
import json, sys, time
for line in sys.stdin:
    call = json.loads(line)
    if call["do"] == "end":
        sys.exit(3)
    if call["do"] == "hang":
        time.sleep(60)
    print(json.dumps({"error": call["why"]} if call["do"] == "fail" else {"seconds": call["size"] / 2}), flush=True)
"""


def test_a_worker_reports_seconds_and_errors():
    with Worker([sys.executable, "-c", SCRIPT]) as worker:
        assert worker.seconds("work", size=3) == 1.5
        with pytest.raises(PeerError, match="no such table"):
            worker.seconds("fail", why="no such table")
        assert worker.seconds("work", size=1) == 0.5
        with pytest.raises(PeerError, match="its process ended with status 3"):
            worker.seconds("end")


def test_a_worker_that_hangs_is_ended():
    with (
        Worker([sys.executable, "-c", SCRIPT], limit=0.5) as worker,
        pytest.raises(PeerError, match="its process ended with status -9"),
    ):
        worker.seconds("hang")


def test_a_peer_that_fails_is_omitted(tmp_path, monkeypatch, capsys):
    script = tmp_path / "worker.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr("benchmarks.peers.WORKER", script)
    monkeypatch.setattr("benchmarks.peers.install_python", lambda folder, requirements: Path(sys.executable))

    def begin(worker):
        worker.seconds(next(calls), why="cannot connect", size=1)

    calls = iter(["fail", "work"])
    with Peers(tmp_path).working(["one", "other"], begin) as workers:
        assert list(workers) == ["other"]
    assert capsys.readouterr().err == "without one: cannot connect\n"
    with Peers(None).working(["one"], begin) as workers:
        assert workers == {}


@pytest.mark.parametrize(("ours", "check", "check_half"), [(1.0, 0, 0), (3.0, 1, 0), (5.0, 1, 1)])
def test_the_command_prints_writes_and_checks(tmp_path, monkeypatch, capsys, ours, check, check_half):
    monkeypatch.setattr("benchmarks.starts.measure", lambda plan: [Line("x", "s", [ours], "y", [1.0], at_most(2))])
    path = tmp_path / "result.json"
    arguments = ["starts", "--short", "--no-peers", "--json", str(path)]
    assert command.main(arguments) == 0
    assert command.main([*arguments, "--check"]) == check
    assert command.main([*arguments, "--check-half"]) == check_half
    (line,) = json.loads(path.read_text())["lines"]
    assert line["ratio"] == ours
    assert "x     " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["nothing"])
    assert "no such part: nothing" in capsys.readouterr().err


def whole_lesson(attackers=0):
    """Return a lesson in which every cell of the other students ran."""
    held = students.Lesson(attack=attackers)
    for number in range(attackers, students.STUDENTS):
        kernel = number >= students.STUDENTS - students.KERNELS
        for cell in range(len(students.CELLS) + kernel):
            (held.kernels if kernel else held.clients).record(cell, 0.01)
    return held


def test_a_lesson_whose_students_or_attack_did_not_finish_is_an_error():
    lesson.check(whole_lesson())
    lesson.check(whole_lesson(5), 5)
    cut, failed, over = whole_lesson(), whole_lesson(), whole_lesson(1)
    cut.clients.later.seconds.pop()
    failed.kernels.fail(3, 199, TimeoutError())
    over.attack = 0
    for held, attackers, message in (
        (cut, 0, "ran"),
        (failed, 0, "student 199, cell 3"),
        (over, 1, "the attack ended"),
    ):
        with pytest.raises(RuntimeError, match=message):
            lesson.check(held, attackers)


def test_every_part_exists():
    folder = Path(command.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "def measure(plan: Plan)" in path.read_text("utf-8")}
    assert modules == set(command.PARTS)
