"""`pipemagic doctor NOTEBOOK...` prints masked secrets, and works as a hook of pre-commit."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.usefixtures("own_folder")  # no command here needs a service

ROOT = Path(__file__).parents[2]
TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJhIjoicnciLCJpYXQiOjF9.c2lnbmF0dXJlLW9mLWl0"


@pytest.fixture
def notebook(tmp_path):
    def notebook(source, name="n.ipynb"):
        path = tmp_path / name
        path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": source, "outputs": []}], "metadata": {}}))
        return str(path)

    return notebook


def test_findings_are_printed_masked(run, notebook):
    path = notebook(f"connect('libsql://warehouse:8080', '{TOKEN}')")
    code, out, err = run("doctor", path)
    assert code == 1
    assert out.splitlines() == [f"{path}:1:source: token (JWT) eyJh***", f"{path}:1:source: private host wa***"]
    assert "--allow REGEX" in err
    assert TOKEN[:8] not in out + err


def test_a_clean_notebook_has_no_output(run, notebook):
    assert run("doctor", notebook("%pipedb connect")) == (0, "", "")


def test_a_file_that_cannot_be_read(run, notebook, tmp_path):
    code, out, err = run("doctor", str(tmp_path / "none.ipynb"), notebook("x"))
    assert (code, out) == (2, "")
    assert "none.ipynb cannot be read: No such file" in err
    assert run("doctor", str(tmp_path / "none.ipynb"), notebook(TOKEN))[0] == 1


def test_allowed_findings(run, notebook):
    path = notebook("http://warehouse:8080 http://other/")
    assert run("doctor", "--allow", "ware.*", path)[1].count("\n") == 1
    assert run("doctor", "--allow", "ware.*", "--allow=other", path)[0] == 0
    assert run("doctor", "--allow", "ware", path)[0] == 1  # only as a whole
    code, _, err = run("doctor", "--allow", "(", path)
    assert (code, "regular expression" in err) == (1, True)


def test_as_json(run, notebook):
    path = notebook(TOKEN)
    code, out, _ = run("doctor", "--json", path)
    assert code == 1
    assert json.loads(out) == [
        {"path": path, "cell": "1", "where": "source", "kind": "token (JWT)", "found": "eyJh***"}
    ]


def test_the_notebooks_of_this_repository_are_clean(run):
    assert run("doctor", str(ROOT / "notebooks")) == (0, "", "")


def test_the_hook_of_pre_commit_runs_with_file_names(notebook):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["id"] == "pipemagic-doctor"
    assert hook["language"] == "python"
    assert hook["types_or"] == ["jupyter"]
    command, *arguments = shlex.split(hook["entry"])
    assert command == "pipemagic"  # the script of pyproject.toml, which may not be installed here
    for path, code in ((notebook("%sql SELECT 1"), 0), (notebook(TOKEN, "bad.ipynb"), 1)):
        done = subprocess.run(
            [sys.executable, "-m", "pipemagic", *arguments, path],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert (f"{path}:1:source: token" in done.stdout) is bool(code)
