"""The groups of pyproject.toml (PEP 735) have the requirements of the extras of the same names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
OWN_EXTRAS = re.compile(r"pipemagic\[([\w,]+)\]")


def requirements_of_extra(name: str) -> set[str]:
    """Return the requirements of an extra and of the project's extras that it names."""
    requirements = set()
    for requirement in PROJECT["project"]["optional-dependencies"][name]:
        if own := OWN_EXTRAS.fullmatch(requirement):
            requirements.update(*map(requirements_of_extra, own[1].split(",")))
        else:
            requirements.add(requirement)
    return requirements


def requirements_of_group(name: str) -> set[str]:
    """Return the requirements of a group and of the groups that it includes."""
    requirements = set()
    for requirement in PROJECT["dependency-groups"][name]:
        if isinstance(requirement, dict):
            requirements |= requirements_of_group(requirement["include-group"])
        else:
            requirements.add(requirement)
    return requirements


@pytest.mark.parametrize("name", ["dev", "docs", "test"])
def test_a_group_has_the_requirements_of_the_extra(name):
    assert len(requirements_of_group(name)) > 5
    assert requirements_of_group(name) == requirements_of_extra(name)
