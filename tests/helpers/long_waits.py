"""Scenarios that mostly wait, each in its own thread, concurrently with the other scenarios and tests of a module."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

LONGEST = 120.0  # seconds


class LongWaits:
    """The running scenarios, by their function and its arguments."""

    def __init__(self) -> None:
        self._running: dict[tuple[Any, ...], Future[Any]] = {}

    def begin(self, scenario: Callable[..., Any], *arguments: Any) -> None:
        """Start a scenario in a thread, which ends with it."""
        future: Future[Any] = Future()
        self._running[scenario, *arguments] = future

        def run() -> None:
            try:
                future.set_result(scenario(*arguments))
            except BaseException as error:  # noqa: BLE001 - `outcome` raises it
                future.set_exception(error)

        threading.Thread(target=run, name=scenario.__name__, daemon=True).start()

    def outcome(self, scenario: Callable[..., Any], *arguments: Any) -> Any:
        """Wait for the end of a scenario, or run it here if it was not started; raise its error."""
        future = self._running.pop((scenario, *arguments), None)
        return scenario(*arguments) if future is None else future.result(LONGEST)

    def close(self) -> None:
        """Wait for the scenarios that no test has requested; raise the error of one of them."""
        for future in self._running.values():
            future.result(LONGEST)


@contextmanager
def long_waits() -> Iterator[LongWaits]:
    """Run scenarios, and wait for all of them at the end."""
    made = LongWaits()
    try:
        yield made
    finally:
        made.close()


def selected(request: pytest.FixtureRequest, test: Callable[..., Any]) -> list[pytest.Function]:
    """Return the items of a test function that are to be run."""
    return [item for item in request.session.items if isinstance(item, pytest.Function) and item.function is test]


@contextmanager
def side_by_side(
    request: pytest.FixtureRequest, test: Callable[..., Any], servers: Any
) -> Iterator[Callable[..., Any]]:
    """Run the selected scenarios of a test on some servers; yield a function that returns the outcome of one."""
    with long_waits() as running:
        for item in selected(request, test):
            running.begin(item.callspec.params["scenario"], servers)
        yield lambda scenario: running.outcome(scenario, servers)
