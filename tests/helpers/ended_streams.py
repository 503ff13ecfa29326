"""End the stream of a connection at the server, as it does after its limit; the client does not learn it."""

from __future__ import annotations

from pipemagic import dbapi
from pipemagic.client.stream import ClientStream
from pipemagic.client.transport import Transport
from pipemagic.hrana.messages import Close, pipeline
from pipemagic.session import Connection


def end_at_server(connection: Connection) -> None:
    """End the stream; its transaction is rolled back, and holds no lock any more."""
    _end(connection.stream, connection.database.transport)


def end_own_stream(connection: dbapi.Connection) -> None:
    """End the stream of a DB-API connection of its own."""
    link = connection._runner._link
    _end(link._stream, link._database.transport)


def _end(stream: ClientStream | None, transport: Transport) -> None:
    assert stream is not None
    assert transport.request("POST", "/v3/pipeline", pipeline([Close()], stream.baton)).status == 200
