"""A service that one account attacks while another account uses it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from filelock import FileLock
from probes import HEALTH, Account, Probe, sql_probe
from served import Served, serve


@pytest.fixture(scope="session")
def measuring(tmp_path_factory) -> FileLock:
    """The lock for measurements of latencies, shared by the workers of xdist."""
    folder = tmp_path_factory.getbasetemp()
    return FileLock((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "attacks.lock")


@pytest.fixture
def alone(measuring) -> Iterator[None]:
    """Prevent other attacks during a test."""
    with measuring:
        yield


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

    @property
    def probes(self) -> dict[str, Probe]:
        """Short requests of all users but the attacker."""
        return {
            "/health": HEALTH,
            "SELECT 1 of another account": sql_probe(self.other, "SELECT 1"),
            "SELECT 1 in another database": sql_probe(self.neighbour, "SELECT 1"),
        }


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
