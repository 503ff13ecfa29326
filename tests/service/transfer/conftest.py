"""Exports and uploads of whole databases, in process."""

from __future__ import annotations

import json
import shutil

import pytest
from asgi_calls import call
from service_calls import caller_of

from pipemagic.service.service import Service


class Courier:
    """Uploads and exports whole databases of one service."""

    def __init__(self, service, folder):
        self.service, self.folder = service, folder
        self.token = (folder / "platform-token").read_text().strip()

    def call(self, method, path, token, **more):
        headers = {"host": "127.0.0.1", "authorization": f"Bearer {token}"}
        return call(self.service, method, path, headers=headers | more.pop("headers", {}), **more)

    def create(self, database, /, **seed):
        body = {"name": database, "group": "default"} | ({"seed": seed} if seed else {})
        path = "/v1/organizations/local/databases"
        return self.answer(self.call("POST", path, self.token, body=json.dumps(body).encode()))

    def caller(self, name, **options):
        return caller_of(self.service, name, **options)

    def upload(self, name, file, *, token=None, size=None):
        """Send a file in parts; return the status and the body."""
        token = token or self.caller(name).token
        length = {"content-length": str(file.stat().st_size if size is None else size)}
        data = file.read_bytes()
        parts = [data[start : start + 10_000] for start in range(0, len(data), 10_000)] or [b""]
        status, body = self.answer(self.call("POST", "/v1/upload", token, headers=length, body=parts))
        return status, body

    def fetch(self, path, name, to):
        response = self.call("GET", path, self.caller(name).token)
        assert response.status == 200, response.read()
        to.write_bytes(response.read())
        return to

    def left_over(self):
        """Return the temporary files that were not removed."""
        return list((self.folder / "transfers").iterdir())

    @staticmethod
    def answer(response):
        return response.status, json.loads(response.read())


@pytest.fixture
def courier(service, tmp_path):
    return Courier(service, tmp_path / "data")


@pytest.fixture
def reopened(service, tmp_path, clock):
    """Return a function that opens a service over a copy of the folder: its state after a crash."""
    made = []

    def reopen():
        copy = tmp_path / f"copy{len(made)}"
        shutil.copytree(tmp_path / "data", copy)
        made.append(Service(copy, clock=clock))
        return Courier(made[-1], copy)

    yield reopen
    for connection in made:
        connection.close()
