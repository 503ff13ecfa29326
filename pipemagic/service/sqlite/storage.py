"""Errors of disk and memory as HTTP errors that name the remedy."""

from __future__ import annotations

import errno
from typing import NamedTuple

import apsw

from pipemagic.service.responses import Refused


class _Fault(NamedTuple):
    status: int
    code: str
    line: str


_FULL = _Fault(507, "DISK_FULL", "the disk of the service is full: make room on it and try again; nothing is lost")
_READ_ONLY = _Fault(
    503, "DISK_READ_ONLY", "the service cannot write to its data folder: make it writable and try again"
)
_DAMAGED = _Fault(
    503, "FILE_DAMAGED",
    "a file of the service is damaged, so this cannot be done; other databases are not affected: "
    "put a copy of the file back, or delete the database",
)  # fmt: skip
_UNREADABLE = _Fault(503, "DISK_ERROR", "the disk of the service failed to read or write; see service.log")
_HANDLES = _Fault(
    503, "TOO_MANY_FILES", "the service is out of file handles: close streams that are not needed, try again"
)
_NO_MEMORY = _Fault(503, "OUT_OF_MEMORY", "the service is out of memory for a moment: try again; nothing is lost")

_BY_ERROR: tuple[tuple[type[apsw.Error], _Fault], ...] = (
    (apsw.NoMemError, _NO_MEMORY),
    (apsw.FullError, _FULL),
    (apsw.ReadOnlyError, _READ_ONLY),
    (apsw.CorruptError, _DAMAGED),
    (apsw.NotADBError, _DAMAGED),
    (apsw.CantOpenError, _UNREADABLE),
    (apsw.IOError, _UNREADABLE),
)
_BY_NUMBER = {
    errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EFBIG: _FULL, errno.EROFS: _READ_ONLY, errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY, errno.EMFILE: _HANDLES, errno.ENFILE: _HANDLES, errno.EIO: _UNREADABLE,
}  # fmt: skip


def refusal(error: Exception) -> Refused | None:
    """Return the HTTP error for an error of disk or memory; None for any other error."""
    fault: _Fault | None = None
    if isinstance(error, MemoryError):
        fault = _NO_MEMORY
    elif isinstance(error, OSError):
        fault = _BY_NUMBER.get(error.errno or 0)
    elif isinstance(error, apsw.Error):
        fault = next((fault for kind, fault in _BY_ERROR if isinstance(error, kind)), None)
    return None if fault is None else Refused(fault.status, f"{fault.line} ({error})", fault.code)
