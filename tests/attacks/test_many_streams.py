"""One client that opens streams and closes none."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from probes import Account
from served import Database, serve

STREAMS = 64


@pytest.fixture
def service(tmp_path):
    with serve(tmp_path / "data", "--port", "0", "--allow-signup", "--max-streams", str(STREAMS)) as service:
        yield service


@pytest.mark.parametrize("tokens", [1, 8], ids=["one token", "many tokens of one account"])
def test_one_account_cannot_take_all_streams(service, tokens):
    mallory, alice = Account.sign_up(service, "mallory"), Account.sign_up(service, "alice")
    mallory.database("work")
    issued = [mallory.issue("work", expiration=f"{day + 1}d") for day in range(tokens)]
    with ExitStack() as stack:
        clients = [stack.enter_context(Database(service.url, token)) for token in issued]
        other = stack.enter_context(Database(service.url, alice.database("quiet")))
        open_too_many(clients)
        baton = other.run("SELECT 1", close=False)["baton"]
        other.run("SELECT 2", baton=baton)


def open_too_many(clients: list[Database]) -> None:
    """Open streams until the first one is refused."""
    for number in range(2 * STREAMS):
        answer = clients[number % len(clients)].post("SELECT 1", close=False)
        if answer.status_code != 200:
            break
    assert answer.status_code == 429, answer.text
    assert "streams" in answer.text
    assert number >= STREAMS // 8, "an account needs some streams"
