"""Metadata of distributions, which makes their entry points known without an installation."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def write_metadata(folder: Path, name: str, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Write the metadata of a distribution with groups of entry points into a folder of the module search path."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    sections = [
        "\n".join([f"[{group}]", *(f"{entry} = {target}" for entry, target in entries.items())])
        for group, entries in groups.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join([*sections, ""]))


def search_path(folder: Path) -> str:
    """Return a PYTHONPATH with this checkout and its entry points; the metadata is written into a new folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    write_metadata(folder, "pipemagic", project["entry-points"])
    return os.pathsep.join([str(ROOT), str(folder)])
