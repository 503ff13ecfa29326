"""Whole databases in and out of a service, by calls."""

from __future__ import annotations

import json
import shutil

import pytest
from service_calls import caller_of

from pipemagic.service.core import Service
from pipemagic.service.http import Refused, Request


class Courier:
    """Sends and fetches whole databases of one service."""

    def __init__(self, service, folder):
        self.service, self.folder = service, folder
        self.token = (folder / "platform-token").read_text().strip()

    def call(self, method, path, token, **more):
        headers = {"host": "127.0.0.1", "authorization": f"Bearer {token}"}
        return self.service.call(Request(method, path, headers=headers | more.pop("headers", {}), **more))

    def create(self, database, /, **seed):
        body = {"name": database, "group": "default"} | ({"seed": seed} if seed else {})
        path = "/v1/organizations/local/databases"
        return self.answer(self.call("POST", path, self.token, body=json.dumps(body).encode()))

    def caller(self, name, **options):
        return caller_of(self.service, name, **options)

    def upload(self, name, file, *, token=None, size=None):
        """Send a file as the shell does: ask where it goes, write it there, then make the call."""
        token = token or self.caller(name).token
        length = {"content-length": str(file.stat().st_size if size is None else size)}
        head = Request(
            "POST", "/v1/upload", headers={"host": "127.0.0.1", "authorization": f"Bearer {token}", **length}
        )
        try:
            spool = self.service.intake(head)
        except Refused as refused:
            return refused.status, refused.message
        try:
            with file.open("rb") as source:
                while piece := source.read(10_000):
                    spool.write(piece)
            spool.finish()
            return self.answer(self.call("POST", "/v1/upload", token, headers=length, file=spool.path))
        except Refused as refused:
            return refused.status, refused.message
        finally:
            spool.discard()

    def fetch(self, path, name, to):
        response = self.call("GET", path, self.caller(name).token)
        assert response.status == 200, b"".join(response.chunks)
        to.write_bytes(b"".join(response.chunks))
        return to

    def left_over(self):
        """Files on their way that nobody removed."""
        return list((self.folder / "transfers").iterdir())

    @staticmethod
    def answer(response):
        return response.status, json.loads(b"".join(response.chunks))


@pytest.fixture
def courier(service, tmp_path):
    return Courier(service, tmp_path / "data")


@pytest.fixture
def reopened(service, tmp_path, clock):
    """Give a service over a copy of the folder as it is now: what one finds after a crash."""
    made = []

    def reopen():
        copy = tmp_path / f"copy{len(made)}"
        shutil.copytree(tmp_path / "data", copy)
        made.append(Service(copy, clock=clock))
        return Courier(made[-1], copy)

    yield reopen
    for one in made:
        one.close()
