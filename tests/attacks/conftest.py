"""A service that the holder of one database attacks while others use it. Each test names the promise that it keeps."""

from __future__ import annotations

from typing import NamedTuple

import httpx
import pytest
from peak_memory import pytest_runtest_call
from promises import pytest_generate_tests
from served import Database, Served, serve

__all__ = ["pytest_generate_tests", "pytest_runtest_call"]

TURNS = 10


class Scene(NamedTuple):
    """A service, and full-access tokens for the database of the attacker and for one of somebody else."""

    service: Served
    attacker: str
    other: str

    def others_work(self) -> None:
        """Send short requests of somebody else, which must succeed; how fast is shown by benchmarks."""
        with Database(self.service.url, self.other) as other:
            other.run("CREATE TABLE IF NOT EXISTS notes(a)")
            for _ in range(TURNS):
                assert httpx.get(f"{self.service.url}/health", timeout=30).status_code == 200
                other.run("INSERT INTO notes VALUES (1)")
                assert other.rows("SELECT min(a) FROM notes") == [("1",)]

    def database(self, name: str) -> str:
        """Create a database and return a token for it."""
        self.service.create(name)
        return self.service.token(name)


def new_scene(service: Served) -> Scene:
    scene = Scene(service, "", "")
    return scene._replace(attacker=scene.database("work"), other=scene.database("quiet"))


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("attacks") / "data", "--port", "0") as service:
        yield new_scene(service)


@pytest.fixture
def fresh_scene(tmp_path):
    """A scene on a service of its own, for tests that leave it in a bad state."""
    with serve(tmp_path / "data", "--port", "0") as service:
        yield new_scene(service)
