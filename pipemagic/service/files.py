"""Small files that only their owner may read, written whole or not at all."""

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
    """Create the folder if needed and shut everybody else out of it; `ServiceError` if that is not possible."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sys.platform != "win32":
            if folder.stat().st_mode & stat.S_ISVTX:  # /tmp and its like: shutting it would stop everybody else
                raise ServiceError(f"{what} {folder} is one that all share", hint=hint, code="DATA_FOLDER")
            folder.chmod(0o700)  # also one that existed: what lies in it is nobody else's
    except OSError as error:
        raise ServiceError(
            f"{what} {folder} cannot be used: {error.strerror}", hint=hint, code="DATA_FOLDER",
        ) from None  # fmt: skip


def write_private(path: Path, data: bytes) -> None:
    """Write a file (mode 0600) so that after a crash there is the old content or the new one."""
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
    """Make a rename durable. Windows cannot open folders and needs none of it."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
