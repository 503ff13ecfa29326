"""What the service promises, and the marker with which a test names the promise that it keeps."""

from __future__ import annotations

from enum import Enum

import pytest


class Promise(Enum):
    """The promises of `docs/analysts/limits.md`, in its words: three against anyone, four against honest load."""

    BOUNDARIES = "no access to data, files, tokens or rights of others"
    DURABILITY = "nothing acknowledged is lost"
    NO_CRASH = "no crash"

    FAIRNESS = "the p95 of others is at most three times"
    MEMORY = "memory stays within `--max-memory`"
    DISK = "the disk keeps a reserve"
    TIME = "statements end at their time limit, or within 10 s of it inside one function"


def promise_of(item: pytest.Item | pytest.FunctionDefinition) -> Promise:
    """Return the promise of a test's own marker, else that of its module; `pytest.fail` without one."""
    marker = item.get_closest_marker("promise")
    if marker is None or [type(argument) for argument in marker.args] != [Promise]:
        pytest.fail(f"{item.nodeid} names no promise: add @pytest.mark.promise(Promise.NAME)", pytrace=False)
    promise: Promise = marker.args[0]
    return promise


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Fail the collection of a test without a promise. The folders' ``conftest.py`` import this hook."""
    promise_of(metafunc.definition)
