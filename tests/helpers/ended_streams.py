"""End the stream of a connection at the server, as it does after its limit; the client does not learn it."""

from __future__ import annotations

from pipemagic.hrana.messages import Close, pipeline
from pipemagic.session import Connection


def end_at_server(connection: Connection) -> None:
    """End the stream; its transaction is rolled back, and holds no lock any more."""
    assert connection.stream is not None
    close = pipeline([Close()], connection.stream.baton)
    assert connection.database.transport.request("POST", "/v3/pipeline", close).status == 200
