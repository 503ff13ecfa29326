"""Tasks of panels: the newest request wins, errors are kept for the panel."""

from __future__ import annotations

import logging
import threading

import pytest
from waiting import PATIENCE, until

from pipemagic.notebook.panels.tasks import STOPPED, Action, LatestTask


class Work:
    """Work that waits until it may end."""

    def __init__(self, result: str) -> None:
        self.result = result
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.may_end.wait(PATIENCE)
        return self.result


@pytest.fixture
def task():
    return LatestTask("test")


def test_the_newest_request_runs_and_the_others_never_do(task):
    first, applied, ran = Work("1"), [], []
    task.start("1", first, applied.append)
    assert first.begun.wait(PATIENCE)
    task.start("2", lambda: ran.append(2) or "2", applied.append)
    task.start("3", lambda: ran.append(3) or "3", lambda result: applied.append(result) or "applied")
    assert task.busy == "3"
    assert sum(thread.name == "pipemagic: test" for thread in threading.enumerate()) == 1
    first.may_end.set()
    assert task.wait(PATIENCE)
    assert ran == [3]
    assert applied == ["3"]
    assert task.message == "applied"


def test_stop_drops_the_result_and_the_waiting_request(task):
    first, applied = Work("1"), []
    task.start("1", first, applied.append, abort=first.may_end.set)
    assert first.begun.wait(PATIENCE)
    task.start("2", lambda: "2", applied.append)
    task.stop()
    assert task.wait(0)
    assert (task.busy, task.message) == ("", STOPPED)
    task.start("3", lambda: "3")
    assert task.wait(PATIENCE)
    assert task.message == "3"
    assert applied == []


@pytest.mark.parametrize("where", ["work", "apply"])
def test_a_bug_is_shown_and_logged_and_the_next_request_runs(task, caplog, where):
    fail = lambda *_: 1 / 0  # noqa: E731
    with caplog.at_level(logging.ERROR):
        task.start("Working ...", fail if where == "work" else str, fail if where == "apply" else None)
        assert task.wait(PATIENCE)
    assert (task.busy, task.error.code) == ("", "BUG")
    assert task.error.message == "ZeroDivisionError: division by zero"
    assert "the work of test failed" in caplog.text
    task.start("Working ...", lambda: "Done.")
    assert task.wait(PATIENCE)
    assert task.message == "Done."


def test_a_task_can_be_waited_for_as_soon_as_it_is_busy(task):
    waited, work = [], Work("Done.")
    task.changed = lambda: waited.append(task.wait(0))
    task.start("Working ...", work)
    work.may_end.set()
    assert waited[0] is False
    assert task.wait(PATIENCE)


def test_a_request_that_the_end_of_another_starts_is_waited_for(task):
    work = Work("2")

    def changed():
        if task.message == "1":
            task.start("2", work)

    task.changed = changed
    task.start("1", lambda: "1")
    assert work.begun.wait(PATIENCE)
    assert not task.wait(0)
    work.may_end.set()
    assert task.wait(PATIENCE)
    assert task.message == "2"


def test_quiet_work_keeps_what_the_last_request_shows(task):
    task.start("1", lambda: "Done.", line="%pipedb tables")
    assert task.wait(PATIENCE)
    for message, shown in (("", "Done."), ("Again.", "Again.")):
        assert task.start_quietly(lambda message=message: message, str, lambda: None)
        assert task.wait(PATIENCE)
        assert (task.busy, task.message, task.line) == ("", shown, "%pipedb tables")
    task.refuse("no such column")
    assert task.start_quietly(lambda: 1 / 0, str, lambda: None)
    assert task.wait(PATIENCE)
    assert task.error.message == "no such column"


def test_the_error_of_quiet_work_is_shown_until_the_next_work(task):
    for work, code in ((lambda: 1 / 0, "BUG"), (lambda: "", "")):
        assert task.start_quietly(work, str, lambda: None)
        assert task.wait(PATIENCE)
        assert ("" if task.error is None else task.error.code) == code


def test_errors_of_quiet_work_are_shown_after_the_last_one_was_cleared(task):
    for clear in (task.clear, lambda: (task.refuse("no such column"), task.clear())):
        assert task.start_quietly(lambda: 1 / 0, str, lambda: None)
        assert task.wait(PATIENCE)
        assert task.error.code == "BUG"
        clear()
        assert task.error is None


def test_quiet_work_never_replaces_a_request_and_a_request_ends_it(task):
    first, quiet = Work("1"), Work("quiet")
    task.start("1", first)
    assert not task.start_quietly(quiet, str, lambda: None)
    first.may_end.set()
    assert task.wait(PATIENCE)
    assert task.start_quietly(quiet, lambda result: result, quiet.may_end.set)
    assert quiet.begun.wait(PATIENCE)
    assert task.is_quiet
    task.start("2", lambda: "2")
    assert task.wait(PATIENCE)
    assert task.message == "2"


def test_a_report_during_a_stop_does_not_keep_the_task_busy():
    class Stopped(LatestTask):
        @property
        def _dropped(self):
            """Whether it was stopped; a stop arrives while the work reports, after it has checked this."""
            value = self.dropped
            if reports and not stops:
                thread = threading.Thread(target=self.stop)
                thread.start()
                thread.join(0.2)
                stops.append(thread)
            return value

        @_dropped.setter
        def _dropped(self, value):
            self.dropped = value

    def work():
        reports.append(1)
        task.report("Working: 1 row ...")
        return "done"

    reports, stops = [], []
    task = Stopped("a test")
    task.start("Working ...", work)
    until(lambda: stops)
    stops[0].join()
    until(lambda: not task._running)
    assert task.busy == ""
    assert task.message in ("done", STOPPED)  # in either order


def test_an_action_ignores_requests_while_one_runs():
    action, first, ran = Action("test"), Work("1"), []
    action.start("1", first)
    action.start("2", lambda: ran.append(2))
    first.may_end.set()
    assert action.wait(PATIENCE)
    assert (action.message, ran) == ("1", [])
