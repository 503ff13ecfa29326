"""One database with replicas, which are updated only when a test calls for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import apsw
from asgi_calls import call
from service_calls import CLOSE, Answer, Caller, Clock, execute

from pipemagic.service.replicas.replica import Replica
from pipemagic.service.replicas.replica_set import ReplicaSet
from pipemagic.service.service import Service
from pipemagic.service.sqlite.database import OpenDatabase


class Replicated:
    """A service with the group ``g`` at ams, and the database ``x`` in it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder, self.options = folder, options
        self.clock = Clock()
        self.open()
        if not self.service.catalog.groups("local"):
            self.service.catalog.create_group("local", "g", "ams")
            self.service.catalog.create_database("local", "x", "g")

    def open(self) -> None:
        """Create the service without starting its threads."""
        self.service = Service(self.folder, clock=self.clock, **self.options)

    def restart(self) -> None:
        """Close the service and create it again."""
        self.service.close()
        self.open()

    def crash(self, image: Path) -> None:
        """Continue with the files that a process killed now would leave."""
        shutil.copytree(self.folder, image)
        self.service.close()
        self.folder = image
        self.open()

    def lose_track(self) -> None:
        """Let the replicas start over, as after another program has written to the primary."""
        self.replica_set._index = None
        self.service.engine.replicator.schedule(self.replica_set.work)

    def close(self) -> None:
        self.service.close()

    @property
    def record(self):
        return self.service.catalog.database("local", "x")

    @property
    def database(self) -> OpenDatabase:
        return self.service.engine.databases.open(self.record)

    @property
    def replica_set(self) -> ReplicaSet:
        observer = self.database.observer
        assert isinstance(observer, ReplicaSet)
        return observer

    def replica(self, code: str = "nrt") -> Replica:
        return self.replica_set.replicas[code]

    @property
    def files(self) -> Path:
        return self.folder / "databases" / self.record.id

    def manage(self, method: str, path: str, **query: str) -> tuple[int, Any]:
        token = (self.folder / "platform-token").read_text().strip()
        headers = {"host": "127.0.0.1", "authorization": f"Bearer {token}"}
        response = call(self.service, method, f"/v1/organizations/local{path}", headers=headers, query=query)
        return response.status, json.loads(response.read())

    def location(self, code: str, what: str = "", method: str = "POST", **query: str) -> Any:
        status, answer = self.manage(method, f"/groups/g/locations/{code}{what}", **query)
        assert status == 200, answer
        return answer["group"]

    def at(self, code: str | None = None) -> Caller:
        """A client of the instance at a location, or of the database."""
        record = self.record
        token = self.service.tokens.issue_database(record, read_only=False, expires_in=None, subject="ada")
        host = record.hostname if code is None else record.instances[code]
        return Caller(self.service, token, {"host": f"{host}:8080"})

    def run(self, *statements: str) -> Answer:
        """Run statements at the primary; all must succeed."""
        answer = self.at("ams").post(*map(execute, statements), CLOSE)
        assert set(answer.codes) == {"ok"}, answer.body
        return answer

    def follow(self, most: int = 1000) -> int:
        """Do all work on the replicas that is due; return the number of pieces."""
        for done in range(most):
            if not self.service.engine.replicator.run_due():
                return done
        raise AssertionError("the work on the replicas does not end")

    def check(self, *codes: str) -> None:
        """Bring replicas up to date; each must have the same pages as the primary."""
        self.database  # noqa: B018  opened
        self.follow()
        states = {
            code: (replica.index, replica.state) for code, replica in self.service.engine.status(self.record).items()
        }
        assert set(states.values()) == {(self.database.index, "ok")}, states
        images = {code: image(self.files / "replicas" / f"{code}.sqlite") for code in codes}
        self.service.close()
        primary = image(self.files_of_closed)
        assert set(images) == set(codes)
        for code, replica in images.items():
            assert replica == primary, f"{code} differs from its primary"
        self.open()
        self.database  # noqa: B018  opened
        self.follow()

    @property
    def files_of_closed(self) -> Path:
        (only,) = (self.folder / "databases").glob("*/primary.sqlite")
        return only


def image(path: Path) -> list[bytes]:
    """Return the pages of an intact database file, without the fields that differ in a replica's first page."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        assert connection.pragma("integrity_check") == "ok"
        size = connection.pragma("page_size")
        data = connection.serialize("main")
    finally:
        connection.close()
    pages = [data[begin : begin + size] for begin in range(0, len(data), size)]
    first = bytearray(pages[0])
    for begin, end in ((18, 20), (24, 28), (92, 100)):
        first[begin:end] = bytes(end - begin)
    return [bytes(first), *pages[1:]]
