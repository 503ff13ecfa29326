"""The access log: one line for each request.

Fields, separated by blanks: time (UTC), address of the client, method, host, path, status, bytes of the response body,
milliseconds. It has no query, header or body, so no token and no SQL; what looks like a token in a path is removed.
Status 499 means that the client hung up before the response.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pipemagic.errors import ServiceError
from pipemagic.service.logs import without_secrets

STANDARD_OUTPUT = Path("-")
LONGEST = 300  # characters of a path or a host

_LOG = logging.getLogger(__name__)
_PATH_SAFE = "/:@!$&'()*+,;=~-._"


class AccessLog:
    """Appends lines to a file (0600), or to standard output (``-``); used by one thread.

    Raise `ServiceError` if the file cannot be opened. If the disk is full later, lines are lost and requests succeed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO
        self._failed = False
        try:
            self._file = self._open()
        except OSError as error:
            raise ServiceError(
                f"the access log {path} cannot be written: {error.strerror}",
                hint="name another file with --access-log, or - for standard output", code="ACCESS_LOG",
            ) from None  # fmt: skip

    def load(self) -> None:
        """Open the file again: a new one if the old one was moved."""
        before, self._file = self._file, self._open()
        before.close()

    def write(self, scope: Mapping[str, Any], status: int, sent: int, seconds: float) -> None:
        """Add the line of one request."""
        client = scope.get("client")
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        line = " ".join([
            datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            client[0] if client else "-", _field(scope["method"], ""), _field(host.decode("latin-1"), ":[]") or "-",
            _field(scope["path"], _PATH_SAFE), f"{status} {sent} {seconds * 1000:.1f}",
        ])  # fmt: skip
        try:
            self._file.write(without_secrets(line).encode("ascii") + b"\n")
        except OSError as error:
            if not self._failed:
                _LOG.warning("the access log cannot be written, lines are lost: %s", error)
            self._failed = True
        else:
            self._failed = False

    def _open(self) -> FileIO:
        if self._path == STANDARD_OUTPUT:
            return FileIO(1, "w", closefd=False)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return FileIO(descriptor, "a")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _field(text: str, safe: str) -> str:
    """Return text of a client as one field, without blanks, line ends and control characters."""
    return quote(text[:LONGEST], safe=safe)
