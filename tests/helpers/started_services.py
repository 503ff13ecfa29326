"""Embedded services that tests start, shared by many tests, and functions that stop them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from pipemagic import launcher
from pipemagic.errors import ServiceError

WAIT = 20.0  # seconds
HOME = "/v1/organizations/local"
UNLIMITED = {"rows_read": 0, "rows_written": 0, "storage_bytes": 0}


class SharedService:
    """An embedded service for many tests, which may stop or kill it.

    `ready` starts and empties it. Accounts and organizations remain; tests choose unique names for them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lease: launcher.Lease | None = None

    def ready(self) -> launcher.LocalService:
        """Start the service if it does not run; remove groups, databases, API tokens, quotas and overages."""
        if self._lease is None or not self._lease.alive:
            self._lease = launcher.ensure(self.folder)
        service = self._lease.service
        headers = {"Authorization": f"Bearer {service.platform_token()}"}
        with httpx.Client(base_url=service.url, headers=headers, timeout=WAIT, verify=False) as http:  # no TLS
            tokens = [token["name"] for token in http.get("/v1/auth/api-tokens").json()["tokens"]]
            made = [f"/v1/auth/api-tokens/{name}" for name in tokens if name != "default"]  # some end with their group
            made += [f"{HOME}/groups/{group['name']}" for group in http.get(f"{HOME}/groups").json()["groups"]]
            for path in made:
                http.delete(path).raise_for_status()
            http.patch("/v1/quotas", json=UNLIMITED).raise_for_status()
            http.delete("/v1/quotas/local").raise_for_status()  # its own
            http.patch(HOME, json={"overages": False}).raise_for_status()
        return service

    def end(self) -> None:
        """Stop the service and wait for its process."""
        if self._lease is not None:
            self._lease.close()
        end_services(self.folder)


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedService]:
    """The service for the tests of a folder that do not need their own."""
    shared = SharedService(tmp_path_factory.mktemp("shared") / "data")
    yield shared
    shared.end()


@pytest.fixture
def local_service(shared_service: SharedService, monkeypatch: pytest.MonkeyPatch) -> launcher.LocalService:
    """An embedded service without databases; sessions find it and may stop it."""
    monkeypatch.setenv(launcher.FOLDER_VARIABLE, str(shared_service.folder))
    return shared_service.ready()


def end_services(folder: Path) -> None:
    """Stop the service of a folder and wait for its process; those of other tests continue."""
    with suppress(ServiceError):
        launcher.stop(folder)
    for child in launcher._started:
        if str(folder) in child.args:
            child.wait(WAIT)
    launcher._poll_children()


def crash(folder: Path) -> None:
    """Kill the service of a folder with SIGKILL."""
    for child in launcher._started:
        if str(folder) in child.args:
            child.kill()
            child.wait(WAIT)
