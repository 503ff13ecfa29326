"""Real disks that are full or read-only: mounts, where these are allowed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NoMounts(Exception):
    """This process may not mount file systems."""


def _run(*command: object) -> None:
    try:
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoMounts(str(error)) from None


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount an empty file system of that size; NoMounts if that is not allowed."""
    folder.mkdir()
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def disk_in_file(folder: Path, megabytes: int) -> Iterator[Path]:
    """Mount an empty ext4 in a file of that size, since a tmpfs is memory; NoMounts if that is not allowed."""
    image = folder.with_name(f"{folder.name}.image")
    with image.open("wb") as file:
        file.truncate(megabytes * 1024 * 1024)
    folder.mkdir()
    _run("mkfs.ext4", "-q", "-m", "0", image)
    _run("mount", "-o", "loop", image, folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only during a block; open files can still be written."""
    if os.geteuid() != 0:
        mode = folder.stat().st_mode
        folder.chmod(0o500)
        try:
            yield
        finally:
            folder.chmod(mode)
        return
    _run("mount", "--bind", folder, folder)
    try:
        _run("mount", "-o", "remount,ro,bind", folder)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Fill the disk; return the file to delete to free the space again."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                continue
    return filler
