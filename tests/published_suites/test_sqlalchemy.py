"""SQLAlchemy's suite for dialects on ours, beside its own pysqlite with the same requirements."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from published_suites import FIGURES, Outcomes

import pipemagic

HERE = Path(__file__).parent
PACKAGES = [Path(pipemagic.__file__).parents[1], HERE.parent / "helpers"]

TESTS = """
from sqlalchemy.testing import suite
from sqlalchemy.testing.suite import *


class ServerSideCursorsTest(suite.ServerSideCursorsTest):
    def _is_server_side(self, cursor):  # knows only the drivers of SQLAlchemy
        return cursor._stream
"""
SETTINGS = """
[sqla_testing]
requirement_cls = sqlalchemy_plugin:Requirements
profile_file = profiles.txt
"""
OPTIONS = ["-q", "--tb=short", "--noconftest", "--maxfail=5000", "-p", "sqlalchemy_plugin"]
OPTIONS += [
    word for name in ("cacheprovider", "xdist", "nbval", "nbmake", "schemathesis") for word in ("-p", f"no:{name}")
]

MISSING = {
    "service": {},
    "sqld": {
        "LikeFunctionsTest.*regexp_match*": "it has no function REGEXP",
        "NumericTest.test_infinity_floats": "it sends null for infinity",
        "TableViaSelectTest.test_without_metadata[[]use_temp*": "it has no temporary tables",
    },
}
"""The tests that pysqlite passes and the dialect does not, by server, with the reason."""


class Suite:
    """The suite of one version of SQLAlchemy, unpacked into a folder."""

    def __init__(self, archive: Path, folder: Path) -> None:
        with tarfile.open(archive) as file:
            names = [name for name in file.getnames() if re.match(r"[^/]+/(lib/|test/requirements\.py)", name)]
            file.extractall(folder, map(file.getmember, names), filter="data")
        (self._sources,) = folder.iterdir()
        self.name = self._sources.name
        self.pysqlite = self.run(folder / "pysqlite", "sqlite:///test.db")

    def run(self, folder: Path, url: str, token: str = "") -> Outcomes:
        """Run it on a database, in a new folder."""
        folder.mkdir()
        for name, text in {"test_suite.py": TESTS, "setup.cfg": SETTINGS, "pytest.ini": "[pytest]\n"}.items():
            (folder / name).write_text(text)
        path = os.pathsep.join(map(str, [self._sources / "lib", self._sources / "test", *PACKAGES]))
        report = folder / "report.xml"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, "-c", "pytest.ini", "--dburi", url, f"--junitxml={report}"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "PIPEMAGIC_TOKEN": token},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert report.exists(), done.stdout + done.stderr
        return _read(report)


def _read(report: Path) -> Outcomes:
    """Read a report; names of classes lose the version of SQLite, which differs."""
    outcomes = Outcomes()
    for case in ElementTree.parse(report).iter("testcase"):
        kind = re.sub(r".*\.(\w+)_sqlite\+pysqlite_[\d_]+", r"\1", case.attrib["classname"])
        name = f"{kind}.{case.attrib['name']}"
        kinds = {part.tag: part.text or "" for part in case}
        if errors := kinds.keys() & {"failure", "error"}:
            outcomes.failed[name] = kinds[errors.pop()]
        elif "skipped" in kinds:
            outcomes.skipped[name] = kinds["skipped"]
        else:
            outcomes.passed.add(name)
    return outcomes


@pytest.fixture(scope="module")
def suite_of(download, tmp_path_factory) -> Callable[[str], Suite]:
    """Return a function that returns the suite of a series of versions."""

    @cache
    def suite_of(series: str) -> Suite:
        (archive,) = download(HERE / f"sqlalchemy-{series}.txt").glob("*.tar.gz")
        return Suite(archive, tmp_path_factory.mktemp("sqlalchemy"))

    return suite_of


@pytest.mark.parametrize(
    ("series", "server"), [("2.1", "service"), ("2.1", "sqld"), ("2.0", "service")], indirect=["server"]
)  # fmt: skip
def test_dialect(series, suite_of, server, tmp_path, record_property):
    suite = suite_of(series)
    url, token = server.create()
    pysqlite, ours = suite.pysqlite, suite.run(tmp_path / "run", url.replace("http://", "sqlite+pipemagic://"), token)
    counts = [f"{len(each.passed)} of {len(each.passed) + len(each.failed)}" for each in (ours, pysqlite)]
    record_property(FIGURES, f"{suite.name} on {server.name}: {counts[0]} active tests pass; {counts[1]} with pysqlite")
    assert len(pysqlite.passed) > 1000
    reasons = MISSING[server.name]
    missing = pysqlite.passed - ours.passed
    known = {test: key for test in missing for key in reasons if fnmatchcase(test, key)}
    assert {test: ours.failed.get(test, ours.skipped.get(test)) for test in missing - known.keys()} == {}
    assert reasons.keys() - known.values() == set()
