"""The number of functions that the kernel calls for one cell, and how many of them inside each other."""

from __future__ import annotations

import socket
import sys
from types import FrameType

import pytest
from counted_calls import HOME, counted_calls
from magic_shell import make_database

FUNCTIONS, MODULES = 85, 20
DEPTH = 12
WARM = RUNS = 5


@pytest.fixture
def calls():
    """Functions of the package that are called in this thread, and in threads that begin from now on."""
    with counted_calls(here=True) as calls:
        yield calls


@pytest.fixture
def stacks():
    """The functions of the package that run when this thread hands bytes to a socket: the outermost first."""
    stacks: list[list[str]] = []

    def profile(frame: FrameType | None, event: str, function: object) -> None:
        name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
        if event != "c_call" or not (name.startswith("send") and isinstance(owner, socket.socket)):
            return
        stack = []
        while frame is not None:
            file = frame.f_code.co_filename.replace("\\", "/")
            if file.startswith(HOME):
                stack.append(f"{file.removeprefix(HOME)} {frame.f_code.co_qualname}")
            frame = frame.f_back
        stacks.append(stack[::-1])

    sys.setprofile(profile)
    yield stacks
    sys.setprofile(None)


@pytest.fixture
def connected(shell, service, request, monkeypatch):
    """A shell that is connected to a database of the service."""
    url, token = make_database(service, request.node.nodeid)
    monkeypatch.setenv("DB_TOKEN", token)
    shell(f"%pipedb connect {url} --token-env DB_TOKEN")
    return shell


def test_a_cell_reaches_the_socket_by_few_calls_inside_each_other(connected, stacks):
    for _ in range(WARM):
        stacks.clear()
        connected.ip.run_line_magic("sql", "SELECT 1 AS one")
    own = [stack for stack in stacks if stack and stack[0] == "notebook/magics.py PipeMagics.sql"]
    assert len(own) == 1, own  # one request, in one packet
    assert own[0][-1] == "http/transport.py HttpConnection.send"
    assert len(own[0]) <= DEPTH, "\n".join(own[0])


def test_a_warm_cell_calls_few_functions_of_few_modules(connected, calls):
    counts = []
    for _ in range(WARM + RUNS):
        calls.clear()
        connected.ip.run_line_magic("sql", "SELECT 1 AS one")
        counts.append(calls.copy())
    fewest = min(counts[WARM:], key=len)  # it includes no function of another thread
    modules = {module for module, _ in fewest}
    summary = f"{len(fewest)} functions in {len(modules)} modules, {fewest.total()} calls"
    listing = "\n".join(f"{count:3} {module} {function}" for (module, function), count in sorted(fewest.items()))
    assert 0 < len(fewest) <= FUNCTIONS, f"{summary}\n{listing}"
    assert len(modules) <= MODULES, f"{summary}\n{listing}"
