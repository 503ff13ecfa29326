"""The files and paths that the service shares with its clients, and how private files and folders are written."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from contextlib import closing, suppress
from pathlib import Path

from pipemagic.errors import ServiceError

# In the data folder.
RUNTIME_FILE = "service.json"  # url, port, pid, host, version, organization (and public_url) of the running service
LOCK_FILE = "service.lock"  # held as long as the service runs
PROBE_LOCK_FILE = "probe.lock"  # held while a process checks whether the service runs
START_LOCK_FILE = "start.lock"  # held while a process starts the service
LOG_FILE = "service.log"
PORT_FILE = "port"  # of the last start
KEY_FILE = "signing-key.pem"
PLATFORM_TOKEN_FILE = "platform-token"
CATALOG_FILE = "catalog.sqlite"
DATABASES_FOLDER = "databases"
PRIMARY_FILE = "primary.sqlite"  # in the folder of a database
UNFINISHED_FILE = "awaits-upload"  # in the folder of a database that is being created with a file, or awaits its file

# At the service's own address.
LEASE_PATH = "/pipemagic/lease"
STOP_PATH = "/pipemagic/stop"
METRICS_PATH = "/metrics"

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private_folder(
    folder: Path, what: str = "the data folder", hint: str = "name another one with PIPEMAGIC_DATA or --data"
) -> None:
    """Create the folder (mode 0700), or check that no other user can write to an existing one or owns a file in it.

    Raise `ServiceError` if the folder cannot be used. The mode of an existing folder is not changed, and other users
    may list its files: the files themselves are private. On Windows, access follows from the parent folder.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sys.platform == "win32":
            return
        status, content = folder.stat(), list(folder.iterdir())
    except OSError as error:
        raise _unusable(f"{what} {folder} cannot be used: {error.strerror}", hint) from None
    if status.st_mode & stat.S_ISVTX and status.st_mode & stat.S_IWOTH:  # such as /tmp
        raise _unusable(f"{what} {folder} is shared by all users", hint)
    _check_owner(status, f"{what} {folder}", hint)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _unusable(f"other users can write to {what} {folder}", f"run: chmod 700 '{folder}'; or {hint}")
    for path in content:  # links, too: a log or a lock would be written to the file that they lead to
        with suppress(FileNotFoundError):
            _check_owner(path.lstat(), f"{path}", hint)


def check_data_folder(folder: Path) -> None:
    """Raise `ServiceError` if other users have access to the files of a data folder, or if its catalog is missing."""
    catalog, databases = folder / CATALOG_FILE, folder / DATABASES_FOLDER
    if sys.platform != "win32":
        for path in (catalog, databases, folder / KEY_FILE, folder / PLATFORM_TOKEN_FILE):
            _check_access(path)
    finished = (path for path in databases.glob(f"*/{PRIMARY_FILE}") if not path.with_name(UNFINISHED_FILE).exists())
    if any(finished) and not _lists_databases(catalog):
        raise _unusable(
            f"{catalog} is missing or lists no databases, but there are databases in {databases}",
            f"restore {CATALOG_FILE} from a backup, or name another folder with --data",
        )


def _check_access(path: Path) -> None:
    """Raise `ServiceError` if a file of a data folder was made by another user, or if other users can open it."""
    with suppress(FileNotFoundError):
        status = path.stat()
        _check_owner(status, f"{path}", "name another folder with PIPEMAGIC_DATA or --data")
        if status.st_mode & _OTHERS and path.parent.stat().st_mode & _OTHERS:
            raise _unusable(f"other users have access to {path}", f"run: chmod 700 '{path.parent}'")


def _lists_databases(catalog: Path) -> bool:
    """Return True if a catalog has databases, or deleted ones whose files remain, or if it cannot be read."""
    import apsw  # clients import this module, too

    try:
        with closing(apsw.Connection(str(catalog), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            if not connection.pragma("user_version"):  # it has no tables
                return False
            rows = "SELECT 1 FROM databases UNION ALL SELECT 1 FROM deleted_databases"
            return bool(connection.execute(f"SELECT EXISTS ({rows})").get)
    except apsw.Error:  # an existing one is damaged, or of another version: the catalog itself reports that
        return catalog.exists()


def _check_owner(status: os.stat_result, what: str, hint: str) -> None:
    """Raise `ServiceError` if a file or folder belongs to another user, except root."""
    if sys.platform != "win32" and status.st_uid not in (os.getuid(), 0):
        raise _unusable(f"{what} belongs to another user", hint)


def _unusable(message: str, hint: str) -> ServiceError:
    return ServiceError(message, hint=hint, code="DATA_FOLDER")


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
