"""The log and ``/metrics`` name the database and the token of statements that exceeded a limit."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from types import SimpleNamespace

import apsw
import pytest
from metrics_page import read_samples
from service_calls import caller_of, execute

from pipemagic.service import embedded, stopped_statements
from pipemagic.service.limits import MB, Limits
from pipemagic.service.logs import LogLimit
from pipemagic.service.metrics import Metrics
from pipemagic.service.service import Service
from pipemagic.service.sqlite import resources
from pipemagic.service.stopped_statements import StoppedStatements, StopReason

TOTAL = "pipemagic_statements_stopped_total"
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
SORTED = (
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000) "
    "SELECT count(b) FROM (SELECT n, randomblob(1000) b FROM c ORDER BY b LIMIT -1 OFFSET 1)"
)


@pytest.fixture
def hasty(tmp_path, monkeypatch):
    """A service with a real clock whose statements may run for 0.3 s."""
    monkeypatch.setattr(embedded, "SWEEP_EVERY", 0.1)
    service = Service(tmp_path / "hasty", limits=Limits(statement_time=0.3))
    service.catalog.create_group("local", "default", "ams")
    service.start()
    yield service
    service.close()


@contextmanager
def little_memory():
    before = apsw.hard_heap_limit(-1)
    apsw.hard_heap_limit(apsw.memory_used() + 10 * MB)
    try:
        yield
    finally:
        apsw.hard_heap_limit(before)
        apsw.soft_heap_limit(before)


def counts(service):
    return {series[1:]: count for series, count in read_samples(Metrics(service).page()).items() if series[0] == TOTAL}


def labels(account, access, reason, database="local/flights"):
    return ("access", access), ("account", account), ("database", database), ("reason", reason)


def lines(caplog):
    return [record.getMessage() for record in caplog.records if record.name == stopped_statements.__name__]


def test_a_statement_that_reaches_its_time_limit(hasty, caplog):
    ada, eve = caller_of(hasty, "flights"), caller_of(hasty, "flights", subject="eve", read_only=True)
    assert ada.run(ENDLESS, "SELECT 1").codes == ["STATEMENT_TIMEOUT", "ok", "ok"]
    assert eve.read(ENDLESS).kinds == ["step_error STATEMENT_TIMEOUT"]
    assert counts(hasty) == {labels("ada", "rw", "time"): 1, labels("eve", "ro", "time"): 1}
    assert lines(caplog) == [
        "a statement on local/flights was stopped: it ran for too long (token of ada, rw)",
        "a statement on local/flights was stopped: it ran for too long (token of eve, ro)",
    ]
    assert ada.token not in caplog.text


def test_a_statement_without_memory(db, service, caplog):
    with little_memory():
        assert db.run("SELECT hex(randomblob(7000000))").codes == ["SQLITE_NOMEM", "ok"]
    assert counts(service) == {labels("ada", "rw", "memory"): 1}
    assert lines(caplog) == ["a statement on local/flights was stopped: the memory was used up (token of ada, rw)"]


def test_a_statement_that_fills_the_disk(db, service, caplog, monkeypatch):
    monkeypatch.setattr(resources.shutil, "disk_usage", lambda _: SimpleNamespace(total=10**12, free=10**7))
    assert db.run(SORTED).codes == ["SQLITE_FULL", "ok"]
    assert counts(service) == {labels("ada", "rw", "disk"): 1}
    assert lines(caplog) == [
        "a statement on local/flights was stopped: its temporary files filled the disk (token of ada, rw)"
    ]


def test_other_errors_are_not_counted(db, service, caplog):
    assert db.post(execute("SELECT * FROM missing"), execute("SELECT randomblob(-1, 2)")).codes != ["ok", "ok"]
    assert (counts(service), lines(caplog)) == ({}, [])


def test_the_number_of_series_is_limited():
    stopped = StoppedStatements()
    for number in range(3 * stopped_statements.MOST_SERIES):
        database = SimpleNamespace(organization="local", name=f"d{number}")
        grant = SimpleNamespace(database=database, subject="ada", owner=SimpleNamespace(access="rw"))
        stopped.add(grant, StopReason.TIME)
        stopped.add(grant, StopReason.MEMORY)
    samples = {tuple(sample.labels.values()): sample.value for sample in stopped.collect().samples}
    assert len(samples) == stopped_statements.MOST_SERIES + 2
    assert samples["other", "other", "rw", "time"] == samples["other", "other", "rw", "memory"] == 250
    assert sum(samples.values()) == 6 * stopped_statements.MOST_SERIES


def test_equal_lines_in_quick_succession_are_counted_in_the_next_one(caplog):
    """A token holder must not fill the disk with the log."""
    seconds = [0.0]
    limit = LogLimit(lambda: seconds[0])
    record = logging.LogRecord
    logged = []
    for database in ("a", "a", "b", "a"):
        line = record(stopped_statements.__name__, logging.WARNING, "", 0, "a statement on %s", (database,), None)
        logged += [line.getMessage()] * limit.filter(line)
    assert logged == ["a statement on a", "a statement on b"]
    seconds[0] = 6.0
    line = record(stopped_statements.__name__, logging.WARNING, "", 0, "a statement on %s", ("a",), None)
    assert limit.filter(line)
    assert line.getMessage() == "a statement on a (2 more of these were not logged)"
