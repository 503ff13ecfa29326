"""Where users and projects settle things in files: the user's own folder, and the pyproject.toml of a project."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pipemagic.errors import SessionError

CONFIG_VARIABLE = "PIPEMAGIC_CONFIG"
PROJECT_FILE = "pyproject.toml"


def config_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Give the folder of the user's files: ``PIPEMAGIC_CONFIG``, or the platform's place for a user's settings."""
    if named := environ.get(CONFIG_VARIABLE):
        return Path(named).expanduser().absolute()
    import platformdirs

    return platformdirs.user_config_path("pipemagic", appauthor=False)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, an empty one if there is none; SessionError if it cannot be read."""
    try:
        return tomllib.loads(_bytes(path).decode("utf-8-sig"))  # some editors write a BOM
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (ValueError, RecursionError) as error:
        # Not `error` as it stands: that of a decoder repeats bytes of the file.
        if isinstance(error, tomllib.TOMLDecodeError):
            where = str(error)
        else:
            where = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "it holds what is too long or deep"
        raise SessionError(f"{path} is not TOML: {where}", hint="mend the file; nothing of it is used") from None
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}") from None


def open_at_once(path: Path) -> BinaryIO:
    """Open a file to read its bytes, without waiting: a named pipe would have it wait for a writer."""

    def opened(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    return open(path, "rb", opener=opened)


def _bytes(path: Path) -> bytes:
    """Read a file that is one: a cloned project may have a link to a device there, which never ends."""
    with open_at_once(path) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SessionError(f"{path} is no file", hint="put a file there, or nothing")
        return file.read()


def project_of(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Give the nearest pyproject.toml with a ``[tool.pipemagic]``, from a folder upward, and what is in that table.

    Without one it is an empty table. SessionError if a pyproject.toml on the way cannot be read.
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
