"""Write the software bill of materials and the list of licences: ``python .ci/build_sbom.py``.

Both describe what the requirements of ``pyproject.toml`` are in an empty environment with this Python. The wheel
contains ``licenses/sbom.cdx.json`` (PEP 770, CycloneDX); people read ``licenses/dependencies.md``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from venv import EnvBuilder

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
SBOM, LIST = ROOT / "licenses" / "sbom.cdx.json", ROOT / "licenses" / "dependencies.md"
TOOL = "cyclonedx-bom>=7"
FOR_DEVELOPERS = {"test", "docs", "dev"}
HEAD = """\
# Licences of the dependencies

`pip install` of pipemagic installs the packages of the first table, and an extra those of the second one and what they
require. pipemagic has the MIT license and contains none of them. `.ci/build_sbom.py` writes this file and
`sbom.cdx.json`, which has the same with addresses for programs; the wheel contains it.
"""


def environment(folder: Path, *packages: str) -> Path:
    """Make an empty environment, install packages, and return its Python."""
    EnvBuilder(with_pip=True).create(folder)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def describe(python: Path, tool: Path) -> dict[str, Any]:
    """Return the CycloneDX description of an environment."""
    project = ROOT / "pyproject.toml"
    command = f"-m cyclonedx_py environment --output-reproducible --mc-type library --pyproject {project} {python}"
    return dict(json.loads(subprocess.run([tool, *command.split()], check=True, capture_output=True).stdout))


def licence(component: dict[str, Any]) -> str:
    """Return the licence of a component, as its metadata state it."""
    stated = [entry.get("expression") or entry["license"].get("id") or entry["license"].get("name", "")
              for entry in component.get("licenses", [])]  # fmt: skip
    short = [text.rpartition(" :: ")[2].strip().splitlines()[0] for text in stated if text]
    return short[0] if short else "see the package"


def rows(components: list[dict[str, Any]], names: Mapping[Any, str]) -> list[str]:
    """Return the rows of a table; ``names`` has the last column by the name of a package."""
    return [
        f"| {component['name']} | {component['version']} | {licence(component)} | {names[name]} |"
        for component in sorted(components, key=lambda component: canonicalize_name(component["name"]))
        if (name := canonicalize_name(component["name"])) in names
    ]


def main() -> None:
    """Write both files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = (ROOT / "pipemagic" / "version.py").read_text("utf-8").split('__version__ = "')[1].partition('"')[0]
    extras = {name: found for name, found in project["optional-dependencies"].items() if name not in FOR_DEVELOPERS}
    with TemporaryDirectory() as work:
        tool = environment(Path(work, "tool"), TOOL)
        sbom = describe(environment(Path(work, "required"), *project["dependencies"]), tool)
        texts = [text for found in extras.values() for text in found if not text.startswith("pipemagic[")]
        full = describe(environment(Path(work, "extras"), *texts), tool)
    sbom["components"] = [component for component in sbom["components"] if component["name"] != "pip"]
    sbom["dependencies"] = [entry for entry in sbom["dependencies"] if not entry["ref"].startswith("pip==")]
    sbom["metadata"]["component"]["version"] = version
    SBOM.parent.mkdir(exist_ok=True)
    SBOM.write_text(json.dumps(sbom, indent=1) + "\n", "utf-8")

    direct = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    required = {canonicalize_name(component["name"]) for component in sbom["components"]}
    needs = {name: "pipemagic" if name in direct else "other packages" for name in required}
    optional: dict[str, list[str]] = {}
    for extra, texts in extras.items():
        for requirement in map(Requirement, texts):
            name = canonicalize_name(requirement.name)
            if name != project["name"] and name not in required and extra not in optional.setdefault(name, []):
                optional[name].append(extra)
    head = ["| Package | Version | Licence | {} |", "|---|---|---|---|"]
    first = [head[0].format("Required by"), head[1], *rows(sbom["components"], needs)]
    second = [head[0].format("Extra"), head[1]]
    second += rows(full["components"], {name: ", ".join(found) for name, found in optional.items()})
    LIST.write_text("\n".join([HEAD, *first, "", *second]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
