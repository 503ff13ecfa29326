"""The log of a service, a file of its data folder, and the access log, on standard output; both without tokens.

The access log has one line for each request. Fields, separated by blanks: time (UTC), address of the client, method,
host, path, status, bytes of the response body, milliseconds. It has no query, header or body. Status 499 means that the
client disconnected before the response.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import RawIOBase
from pathlib import Path
from typing import Any
from urllib.parse import quote

LOG_LIMIT = 1_000_000
"""Bytes of the log beyond which the next start begins a new one."""
LOG_INTERVAL = 5.0
"""Seconds between two log lines about the same kind of event that clients can cause."""
FIELD_LIMIT = 300
"""Characters of a path or a host in the access log."""

_SECRETS = re.compile(
    r"(?i:(\bbearer\s+|\bauth_?token=|\bjwt=))[^\s&\"']+"  # whatever stands where a token is expected
    r"|pm[pl]_[\w-]{8,}"  # platform tokens, also those of a login
    r"|eyJ[\w-]*(?:\.[\w-]*)+"  # database tokens: JWTs
)
_PATH_SAFE = "/:@!$&'()*+,;=~-._"

_log = logging.getLogger(__name__)


def redact(text: str) -> str:
    """Replace what looks like a token: every kind that the service issues, in any text."""
    return _SECRETS.sub(lambda match: f"{match[1] or ''}[token]", text)


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Log to a file within the block; a large existing file is renamed to ``.1`` first."""
    with suppress(OSError):  # none yet; on Windows, a file that another process has open cannot be renamed
        if path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_name(path.name + ".1"))
    handler = LogFile(path, encoding="utf-8")  # open it now: there may be no file handles left later
    handler.setFormatter(Redacting("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(LogLimit())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in ("uvicorn.error", "httpx"):  # httpx logs each request: several a second with the checks of sqld's nodes
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


class LogFile(logging.FileHandler):
    """Writes to a file; if its disk is full, lines are lost, and standard error has one line that says so."""

    _reported = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging calls this name
        """Report an error of the disk once."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._reported:
            self._reported = True
            with suppress(OSError):  # it may be the same file
                sys.stderr.write(f"the log {self.baseFilename} cannot be written: {error.strerror}\n")

    def close(self) -> None:
        """Close the file; lines that cannot be written are lost."""
        with suppress(OSError):
            super().close()


class Redacting(logging.Formatter):
    """Formats a record without what looks like a token."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return redact(super().format(record))


class LogLimit(logging.Filter):
    """Limits the rate of what clients can cause.

    These are each warning of uvicorn and of this module, the errors of asyncio, and equal lines on stopped statements.

    A request that is not HTTP is such a warning. asyncio of Python 3.11 reports a failing accept 2,048 times a second
    when there are no file handles left.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next: dict[str, float] = {}
        self._suppressed: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is to be logged; its message states how many were not."""
        if record.name == "asyncio":  # its messages name sockets and tasks
            kind = record.name
        elif record.name in ("uvicorn.error", __name__) and record.levelno == logging.WARNING:
            kind = str(record.msg)
        elif record.name == "pipemagic.service.stopped_statements":
            kind = record.getMessage()
        else:
            return True
        now = self._clock()
        if now < self._next.get(kind, now):
            self._suppressed[kind] += 1
            return False
        self._next[kind] = now + LOG_INTERVAL
        if suppressed := self._suppressed.pop(kind, 0):
            record.msg = f"{record.msg} ({suppressed} more of these were not logged)"
        return True


class AccessLog:
    """Writes a line for each request to a file. If the file cannot be written, lines are lost and requests succeed."""

    def __init__(self, file: RawIOBase) -> None:
        self._file = file

    def write(self, scope: Mapping[str, Any], status: int, sent: int, seconds: float) -> None:
        """Add the line of one request."""
        client = scope.get("client")
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        now = time.time()
        line = " ".join([
            time.strftime(f"%Y-%m-%dT%H:%M:%S.{int(now * 1000) % 1000:03}Z", time.gmtime(now)),  # in any year
            client[0] if client else "-", _field(scope["method"], ""), _field(host.decode("latin-1"), ":[]") or "-",
            _field(scope["path"], _PATH_SAFE), f"{status} {sent} {seconds * 1000:.1f}",
        ])  # fmt: skip
        try:
            self._file.write(redact(line).encode("ascii") + b"\n")
        except OSError as error:
            _log.warning("the access log cannot be written, lines are lost: %s", error)


def _field(text: str, safe: str) -> str:
    """Return text of a client as one field, without blanks, line ends and control characters."""
    return quote(text[:FIELD_LIMIT], safe=safe)
