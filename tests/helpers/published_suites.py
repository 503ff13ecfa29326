"""Run test suites that others wrote, and compare what passes with a list of the tests that do not, and why."""

from __future__ import annotations

import importlib.util
import tarfile
import unittest
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from types import ModuleType, TracebackType
from typing import Any

import pytest

FIGURES = "figures of the suites of others"
"""The property of a test in which it stores a line for the end of the run."""

ErrorInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


def module_in(archive: Path, name: str) -> ModuleType:
    """Import a module out of a source archive."""
    source = archive.with_name(f"{archive.name}.{name}.py")
    source.write_bytes(_member(archive, f"{name}.py"))
    spec = importlib.util.spec_from_file_location(f"{archive.name}.{name}", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _member(archive: Path, name: str) -> bytes:
    """Return the contents of the only file of that name in an archive."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as files:
            (path,) = (path for path in files.namelist() if PurePosixPath(path).name == name)
            return files.read(path)
    with tarfile.open(archive) as files:
        (member,) = (member for member in files.getmembers() if PurePosixPath(member.name).name == name)
        content = files.extractfile(member)
        assert content is not None
        return content.read()


@dataclass
class Outcomes:
    """What became of the tests of a suite, by their names: ``Class.method``."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """With the traceback; that of the first part of a test with subtests."""
    skipped: dict[str, str] = field(default_factory=dict)
    """With the reason of the suite."""

    @property
    def count(self) -> int:
        return len(self.passed) + len(self.failed) + len(self.skipped)

    @property
    def figure(self) -> str:
        return f"{len(self.passed)} of {self.count} tests pass"

    def add(self, others: Outcomes) -> None:
        """Add the outcomes of another suite."""
        self.passed |= others.passed
        self.failed |= others.failed
        self.skipped |= others.skipped

    def check(self, reasons: Mapping[str, str]) -> None:
        """Fail unless exactly the tests in a list did not pass.

        ``reasons`` has a reason for each of them, or for several by a pattern (``Class.*``).
        """
        missed = {**self.failed, **{name: f"skipped: {reason}" for name, reason in self.skipped.items()}}
        listed = {name for name in [*self.passed, *missed] if fits(name, reasons)}
        lines = [f"{name} does not pass:\n{missed[name]}" for name in sorted(missed.keys() - listed)]
        lines += [f"{name} passes and is in the list" for name in sorted(self.passed & listed)]
        if lines:
            pytest.fail("\n".join(lines), pytrace=False)

    def counts(self, reasons: Mapping[str, str]) -> list[str]:
        """Return a line with a number for each reason for which several tests do not pass, and one for the rest."""
        counts = Counter(
            next(reason for pattern, reason in reasons.items() if fits(name, [pattern]))
            for name in [*self.failed, *self.skipped]
        )
        several = {reason: count for reason, count in counts.most_common() if count > 1}
        if rest := len(counts) - len(several):
            several["the reasons are in the test"] = rest
        return [f"{count:4} do not: {reason}" for reason, count in several.items()]

    def unknown(self, reasons: Iterable[str]) -> list[str]:
        """Return the entries of a list that fit no test."""
        names = [*self.passed, *self.failed, *self.skipped]
        return [pattern for pattern in reasons if not any(fits(name, [pattern]) for name in names)]


class _Result(unittest.TestResult):
    """Sort the tests of a suite into `Outcomes`."""

    def __init__(self, after: Callable[[], None]) -> None:
        super().__init__()
        self.outcomes, self._after = Outcomes(), after

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 - names of unittest
        super().startTest(test)
        self.outcomes.passed.add(name_of(test))

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        self._after()

    def addError(self, test: unittest.TestCase, err: ErrorInfo) -> None:  # noqa: N802
        super().addError(test, err)
        self._fail(test, self.errors)

    def addFailure(self, test: unittest.TestCase, err: ErrorInfo) -> None:  # noqa: N802
        super().addFailure(test, err)
        self._fail(test, self.failures)

    def addSubTest(  # noqa: N802
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: ErrorInfo | None
    ) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._fail(test, self.failures if issubclass(err[0] or Exception, test.failureException) else self.errors)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        super().addSkip(test, reason)
        self.outcomes.passed.discard(name_of(test))
        self.outcomes.skipped.setdefault(name_of(test), reason)

    def _fail(self, test: unittest.TestCase, failures: list[tuple[Any, str]]) -> None:
        name = name_of(test)
        self.outcomes.passed.discard(name)
        self.outcomes.failed.setdefault(name, failures[-1][1])


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Return True if one of the patterns (``Class.*``) fits the name of a test."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def name_of(test: unittest.TestCase) -> str:
    return ".".join(test.id().split(".")[-2:])


def run(suite: unittest.TestSuite, *, after: Callable[[], None] = lambda: None) -> Outcomes:
    """Run the tests of a suite; ``after`` is called after each. Warnings are no errors, unless the suite says so."""
    result = _Result(after)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite.run(result)
    return result.outcomes


def cases_in(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Return the tests of a suite, and of those that it contains."""
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases_in(part)
        else:
            yield part


def print_figures(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines that tests have stored as `FIGURES`."""
    lines = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == FIGURES
    ]
    if lines:
        terminalreporter.section(FIGURES)
    for line in lines:
        terminalreporter.write_line(line)
