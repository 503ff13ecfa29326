"""What the package, its release and the repository's host read: metadata, workflows, the citation."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import pipemagic

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = re.findall(r"Python :: (3\.\d+)\n", "\n".join([*PROJECT["classifiers"], ""]))


@pytest.mark.parametrize("page", ["README.md", "docs/analysts/start.md"])
def test_a_page_names_the_pythons_of_the_classifiers(page):
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in (ROOT / page).read_text("utf-8")


def test_no_file_has_a_placeholder_for_the_address_of_the_repository():
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a checkout")
    placeholder = "/".join(["OWNER", "REPOSITORY"])
    search = subprocess.run(
        ["git", "grep", "--files-with-matches", placeholder], cwd=ROOT, capture_output=True, text=True
    )
    assert (search.stdout, search.stderr) == ("", "")


def test_the_citation_agrees_with_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}
    assert citation["authors"] == PROJECT["authors"]
    assert (citation["version"], citation["license"]) == (pipemagic.__version__, PROJECT["license"])


def test_only_the_job_that_publishes_may_and_its_actions_are_pinned():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {}
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "build": {"contents": "read"},
        "publish": {"id-token": "write"},
    }
    actions = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action)] == []
