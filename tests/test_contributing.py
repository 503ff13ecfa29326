"""Every path in CONTRIBUTING's map exists."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

from pipemagic.client.transaction import Reason, Transaction

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (?P<subject>[^|]+) \| (?P<edit>[^|]+) \| (?P<test>[^|]+) \|$", re.MULTILINE)
PATH = re.compile(r"`([\w./-]+[/.][\w./-]*)`")


FROM_ROOT = ("README.md", "docs", "benchmarks", "examples", "labextension", "tests", "notebooks", "binder", ".ci")


def map_paths() -> list[str]:
    """Return the paths of CONTRIBUTING's map, relative to the root of the repository."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Map")[2].partition("\n## ")[0]
    paths = []
    for row in ROW.finditer(text):
        for column, folder in (("edit", "pipemagic"), ("test", "tests")):
            for path in PATH.findall(row[column]):
                from_root = path.split("/")[0] in FROM_ROOT
                paths.append(path if from_root else f"{folder}/{path}")
    return paths


def test_the_calls_and_the_ends_of_a_transaction_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## How a cell runs")[2].partition("\n## ")[0]
    calls = re.findall(r"^\| `((?:notebook|session|client|http)\.[\w.]+)` \|", text, re.MULTILINE)
    assert len(calls) == 8
    assert all(callable(pkgutil.resolve_name(f"pipemagic.{call}")) for call in calls)
    ends = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| .* \| ([^|]*) ?\|$", text, re.MULTILINE)
    assert {name for names, _ in ends for name in re.findall(r"\w+", names)} <= {*vars(Transaction)}
    assert {name for _, names in ends for name in re.findall(r"\w+", names)} == {*Reason.__members__}


def test_every_path_of_the_map_exists():
    paths = map_paths()
    assert len(paths) > 100
    assert [path for path in paths if not (ROOT / path).exists()] == []
