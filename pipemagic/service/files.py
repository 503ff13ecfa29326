"""Write small private files atomically."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

from pipemagic.errors import ServiceError


def make_private_folder(
    folder: Path, what: str = "the data folder", hint: str = "name another one with PIPEMAGIC_DATA or --data"
) -> None:
    """Create the folder if needed and make it private; raise `ServiceError` if that is not possible."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sys.platform != "win32":
            if folder.stat().st_mode & stat.S_ISVTX:  # such as /tmp: others need access
                raise ServiceError(f"{what} {folder} is one that all share", hint=hint, code="DATA_FOLDER")
            folder.chmod(0o700)  # also if it existed
    except OSError as error:
        raise ServiceError(
            f"{what} {folder} cannot be used: {error.strerror}", hint=hint, code="DATA_FOLDER",
        ) from None  # fmt: skip


def write_private(path: Path, data: bytes) -> None:
    """Write a file (mode 0600); after a crash it has the old content or the new one."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(FileNotFoundError):
            draft.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename durable. Windows cannot open folders and does not need this."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
