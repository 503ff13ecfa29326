"""SQL from a file."""

from __future__ import annotations

from pathlib import Path

from IPython.core.error import UsageError


def read(path: str) -> str:
    """Give the text of a UTF-8 file, with or without a byte order mark; UsageError if there is none."""
    file = Path(path).expanduser()
    try:
        return file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path} is not UTF-8: byte {error.object[error.start]:#04x} in line {line}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{path} cannot be read: {why}") from None
