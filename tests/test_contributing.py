"""Every path in CONTRIBUTING's map exists."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

from pipemagic.client.transaction import Reason, Transaction

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (?P<subject>[^|]+) \| (?P<edit>[^|]+) \| (?P<test>[^|]+) \|$", re.MULTILINE)
PATH = re.compile(r"`([\w./-]+[/.][\w./-]*)`")


FROM_ROOT = (
    "README.md",
    "docs",
    "benchmarks",
    "examples",
    "labextension",
    "tests",
    "notebooks",
    "solutions",
    "binder",
    ".ci",
)


def section(heading: str, end: str = "\n## ") -> str:
    """Return the text of CONTRIBUTING below a heading."""
    return (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition(f"{heading}\n")[2].partition(end)[0]


def paths_in(cell: str, folder: str) -> list[str]:
    """Return the paths in a cell of a table, relative to the root of the repository."""
    paths = PATH.findall(cell)
    return [path if path.split("/")[0] in FROM_ROOT else f"{folder}/{path}" for path in paths]


def map_paths() -> list[str]:
    """Return the paths of CONTRIBUTING's map."""
    rows = ROW.finditer(section("## Map"))
    return [path for row in rows for path in (*paths_in(row["edit"], "pipemagic"), *paths_in(row["test"], "tests"))]


def test_the_calls_and_the_ends_of_a_transaction_exist():
    text = section("## How a cell runs")
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


def test_each_of_the_ten_changes_touches_at_most_four_files_of_the_package():
    _, *rows = ROW.finditer(section("### Ten changes"))
    assert len(rows) == 10
    for row in rows:
        files = [path for path in paths_in(row["edit"], "pipemagic") if path.startswith("pipemagic/")]
        assert len(files) <= 4, row["subject"]
        assert all((ROOT / path).is_file() for path in files), row["subject"]
