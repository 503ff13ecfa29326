"""Each test of attacks, faults and security names a promise, and each promise has tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from promises import Promise

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "analysts" / "limits.md"
PYPROJECT = TESTS.parent / "pyproject.toml"
NO_PROMISE = {"none": "", "empty": "@pytest.mark.promise()", "text": "@pytest.mark.promise('memory')"}


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=TESTS.parent, check=False)


def test_every_promise_has_tests():
    listed = run(TESTS / "helpers" / "tests_by_promise.py")
    assert listed.returncode == 0, listed.stdout + listed.stderr
    lines = listed.stdout.splitlines()
    assert [line for line in lines if line[0] != " "] == [f"{promise.name}: {promise.value}" for promise in Promise]
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        assert line.startswith(" ") or after.startswith("    tests/"), f"{line}: no test"


def test_a_test_that_names_no_promise_is_an_error_of_collection(tmp_path):
    (tmp_path / "conftest.py").write_text("from promises import pytest_generate_tests\n")
    for name, marker in NO_PROMISE.items():
        (tmp_path / f"test_{name}.py").write_text(f"import pytest\n{marker}\ndef test_new(): pass\n")
    options = ("-q", "-n0", "-p", "no:cacheprovider", "-c", PYPROJECT, "--rootdir", tmp_path)
    collected = run("-m", "pytest", *options, tmp_path)
    assert collected.returncode == pytest.ExitCode.INTERRUPTED, collected.stdout
    for name in NO_PROMISE:
        assert f"test_{name}.py::test_new names no promise: add @pytest.mark.promise" in collected.stdout


@pytest.mark.parametrize("promise", Promise)
def test_the_page_on_limits_has_the_promise(promise):
    promises = PAGE.read_text("utf-8").partition("## What the service promises")[2].partition("\n## ")[0]
    assert promise.value in promises
