"""A service that one account attacks while another account uses it."""

from __future__ import annotations

from typing import NamedTuple

import httpx
import pytest
from probes import Account
from served import Database, Served, serve

TURNS = 10


class Scene(NamedTuple):
    """A service with the database ``work`` of the account ``mallory`` and two databases of other users."""

    service: Served
    mallory: Account
    attacker: str
    """A full-access token for mallory's database ``work``."""
    neighbour: str
    """A token for another database of the same account."""
    other: str
    """A token for a database of another account."""

    def others_work(self) -> None:
        """Send short requests of all users but the attacker, which must succeed; how fast is shown by benchmarks."""
        with Database(self.service.url, self.neighbour) as neighbour, Database(self.service.url, self.other) as other:
            for _ in range(TURNS):
                assert httpx.get(f"{self.service.url}/health", timeout=30).status_code == 200
                assert neighbour.rows("SELECT 1") == other.rows("SELECT 1") == [("1",)]


def new_scene(service: Served) -> Scene:
    mallory, alice = Account.sign_up(service, "mallory"), Account.sign_up(service, "alice")
    return Scene(service, mallory, mallory.database("work"), mallory.database("neighbour"), alice.database("quiet"))


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("attacks") / "data", "--port", "0", "--allow-signup") as service:
        yield new_scene(service)


@pytest.fixture
def fresh_scene(tmp_path):
    """A scene on a service of its own, for tests that leave it in a bad state."""
    with serve(tmp_path / "data", "--port", "0", "--allow-signup") as service:
        yield new_scene(service)
