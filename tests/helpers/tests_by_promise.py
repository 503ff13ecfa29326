"""Print the tests of the folders below by the promise that they keep: ``python tests/helpers/tests_by_promise.py``."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from promises import Promise, promise_of

TESTS = Path(__file__).parent.parent
FOLDERS = [TESTS / name for name in ("attacks", "faults", "security")]


class _Collected:
    """A plugin that sorts the tests of a run by promise, without their parameters."""

    def __init__(self) -> None:
        self.tests: dict[Promise, dict[str, int]] = {promise: {} for promise in Promise}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            tests, name = self.tests[promise_of(item)], item.nodeid.partition("[")[0]
            tests[name] = tests.get(name, 0) + 1


def main() -> None:
    """Print the tests of `FOLDERS` by promise, with the number of parameters where a test has some."""
    collected, output = _Collected(), io.StringIO()
    with redirect_stdout(output):
        status = pytest.main(["--collect-only", "-q", "-n0", "-m", "", *map(str, FOLDERS)], [collected])
    if status != pytest.ExitCode.OK:
        sys.exit(output.getvalue())
    for promise, tests in collected.tests.items():
        print(f"{promise.name}: {promise.value}")
        for name, count in tests.items():
            print(f"    {name}" + (f" ({count} cases)" if count > 1 else ""))


if __name__ == "__main__":
    main()
