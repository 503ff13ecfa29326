"""Environments with nbgrader and with otter-grader, and their commands. They use the pipemagic of this checkout."""

from __future__ import annotations

import os
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from client_packages import install_python
from distributions import search_path

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "tests" / "teaching" / "exercises"
COMMAND_TIMEOUT = 300  # seconds


@dataclass(frozen=True)
class Environment:
    """The commands of an environment. ``home`` is the home folder while they run."""

    commands: Path
    home: Path
    search_path: str

    def run(self, folder: Path, command: str, *arguments: str | Path) -> str:
        """Run a command in a folder, which must succeed, and return its output."""
        variables = {
            "PATH": f"{self.commands}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": self.search_path,
            "HOME": str(self.home), "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        done = subprocess.run(
            [self.commands / command, *arguments], cwd=folder, env={**os.environ, **variables},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_TIMEOUT,
        )  # fmt: skip
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"{command} {' '.join(map(str, arguments))}:\n{output}"
        return output


def install(name: str, config: pytest.Config, folder: Path) -> Environment:
    """Return the environment with the pins of ``name``.txt, which stays in pytest's cache; without one, in a folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    cache: pytest.Cache | None = getattr(config, "cache", None)
    python = install_python(
        cache.mkdir("graders") if cache else folder / "graders", PINS / f"{name}.txt", project["dependencies"]
    )
    home = folder / "home"
    home.mkdir()
    return Environment(python.parent, home, search_path(folder / "metadata"))
