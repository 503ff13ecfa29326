"""A lesson of 200 students who start within a minute: most are clients, some are real IPython kernels.

Each student has a database and runs the same cells with pauses, the first ones in a database that was not opened yet.
"""

from __future__ import annotations

import asyncio
import csv
import http.client
import json
import os
import random
import select
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil
from jupyter_client.manager import AsyncKernelManager
from probes import ENDLESS, HOST, WAIT, connections, pipeline, post_sql
from served import Database, Served, serve

STUDENTS = 200
KERNELS = 10
"""The last ones of the students, whose kernels are real."""

IN_TRANSACTION = 1.0
"""The longest pause within a transaction in seconds, as the service rolls it back after five."""
OPTIONS = ("--statement-timeout", "300", "--max-database-size", "3GB")
"""Limits of a student that allow an insert of 1 GB, and a minute or more for it while 200 students work."""

ROWS = 500_000
"""Rows of the table that heavy streams read."""
HEAVY, HEAVY_STREAMS = "SELECT count(*), sum(length(b)), max(b) FROM heavy", 16
GIGABYTE, BLOB = 10**9, 1000
"""Bytes of a large insert, and of each of its rows."""

SERIES = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
FLIGHTS = f"INSERT INTO flights {SERIES.format(rows=1000)} SELECT i, i % 7, 'carrier ' || (i % 20), i % 180 FROM n"
CELLS: list[tuple[str, ...]] = [
    ("DROP TABLE IF EXISTS flights", "DROP TABLE IF EXISTS notes"),
    ("CREATE TABLE flights(id INTEGER PRIMARY KEY, day INTEGER, carrier TEXT, delay INTEGER)",),
    (FLIGHTS,),
    ("SELECT * FROM flights LIMIT 10",),
    ("SELECT count(*) FROM flights",),
    ("SELECT carrier, avg(delay) FROM flights GROUP BY carrier ORDER BY 2 DESC",),
    ("CREATE INDEX by_day ON flights(day)",),
    ("SELECT day, max(delay) FROM flights GROUP BY day",),
    ("UPDATE flights SET delay = delay + 1 WHERE day = 3",),
    ("BEGIN",),
    ("INSERT INTO flights(day, carrier, delay) VALUES (1, 'mine', 5)",),
    ("SELECT count(*) FROM flights WHERE carrier = 'mine'",),
    ("COMMIT",),
    ("SELECT a.carrier, count(*) FROM flights a JOIN flights b ON a.day = b.day AND b.id < 30 GROUP BY 1",),
    ("CREATE TABLE notes(text TEXT)", "INSERT INTO notes VALUES ('one'), ('two')"),
    ("SELECT * FROM notes",),
    ("DELETE FROM flights WHERE delay > 170",),
    ("SELECT name, sql FROM sqlite_master",),
    ("BEGIN", "UPDATE flights SET delay = 0 WHERE id = 7", "COMMIT"),
    ("SELECT delay FROM flights WHERE id = 7",),
]
FIRST_OF_STREAM, LAST_OF_STREAM = 9, 12
"""The cells of one transaction, which share a stream."""


class Class(NamedTuple):
    """A running service, and a token for the database of each student."""

    service: Served
    tokens: list[str]
    creation: float
    """The seconds that `class create` took."""


class Pace(NamedTuple):
    """The seconds within which all students start, and the shortest and the longest pause between two cells."""

    spread: float
    pauses: tuple[float, float]

    def start(self, number: int) -> float:
        """Return when a student starts: clients at random times, kernels at regular ones."""
        kernel = number - (STUDENTS - KERNELS)
        share = random.Random(f"start {number}").random() if kernel < 0 else (kernel + 0.5) / KERNELS
        return self.spread * share

    def pause(self, pick: random.Random, cell: int) -> float:
        """Return the seconds before a cell other than the first."""
        seconds = pick.uniform(*self.pauses)
        return min(seconds, IN_TRANSACTION) if FIRST_OF_STREAM < cell <= LAST_OF_STREAM else seconds


@dataclass
class Latencies:
    """Seconds that some cells took, and the failures among them."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        """The 95th percentile."""
        return sorted(self.seconds)[int(len(self.seconds) * 0.95)]


@dataclass
class Cells:
    """The latencies of the first cells and of the later ones of some students."""

    first: Latencies = field(default_factory=Latencies)
    later: Latencies = field(default_factory=Latencies)

    def record(self, cell: int, seconds: float) -> None:
        """Record a cell that succeeded."""
        (self.later if cell else self.first).seconds.append(seconds)

    def fail(self, cell: int, student: int, error: BaseException) -> None:
        """Record the failure of a cell, with which the student's work ends."""
        (self.later if cell else self.first).failures.append(f"student {student}, cell {cell}: {error!r}")


@dataclass
class Lesson:
    """The outcome of a lesson. Memory is in bytes."""

    clients: Cells = field(default_factory=Cells)
    kernels: Cells = field(default_factory=Cells)
    service_growth: int = 0
    """The growth of the service's resident memory from before the lesson to its end."""
    kernel_memory: list[int] = field(default_factory=list)
    """The memory of each kernel after its last cell, shared pages in proportion (PSS)."""
    creation: float = 0.0
    """The seconds that the creation of all databases took."""
    attack: int = 0
    """The counter of the attack after the last cell."""

    @property
    def groups(self) -> dict[str, Latencies]:
        """The latencies by their names in tables."""
        return {
            "clients, first cells": self.clients.first,
            "clients, later cells": self.clients.later,
            "kernels, first cells": self.kernels.first,
            "kernels, later cells": self.kernels.later,
        }

    @property
    def failures(self) -> list[str]:
        """All failures."""
        return [failure for latencies in self.groups.values() for failure in latencies.failures]


@contextmanager
def new_class(folder: Path) -> Iterator[Class]:
    """Run `pipemagic class serve` over a new folder, and `pipemagic class create` for a roster of all students."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "data"
    with serve(data, "--port", "0", *OPTIONS, command="class serve") as service:
        service.create("template")
        roster = folder / "lesson.csv"
        roster.write_text("name\n" + "".join(f"Student {number}\n" for number in range(STUDENTS)))
        command = ["class", "create", str(roster), "--group", "g", "--from", "template", "--data", str(data)]
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pipemagic", *command, "--output", str(folder)], check=True,
            env={**os.environ, "PIPEMAGIC_CONFIG": str(folder / "config")}, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        seconds = time.perf_counter() - began
        with (folder / "lesson-handouts.csv").open(encoding="utf-8-sig", newline="") as file:
            tokens = [row["token"] for row in csv.DictReader(file)]
        yield Class(service, tokens, seconds)


# Students.


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, body: bytes) -> str | None:
    """Run the statements of a pipeline, which must succeed; return the baton."""
    head = f"POST /v2/pipeline HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
    length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
    answer = await reader.readexactly(length)
    assert lines[0].startswith(b"http/1.1 200"), answer
    parsed = json.loads(answer)
    assert all(result["type"] == "ok" for result in parsed["results"]), answer
    baton: str | None = parsed["baton"]
    return baton


async def study(service: Served, token: str, number: int, cells: Cells, pace: Pace) -> None:
    """Run all cells; a failure ends the notebook, as `Run All` does. The first cell includes the connection."""
    pick, baton, index, writer = random.Random(number), None, 0, None
    await asyncio.sleep(pace.start(number))
    began = time.perf_counter()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        for index, cell in enumerate(CELLS):
            if index:
                await asyncio.sleep(pace.pause(pick, index))
                began = time.perf_counter()
            close = not FIRST_OF_STREAM <= index < LAST_OF_STREAM
            body = pipeline(*cell, baton=baton, close=close)
            baton = await asyncio.wait_for(ask(reader, writer, token, body), WAIT)
            cells.record(index, time.perf_counter() - began)
    except (OSError, EOFError, AssertionError, TimeoutError) as error:
        cells.fail(index, number, error)
    finally:
        if writer is not None:
            writer.close()


def notebook(service: Served) -> list[str]:
    """Return the sources of the cells of a real notebook."""
    first = f"%load_ext pipemagic\n%pipedb connect {service.url}"
    return [first, *("%%sql\n" + ";\n".join(cell) for cell in CELLS)]


async def study_in_kernel(service: Served, token: str, number: int, lesson: Lesson, pace: Pace, folder: Path) -> None:
    """Start a kernel and run the notebook in it.

    The time of a cell is that from the front end's request to the kernel's reply; the start of the kernel is no cell.
    """
    own = {"PIPEMAGIC_TOKEN": token, "PIPEMAGIC_CONFIG": str(folder), "IPYTHONDIR": str(folder)}
    pick, index = random.Random(number), 0
    await asyncio.sleep(pace.start(number))
    manager = AsyncKernelManager(kernel_name="python3")
    await manager.start_kernel(extra_arguments=["--log-level=ERROR"], env={**os.environ, **own}, cwd=str(folder))
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=WAIT)
        for index, source in enumerate(notebook(service)):
            if index:
                await asyncio.sleep(pace.pause(pick, index - 1))
            began = time.perf_counter()
            reply = await client.execute(source, allow_stdin=False, reply=True, timeout=WAIT)
            seconds = time.perf_counter() - began
            assert reply["content"]["status"] == "ok", reply["content"]
            lesson.kernels.record(index, seconds)
        lesson.kernel_memory.append(psutil.Process(manager.provisioner.pid).memory_full_info().pss)
    except (RuntimeError, AssertionError, TimeoutError) as error:
        lesson.kernels.fail(index, number, error)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


async def everybody(students: Class, lesson: Lesson, pace: Pace, without: int, folder: Path) -> None:
    """Let all students but the first ones run their cells."""
    work = []
    for number, token in list(enumerate(students.tokens))[without:]:
        if number < STUDENTS - KERNELS:
            work.append(study(students.service, token, number, lesson.clients, pace))
        else:
            own = folder / f"student-{number}"
            own.mkdir()
            work.append(study_in_kernel(students.service, token, number, lesson, pace, own))
    await asyncio.gather(*work)


# Students who slow the service down.

Counter = Callable[[], int]
"""Returns how many statements of the attack run if they are endless, otherwise how many have ended so far."""


@contextmanager
def no_attack(_students: Class) -> Iterator[Counter]:
    """Do nothing."""
    yield lambda: 0


@contextmanager
def endless(students: Class, *, count: int = 1) -> Iterator[Counter]:
    """Let some students run an endless query."""
    with connections(students.service, count) as opened:
        for connection, token in zip(opened, students.tokens, strict=False):
            connection.sendall(post_sql(token, ENDLESS))
        yield lambda: count - len(select.select(opened, [], [], 0)[0])  # an answer would be the end of the query


@contextmanager
def gigabyte(students: Class) -> Iterator[Counter]:
    """One student inserts 1 GB in one statement, again and again."""
    over, inserted = threading.Event(), []
    rows = GIGABYTE // BLOB
    insert = f"INSERT INTO large {SERIES.format(rows=rows)} SELECT randomblob({BLOB}) FROM n"

    def run(token: str) -> None:
        with Database(students.service.url, token) as db:
            db.http.timeout = 300.0
            while not over.is_set():
                db.run("DROP TABLE IF EXISTS large", "CREATE TABLE large(a BLOB)")
                db.run(insert)
                inserted.append(int(db.rows("SELECT count(*) FROM large")[0][0]))

    thread = threading.Thread(target=run, args=(students.tokens[0],), daemon=True)
    thread.start()
    try:
        yield lambda: len(inserted)
    finally:
        over.set()
        thread.join()
    assert set(inserted) == {rows}, inserted


@contextmanager
def heavy_streams(students: Class) -> Iterator[Counter]:
    """One student reads many rows in 16 streams."""
    with Database(students.service.url, students.tokens[0]) as db:
        db.run("CREATE TABLE heavy(a INTEGER PRIMARY KEY, b TEXT)")
        db.run(f"INSERT INTO heavy {SERIES.format(rows=ROWS)} SELECT i, 'row number ' || i FROM n")
    over, responses = threading.Event(), []
    threads = [
        threading.Thread(target=_repeat, args=(students, over, responses), daemon=True) for _ in range(HEAVY_STREAMS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield lambda: len(responses)
    finally:
        over.set()
        for thread in threads:
            thread.join(WAIT)


def _repeat(students: Class, over: threading.Event, responses: list[int]) -> None:
    """Run the heavy query in one stream until it is ``over``; the service may have stopped, or refuse the stream."""
    baton, headers = None, {"authorization": f"Bearer {students.tokens[0]}"}
    connection = http.client.HTTPConnection(HOST, students.service.port, timeout=WAIT)
    with suppress(OSError, http.client.HTTPException, KeyError, json.JSONDecodeError):
        while not over.is_set():
            connection.request("POST", "/v2/pipeline", pipeline(HEAVY, baton=baton, close=False), headers)
            answer = connection.getresponse()
            baton = json.loads(answer.read())["baton"]
            responses.append(answer.status)
    connection.close()


Attack = Callable[[Class], AbstractContextManager[Counter]]
ATTACKS: dict[str, tuple[int, Attack]] = {
    "an endless query": (1, endless),
    "an insert of 1 GB": (1, gigabyte),
    "16 heavy streams": (1, heavy_streams),
    "5 endless queries": (5, partial(endless, count=5)),
}
"""The number of students who attack, and what they do."""


def hold_lesson(folder: Path, pace: Pace, attack: Attack = no_attack, attackers: int = 0) -> Lesson:
    """Run a lesson on a new service; the first ``attackers`` students attack meanwhile."""
    lesson = Lesson()
    with new_class(folder) as students:
        lesson.creation = students.creation
        process = psutil.Process(students.service.process.pid)
        before = process.memory_info().rss
        with attack(students) as counter:
            asyncio.run(everybody(students, lesson, pace, attackers, folder))
            lesson.attack = counter()
            lesson.service_growth = process.memory_info().rss - before
    return lesson
