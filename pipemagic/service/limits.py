"""The service's limits. The two windows are the requirement's and are not settings."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    body: int = 128 * MB
    statement: int = 128 * MB
    value: int = 128 * MB
    response: int = 128 * MB
    stored_texts: int = 4096
    stored_bytes: int = 16 * MB
    streams: int = 4096
    writer_wait: float = 5.0
    tombstone: float = 300.0  # how long an expired stream is still told apart from an unknown one
    idle_connections: int = 8  # clean SQLite connections kept per database
    idle_connection_age: float = 60.0
