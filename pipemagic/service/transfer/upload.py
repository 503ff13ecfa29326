"""SQLite files for uploads: a client prepares them, the service validates them."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from pipemagic.errors import TransferError
from pipemagic.service.limits import MB
from pipemagic.service.responses import Refused, storage_refusal
from pipemagic.service.sqlite.database import snapshot
from pipemagic.service.sqlite.foreign_names import foreign_name
from pipemagic.service.transfer.validation import (
    INVALID,
    PAGE_SIZE,
    TOO_LARGE,
    ValidationResult,
    convert,
    describe,
    open_untrusted,
)

MAGIC = b"SQLite format 3\0"
HEADER_SIZE = 100
BUSY_TIMEOUT = 5000
"""Milliseconds to wait for a program that writes to the file."""
CHECK_TIME, CHECK_RATE = 10.0, MB
"""Time limit of the validation of a file: seconds, and bytes for each further second."""
POLL = 0.1
"""Seconds between two checks whether the validation must end."""

_CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from pipemagic.service.transfer.validation import main; main()"
)
_INHERITED = re.compile("PATH|SYSTEMROOT|(DY)?LD_LIBRARY_PATH", re.IGNORECASE)
"""Environment variables that starting Python may need."""
_ROOT = str(Path(__file__).resolve().parents[3])

log = logging.getLogger(__name__)


def validate_upload(path: Path, must_end: Callable[[], bool]) -> None:
    """Check an uploaded file and convert it to the form of this service's databases, in a process of its own.

    Raise `Refused` (400) if it is invalid, or if that takes too much time or memory. ``must_end`` is called often; it
    may raise to end the validation, which kills the process. Its temporary files are in the folder of the file.
    """
    check_header(path)
    seconds = CHECK_TIME + path.stat().st_size / CHECK_RATE
    deadline = time.monotonic() + seconds
    with _process(path) as process:
        while process.poll() is None:
            must_end()
            if time.monotonic() > deadline:
                line = f"checking the file took more than {seconds:.0f} s: are its generated columns or indexes slow?"
                raise Refused(400, line, "CHECK_TIMEOUT")
            with suppress(subprocess.TimeoutExpired):
                process.wait(POLL)
        assert process.stdout is not None
        answer = process.stdout.read()
    _raise_for(answer, process.returncode)


@contextmanager
def _process(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process that validates; it is killed at the end if it still runs."""
    environment = {name: value for name, value in os.environ.items() if _INHERITED.fullmatch(name)}
    environment |= dict.fromkeys(("SQLITE_TMPDIR", "TMP", "TEMP"), str(file.parent))
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NO_WINDOW | subprocess.BELOW_NORMAL_PRIORITY_CLASS
    with subprocess.Popen(
        [sys.executable, "-IS", "-c", _CODE, json.dumps(_module_path())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=environment, cwd=file.parent, creationflags=flags,
    ) as process:  # fmt: skip
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # it could not start: its exit code says so
                process.stdin.write(json.dumps(str(file)).encode() + b"\n")
            yield process
        finally:
            process.kill()


def _module_path() -> list[str]:
    """Return the folders of this process's modules; a relative one may mean another folder by now.

    pipemagic itself may have been found in such a folder, or by the hook of an editable installation.
    """
    path = [entry for entry in sys.path if os.path.isabs(entry)]
    return path if _ROOT in path else [*path, _ROOT]


def _raise_for(answer: bytes, code: int) -> None:
    """Raise `Refused` unless the result is a valid file."""
    if not answer and not 0 <= code < 2**31:  # a signal; on Windows, a code of the system
        log.error("an upload was refused: SQLite crashed when it was validated (exit code %d)", code)
        raise Refused(400, "the database is damaged: SQLite crashed when it was checked", INVALID)
    if not answer:
        raise ChildProcessError(f"the process that validates an upload ended with exit code {code}")
    result = ValidationResult(*json.loads(answer))
    if result.code in (INVALID, TOO_LARGE):
        raise Refused(400, result.problem, result.code)
    if result.problem:
        error: apsw.Error = getattr(apsw, result.code)(result.problem)
        raise storage_refusal(error) or error


def check_header(path: Path) -> None:
    """Raise `Refused` (400) for a file without the header of a SQLite database."""
    with path.open("rb") as file:
        header = file.read(HEADER_SIZE)
    if len(header) < HEADER_SIZE or not header.startswith(MAGIC):
        raise Refused(400, "the file is not a SQLite database", "NOT_A_DATABASE")
    if max(header[18:20]) > 2:  # SQLite would open it for reading only
        version = max(header[18:20])
        raise Refused(400, f"the database is damaged: unknown version of the file format {version}", INVALID)


def prepare_upload(source: Path, target: Path) -> None:
    """Copy a SQLite file that other programs may be using into a new file that services accept as an upload.

    It is in WAL mode, with pages of 4096 bytes and without auto-vacuum. Raise `TransferError` if that is not possible.
    """
    try:
        check_header(source)
        with closing(open_untrusted(source)) as original:
            original.set_busy_timeout(BUSY_TIMEOUT)
            snapshot(original, target, lambda: False)
        with closing(open_untrusted(target)) as copy:
            convert(copy)
    except Refused as refused:
        raise TransferError(f"{source}: {refused.message}") from None
    except OSError as error:
        raise TransferError(f"cannot read {source}: {error.strerror}") from None
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise TransferError(f"{source}: the database is damaged: {error}") from None
    except apsw.BusyError:
        raise TransferError(
            f"another program is writing to {source}", hint="try again when the other program has finished"
        ) from None
    except apsw.Error as error:
        if isinstance(error, apsw.SQLError) and (foreign := foreign_name(error)):
            hint = f"in the program that has {foreign.name}, run PRAGMA page_size = {PAGE_SIZE}; VACUUM"
            raise TransferError(f"{source}: {describe(error)}", hint=hint) from None
        raise TransferError(f"{source}: {error}") from None
