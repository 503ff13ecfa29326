"""What a release contains beside the code: its versions, the changes, the bill of materials and the licences."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipemagic.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SBOM = json.loads((ROOT / "licenses" / "sbom.cdx.json").read_text("utf-8"))
COMPONENTS = {canonicalize_name(component["name"]): component for component in SBOM["components"]}
LICENCES = (ROOT / "licenses" / "dependencies.md").read_text("utf-8")
CHANGES = (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_newest_changes_are_those_of_this_version_and_fit_into_80_lines():
    newest = CHANGES.partition("\n## ")[2].partition("\n## ")[0]
    assert re.match(rf"{re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)\n", newest)
    assert len(newest.rstrip("\n").splitlines()) <= 80


def test_outputs_of_notebooks_and_pages_show_this_version():
    """The comparison by nbval leaves versions out."""
    paths = [path for folder in ("notebooks", "solutions", "docs") for path in (ROOT / folder).rglob("*.*")]
    texts = [path.read_text("utf-8") for path in paths if path.suffix in (".ipynb", ".md")]
    shown = {version for text in texts for version in re.findall(r"Server: pipemagic (\S+)", text)}
    assert shown <= {__version__, "VERSION"}


def test_the_version_of_the_citation():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_the_bill_of_materials_names_this_version_and_each_required_package():
    assert SBOM["bomFormat"] == "CycloneDX"
    assert (SBOM["metadata"]["component"]["name"], SBOM["metadata"]["component"]["version"]) == (
        "pipemagic",
        __version__,
    )
    for requirement in map(Requirement, PROJECT["dependencies"]):
        if requirement.marker is None:
            component = COMPONENTS[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(component["version"]), requirement
            assert component["purl"].startswith("pkg:pypi/")


def test_a_licence_is_listed_for_each_package_of_the_bill_and_of_the_extras():
    rows = {
        canonicalize_name(name): text for name, text in re.findall(r"^\| ([\w.-]+) \| .*? \| (.*?) \| ", LICENCES, re.M)
    }
    extras = {
        name: texts for name, texts in PROJECT["optional-dependencies"].items() if name not in ("test", "docs", "dev")
    }
    optional = {canonicalize_name(Requirement(text).name) for texts in extras.values() for text in texts} - {
        "pipemagic"
    }
    assert set(COMPONENTS) | optional <= set(rows)
    assert [name for name in rows if not rows[name]] == []
    copyleft = {name for name, text in rows.items() if re.search(r"\bA?GPL", text)}
    assert copyleft == set()


def test_the_wheel_carries_the_bill():
    """`.ci/build` compares the files of a built wheel."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["sbom-files"] == ["licenses/sbom.cdx.json"]
