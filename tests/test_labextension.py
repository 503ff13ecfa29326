"""The committed lab extension: its files agree, and the package contains it."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pipemagic

ROOT = Path(__file__).parent.parent
EXTENSION = ROOT / "labextension"


def test_it_is_as_the_script_that_updates_it_writes_it():
    """Its options are those of %sql, and the name of the script is that of its content."""
    update = ROOT / ".ci" / "update_labextension.py"
    for path, text in runpy.run_path(str(update))["updated"]().items():
        assert path.exists(), f"run python .ci/{update.name}"
        assert path.read_text("utf-8") == text


def test_the_script_knows_which_options_take_a_value():
    (script,) = EXTENSION.glob("static/*")
    (listed,) = re.findall(r"TAKES_VALUE = new Set\(\[(.*?)\]\)", script.read_text("utf-8"), re.DOTALL)
    flags = re.findall(r"'([^']+)'", listed)
    assert {"--on", "--out", "-o", "--limit"} <= set(flags)
    assert not {"--explain", "--quiet", "-q"} & set(flags)


def test_every_file_that_it_names_exists():
    """Paths begin at the root of the repository, those of package.json at the folder of the extension."""
    names = {
        name: path
        for path in [*EXTENSION.glob("*.json"), *EXTENSION.glob("static/*")]
        for name in re.findall(r"[\w./-]+\.(?:cfg|css|js|json|md|py|svg|toml|txt|whl)\b", path.read_text("utf-8"))
    }
    assert {"pipemagic/notebook/sql_options.py", ".ci/update_labextension.py"} <= set(names)
    missing = [name for name, path in names.items() if not (ROOT / name).is_file() and not (EXTENSION / name).is_file()]
    assert missing == []


def test_it_is_the_extension_of_this_package():
    package = json.loads((EXTENSION / "package.json").read_text("utf-8"))
    assert (package["name"], package["version"]) == ("pipemagic-sql", pipemagic.__version__)
    assert json.loads((EXTENSION / "install.json").read_text("utf-8"))["packageName"] == "pipemagic"


def test_the_wheel_puts_it_where_jupyter_looks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert shared == {"labextension": "share/jupyter/labextensions/pipemagic-sql"}


def test_jupyterlab_loads_the_installed_extension(tmp_path):
    """A normal and an editable installation both put it beside Jupyter's own files."""
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(tmp_path), "JUPYTER_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "jupyter", "labextension", "list"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    listed = re.sub(r"\x1b\[\d*m", "", run.stdout + run.stderr)
    (line,) = [line.strip() for line in listed.splitlines() if "pipemagic-sql" in line]
    assert line == f"pipemagic-sql v{pipemagic.__version__} enabled OK (python, pipemagic)"
