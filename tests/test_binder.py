"""The Binder folder agrees with the project; `.ci/binder` builds it and opens the notebook in it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = [
    line.strip()
    for line in (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    if line.strip() and not line.startswith("#")
]
PINNED = {canonicalize_name(one.name): one for one in (Requirement(line) for line in LINES if line != ".")}
WANTED = [Requirement(text) for text in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["lab"]]


def test_the_project_itself_is_installed_last():
    # With this folder, Binder does not install the project at the root automatically.
    assert LINES[-1] == "."


@pytest.mark.parametrize("wanted", WANTED, ids=lambda one: one.name)
def test_packages_of_the_quick_start_are_pinned_to_allowed_versions(wanted):
    pin = PINNED[canonicalize_name(wanted.name)]
    (version,) = [one.version for one in pin.specifier if one.operator == "=="]
    assert wanted.specifier.contains(version)


def test_nothing_else_is_pinned():
    assert PINNED.keys() == {canonicalize_name(one.name) for one in WANTED}


def test_the_python_of_binder_is_one_that_the_project_supports():
    runtime = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert SpecifierSet(PROJECT["requires-python"]).contains(re.fullmatch(r"python-(3\.\d+)", runtime)[1])


def test_no_other_folder_or_file_takes_precedence():
    assert not (ROOT / ".binder").exists()
    assert not (ROOT / "binder" / "Dockerfile").exists()
    assert not (ROOT / "binder" / "environment.yml").exists()


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_a_script_of_binder_can_be_run(name):
    script = ROOT / "binder" / name
    if script.exists():
        assert script.stat().st_mode & 0o111
        assert name != "start" or 'exec "$@"' in script.read_text(encoding="utf-8")
