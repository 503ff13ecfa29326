"""What a new database begins with: the member ``seed`` of the request that creates it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipemagic.service.endpoint import CancelToken
from pipemagic.service.management.bodies import Body
from pipemagic.service.management.routing import Call
from pipemagic.service.responses import Refused
from pipemagic.service.transfer.endpoints import Transfers

Prepare = Callable[[str], None]


@contextmanager
def prepared(call: Call, body: Body) -> Iterator[Prepare]:
    """Give what puts the seed in place, once the new database has an id; Refused (400, 404) for a seed that is none."""
    if not body.has("seed"):
        yield lambda _: None
        return
    seed, transfers = body.members("seed"), call.platform.transfers
    if transfers is None:
        raise Refused(
            400, '"seed" is not supported by this service: its libSQL servers take no files, so create the database '
            "empty and send its contents as SQL text", "NO_SEED",
        )  # fmt: skip
    match seed.get("type"):
        case "database_upload":
            yield transfers.databases.await_upload
        case "database":
            with _copied(call, transfers, seed) as prepare:
                yield prepare
        case "dump":
            raise Refused(400, "SQL text is not taken here: make a SQLite file of it and use the seed database_upload")
        case other:
            raise Refused(400, f"unknown seed type {str(other)[:40]!r}: it is database or database_upload")


@contextmanager
def _copied(call: Call, transfers: Transfers, seed: Mapping[str, Any]) -> Iterator[Prepare]:
    name = seed.get("name") or seed.get("value")
    if not isinstance(name, str):
        raise Refused(400, '"seed.name" must name the database to copy')
    if seed.get("timestamp"):
        raise Refused(400, "a database can be copied as it is now, not as it was: leave seed.timestamp out")
    original = call.catalog.database(call["org"], name)
    transfers.check_quotas(call["org"])
    copy = transfers.copy(original, CancelToken())
    try:
        yield lambda identifier: transfers.databases.place(identifier, copy)
    finally:
        copy.unlink(missing_ok=True)
