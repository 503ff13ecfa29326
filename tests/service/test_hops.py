"""The number of functions that the service calls for one request over a socket."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from counted_calls import Calls, counted_calls
from served_apps import serving
from service_calls import CLOSE, caller_of, execute

FUNCTIONS, MODULES = 99, 24
WARM, RUNS = 5, 100


@pytest.fixture
def calls() -> Iterator[Calls]:
    """Functions of the package that are called in threads that begin from now on: all those of the service."""
    with counted_calls(here=False) as calls:
        yield calls


Post = Callable[..., Any]


@pytest.fixture
def post(service, calls) -> Iterator[Post]:
    """Post a pipeline to the service, over one connection."""
    headers = {"authorization": f"Bearer {caller_of(service, 'flights').token}"}
    with serving(service) as app:
        connection = http.client.HTTPConnection("127.0.0.1", app.port)

        def post(*requests: dict[str, Any], baton: str | None = None) -> Any:
            body = json.dumps({"baton": baton, "requests": requests})
            connection.request("POST", "/v3/pipeline", body, headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
            assert [result["type"] for result in answer["results"]] == ["ok"] * len(requests)
            return answer

        yield post
        connection.close()


def one_shot(post: Post) -> Callable[[], None]:
    return lambda: post(execute("SELECT 1"), CLOSE)


def continued(post: Post) -> Callable[[], None]:
    baton = post(execute("SELECT 1"))["baton"]

    def run() -> None:
        nonlocal baton
        baton = post(execute("SELECT 1"), baton=baton)["baton"]

    return run


@pytest.mark.parametrize("client", [one_shot, continued])
def test_a_warm_request_calls_few_functions_of_few_modules(post, calls, client):
    run, counts = client(post), []
    for _ in range(WARM + RUNS):
        calls.clear()
        for _ in range(2):  # the end of the first one precedes the second one
            run()
        counts.append(calls.copy())
    fewest = min(counts[WARM:], key=len)  # it includes as few timers as any
    modules = {module for module, _ in fewest}
    summary = f"{len(fewest)} functions in {len(modules)} modules, {fewest.total() / 2:g} calls"
    listing = "\n".join(f"{count / 2:5} {module} {function}" for (module, function), count in sorted(fewest.items()))
    print(f"{summary}\n{listing}")
    assert 0 < len(fewest) <= FUNCTIONS, summary
    assert len(modules) <= MODULES, summary
