"""The access log: one line for each request, for whoever runs a service for others.

Fields, with a blank between: time (UTC), client's address, method, host, path, status, bytes of the answer's body,
milliseconds. There is no query, no header and no body in it, so no token and no SQL; what looks like a token in a
path is taken out. Status 499 means that the client hung up before the answer.
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

    `ServiceError` if the file cannot be opened. A disk that is full later costs lines, not answers.
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
        """Go on with a new file of the same name, if the old one was moved away."""
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
    """Give text from outside as one field: no blanks, no line ends, nothing that a terminal obeys."""
    return quote(text[:LONGEST], safe=safe)
