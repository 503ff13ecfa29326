"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipemagic.errors import SessionError


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """Give another name to write to, which becomes ``path`` when the block ends well and is removed when it does not.

    SessionError if ``path`` exists, unless ``force``, also if it came into being meanwhile.
    """
    if path.is_dir():
        raise SessionError(f"{path} is a folder", hint="name a file in it")
    if path.exists() and not force:
        raise _taken(path)
    if not path.parent.is_dir():
        raise SessionError(f"there is no folder {path.parent}", hint="make it first")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield draft
        _sync(draft)
        if force:
            os.replace(draft, path)
        else:
            _rename(draft, path)
    except OSError as error:
        raise SessionError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        for left in (draft, draft.with_name(draft.name + "-journal"), draft.with_name(draft.name + "-wal")):
            with suppress(FileNotFoundError):
                left.unlink()


def _rename(draft: Path, path: Path) -> None:
    """Rename without overwriting: where the file system cannot do it in one step, as well as it can be done."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:
        if path.exists():
            raise _taken(path) from None
        os.replace(draft, path)


def _taken(path: Path) -> SessionError:
    return SessionError(f"there is a file {path} already", hint="choose another name, or overwrite it with --force")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
