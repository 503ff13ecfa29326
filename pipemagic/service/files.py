"""The files and paths that the service shares with its clients, its proof, and the check of a data folder."""

from __future__ import annotations

import hmac
import stat
import sys
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryFile

from pipemagic.config import check_owner, unusable_folder

# In the data folder.
RUNTIME_FILE = "service.json"  # url, port, pid, host, version, organization (and public_url) of the running service
LOCK_FILE = "service.lock"  # held as long as the service runs
PROBE_LOCK_FILE = "probe.lock"  # held while a process checks whether the service runs
START_LOCK_FILE = "start.lock"  # held while a process starts the service
LOCK_FILES = (LOCK_FILE, PROBE_LOCK_FILE, START_LOCK_FILE)
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
PROOF_PATH = "/pipemagic/proof"

SPACE_TO_OPEN = 128 * 1024
"""Bytes that must be free on a disk that was full before its files are opened for writing; SQLite needs a quarter."""

_IOERR_SHMSIZE = 4874  # https://sqlite.org/rescode.html#ioerr_shmsize
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def lacks_space_to_open(error: Exception) -> bool:
    """Return True for SQLite's error if the disk has no space for the index that connections to a WAL share."""
    return getattr(error, "extendedresult", 0) == _IOERR_SHMSIZE


def has_space(folder: Path) -> bool:
    """Return True if a file can be written into a folder: only this shows whether a quota is used up, too."""
    try:
        with TemporaryFile(dir=folder, buffering=0) as file:
            return file.write(bytes(SPACE_TO_OPEN)) == SPACE_TO_OPEN
    except OSError:
        return False


def proof(folder: Path, url: str, nonce: str) -> bytes:
    """Return the proof that the service at ``url`` knows the platform token of a data folder, without the token.

    A client sends a new random ``nonce`` on each connection, before a token. The URL makes the proof worthless for a
    process at another port that forwards the nonce to the service. Raise OSError if the token cannot be read.
    """
    path = folder / PLATFORM_TOKEN_FILE
    if not (token := path.read_bytes().strip()):
        raise OSError(f"{path} is empty")
    return hmac.digest(token, f"pipemagic service\n{url}\n{nonce}".encode(), "sha256").hex().encode()


def check_data_folder(folder: Path) -> None:
    """Raise `ServiceError` if other users have access to the files of a data folder, or if its catalog is missing."""
    check_lock_files(folder)
    catalog, databases = folder / CATALOG_FILE, folder / DATABASES_FOLDER
    if sys.platform != "win32":
        for path in (catalog, databases, folder / KEY_FILE, folder / PLATFORM_TOKEN_FILE):
            _check_access(path)
    finished = (path for path in databases.glob(f"*/{PRIMARY_FILE}") if not path.with_name(UNFINISHED_FILE).exists())
    if any(finished) and not _lists_databases(catalog):
        raise unusable_folder(
            f"{catalog} is missing or lists no databases, but there are databases in {databases}",
            f"restore {CATALOG_FILE} from a backup, or name another folder with --data",
        )


def check_lock_files(folder: Path) -> None:
    """Raise `ServiceError` if other users can open a lock file, and so pretend that the service is running."""
    if sys.platform != "win32":
        paths = [path for path in (folder / name for name in LOCK_FILES) if _is_accessible(path)]
        if paths:
            names = " ".join(f"'{path}'" for path in paths)
            raise unusable_folder(f"other users can hold the lock {paths[0]}", f"run: chmod 600 {names}")


def _check_access(path: Path) -> None:
    """Raise `ServiceError` if a file of a data folder was made by another user, or if other users can open it."""
    with suppress(FileNotFoundError):
        check_owner(path.stat(), f"{path}", "name another folder with PIPEMAGIC_DATA or --data")
    if _is_accessible(path):
        raise unusable_folder(f"other users have access to {path}", f"run: chmod 700 '{path.parent}'")


def _is_accessible(path: Path) -> bool:
    """Return True if the modes of a file and of its folder give other users access."""
    try:
        return bool(path.stat().st_mode & _OTHERS and path.parent.stat().st_mode & _OTHERS)
    except FileNotFoundError:
        return False


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
