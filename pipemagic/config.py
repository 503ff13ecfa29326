"""Settings files of users and projects, and private files and folders."""

from __future__ import annotations

import os
import stat
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pipemagic.errors import ServiceError, SessionError

if TYPE_CHECKING:
    from filelock import FileLock

CONFIG_VARIABLE = "PIPEMAGIC_CONFIG"
PROJECT_FILE = "pyproject.toml"


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the user's settings: ``PIPEMAGIC_CONFIG``, or the platform's folder."""
    if named := environ.get(CONFIG_VARIABLE):
        return Path(named).expanduser().absolute()
    import platformdirs

    return platformdirs.user_config_path("pipemagic", appauthor=False)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file, {} if it does not exist; raise SessionError if it cannot be read."""
    try:
        return tomllib.loads(_read_regular_file(path).decode("utf-8-sig"))  # some editors write a BOM
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, RecursionError) as error:
        # Not the error itself: that of a decoder contains bytes of the file.
        if isinstance(error, tomllib.TOMLDecodeError):
            where = str(error)
        else:
            where = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "a value is too long or too deep"
        raise SessionError(
            f"{path} is not valid TOML: {where}", hint="correct the file; its settings are not used"
        ) from None
    except OSError as error:
        raise SessionError(f"cannot read {path}: {error.strerror}") from None


def open_without_waiting(path: Path) -> BinaryIO:
    """Open a file for reading bytes without waiting for the writer of a named pipe."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    return open(path, "rb", opener=opener)


def _read_regular_file(path: Path) -> bytes:
    """Return the bytes of a regular file; a cloned project may have a link to an endless device."""
    with open_without_waiting(path) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SessionError(f"{path} is not a file", hint="replace or remove it")
        return file.read()


def project_settings(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the nearest pyproject.toml with a ``[tool.pipemagic]`` table, from a folder upward, and that table.

    The table is empty if no file has one. Raise SessionError if a pyproject.toml on the way cannot be read.
    """
    for above in (folder, *folder.parents):
        path = above / PROJECT_FILE
        tool = read_toml(path).get("tool", {})
        if isinstance(tool, dict) and "pipemagic" in tool:
            table = tool["pipemagic"]
            if not isinstance(table, dict):
                raise SessionError(f"{path}: tool.pipemagic is not a table", hint="write [tool.pipemagic]")
            return path, table
    return folder / PROJECT_FILE, {}


def make_config_folder(folder: Path) -> None:
    """Create or check the folder of the user's settings, like `make_private_folder`."""
    make_private_folder(folder, "the folder for settings", "name another one with PIPEMAGIC_CONFIG")


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
        raise unusable_folder(f"cannot use {what} {folder}: {error.strerror}", hint) from None
    if status.st_mode & stat.S_ISVTX and status.st_mode & stat.S_IWOTH:  # such as /tmp
        raise unusable_folder(f"{what} {folder} is shared by all users", hint)
    check_owner(status, f"{what} {folder}", hint)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise unusable_folder(f"other users can write to {what} {folder}", f"run: chmod 700 '{folder}'; or {hint}")
    for path in content:  # links, too: a log or a lock would be written to their targets
        with suppress(FileNotFoundError):
            check_owner(path.lstat(), f"{path}", hint)


def check_owner(status: os.stat_result, what: str, hint: str) -> None:
    """Raise `ServiceError` if a file or folder belongs to another user, except root."""
    if sys.platform != "win32" and status.st_uid not in (os.getuid(), 0):
        raise unusable_folder(f"{what} belongs to another user", hint)


def unusable_folder(message: str, hint: str) -> ServiceError:
    """Return the error for a folder that cannot be used."""
    return ServiceError(message, hint=hint, code="DATA_FOLDER")


def private_lock(path: Path) -> FileLock:
    """Return a lock on a file (mode 0600): every user who can open the file can hold the lock.

    Its ``acquire`` raises TimeoutError after a timeout.
    """
    from filelock import FileLock

    if sys.platform != "win32":
        with suppress(OSError):  # there is none yet
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):  # an earlier version made it
                path.chmod(0o600)
    return FileLock(path, mode=0o600)


def write_private(path: Path, data: bytes) -> None:
    """Write a file (mode 0600) atomically: after a crash it has the old content or the new one."""
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
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
    """Make a rename durable, which is neither possible nor necessary on Windows."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
