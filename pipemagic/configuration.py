"""Where users and projects settle things in files: the user's own folder, and the pyproject.toml of a project."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors write a BOM
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # Not `error` as it stands: that of a decoder repeats bytes of the file.
        where = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "it is not UTF-8"
        raise SessionError(f"{path} is not TOML: {where}", hint="mend the file; nothing of it is used") from None
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}") from None


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
