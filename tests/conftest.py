"""Fixtures for all tests, and their two levels: `pytest` runs the first one, `pytest -m slow` the second (`SLOW`)."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings
from peak_memory import print_peaks
from published_suites import print_figures
from service_calls import Clock
from sqld_engine import SqldEngineProcess
from sqld_server import Sqld, SqldDatabase
from waiting import PATIENCE

from pipemagic.service.limits import Limits
from pipemagic.service.service import Service
from pipemagic.service.sqld.local_nodes import NoSqld, find_sqld

# Runs are reproducible and do not fail on a slow machine; `--hypothesis-profile=search` searches for new cases.
settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True, max_examples=50)
settings.register_profile("long", settings.get_profile("suite"), max_examples=500)
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile("suite")

REQUIRED = "PIPEMAGIC_REQUIRE_REAL"

MEMORY, ENOUGH_MEMORY = Path("/dev/shm"), 4 * 10**9
"""A folder in memory, and the free bytes that it must have; the tests need some 600 MB."""

TESTS = Path(__file__).parent
SLOW = [
    "attacks", "browser", "cli", "docs/test_examples.py", "docs/test_shell_examples.py",
    "docs/test_site.py",
    "faults", "fuzzing", "hub", "notebook/panels/test_leaks.py",
    "notebook/panels/test_session_limits.py", "notebook/panels/test_static_html.py",
    "notebook/test_progress.py", "notebook/test_saved_notebooks.py",
    "other_libraries", "published_clients", "published_suites", "service/replicas", "service/sqld",
    "service/sqlite/test_resources.py",
    "service/test_early_responses.py", "service/test_endpoint.py", "service/test_garbage.py",
    "service/test_hosting.py", "service/test_http_server.py", "service/test_process.py",
    "service/test_request_log.py", "service/test_slow_clients.py", "teaching/classes",
    "teaching/exercises/test_grading.py", "teaching/exercises/test_grading_a_class.py",
    "teaching/exercises/test_nbgrader.py", "teaching/exercises/test_otter.py",
    "teaching/exercises/test_course_resets.py", "teaching/exercises/test_students_day.py",
    "teaching/test_progress.py",
    "../solutions",
]  # fmt: skip
"""Folders and files of the second level, `pytest -m slow`: browsers, attacks, faults, other programs, long waits.

Single tests of it have the marker themselves.
"""
SLOW_PATHS = {(TESTS / name).resolve() for name in SLOW}
STRANGER = 54321
"""The id of another user."""


@pytest.fixture(autouse=True, scope="session")
def patient_messages() -> Iterator[None]:
    """Let messages wait for the schema, so that those with its names do not change on a machine that stalls."""
    with pytest.MonkeyPatch.context() as patch:  # not that of each test, which would end after its other fixtures
        patch.setattr("pipemagic.session.schema_cache.WAIT", PATIENCE)
        yield


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make files of this user look like files of another one."""

    def give_away(path: Path) -> None:
        if os.getuid() == 0:
            os.chown(path, STRANGER, -1)
        else:
            monkeypatch.setattr(os, "getuid", lambda: STRANGER)

    return give_away


@pytest.fixture
def interrupt_once() -> Iterator[Callable[[], None]]:
    """Return a function that interrupts the main thread once. A signal just before a wait begins does not end it."""
    arrived = threading.Event()

    def interrupted(_signal: int, _frame: object) -> None:
        if not arrived.is_set():
            arrived.set()
            raise KeyboardInterrupt

    def interrupt() -> None:
        while not arrived.wait(0.02):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupted)
    yield interrupt
    signal.signal(signal.SIGINT, before)


def pytest_configure(config: pytest.Config) -> None:
    """Select the first level, or everything that is named; keep files in memory, as syncing to a disk takes long."""
    if not config.option.markexpr:
        config.option.markexpr = "not soak" if _names_paths(config) else "not slow and not soak"
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH_MEMORY:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    # A pytest that a shell started in the background ignores interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have measured."""
    print_peaks(terminalreporter)
    print_figures(terminalreporter)


def _names_paths(config: pytest.Config) -> bool:
    return config.args_source is pytest.Config.ArgsSource.ARGS


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of workers of ``-n auto``: one more than this process has cores, as tests wait; at most 8.

    One named file runs in this process, so that a debugger and ``-s`` work.
    """
    if _names_paths(config) and len(config.args) == 1 and not Path(config.args[0].partition("::")[0]).is_dir():
        return 0
    allowed = os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)
    return min(len(allowed) + 1, 8)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import the modules of the second level if only the first one runs."""
    first_only = "not slow" in config.option.markexpr
    return True if first_only and _is_slow(collection_path) else None


def _is_slow(path: Path) -> bool:
    return not SLOW_PATHS.isdisjoint([path, *path.parents])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set the marker ``slow``; the long form of a test is of neither level."""
    for item in items:
        if item.get_closest_marker("soak"):
            item.own_markers = [marker for marker in item.own_markers if marker.name != "slow"]
        elif _is_slow(item.path):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=[pytest.param(False, id="short"), pytest.param(True, id="long", marks=pytest.mark.soak)])
def soak(request: pytest.FixtureRequest) -> bool:
    """Return True in the long form of a test, which only `pytest -m soak` runs; the short form is in the suite."""
    return bool(request.param)


def skip_or_fail(reason: str) -> None:
    """Skip a test if a required component is missing; fail if components are required."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"{REQUIRED}=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def require_real():
    """`skip_or_fail`, for tests that search for a component themselves."""
    return skip_or_fail


@pytest.fixture(scope="session")
def chromium(require_real) -> str:
    """The path of a chromium: from PIPEMAGIC_CHROMIUM, or on the PATH."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = os.environ.get("PIPEMAGIC_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        require_real("there is no chromium on the PATH, and PIPEMAGIC_CHROMIUM names none")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def sqld_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a sqld binary; one that a package contains is unpacked once for all workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    try:
        with FileLock(folder / "sqld-binary.lock"):
            return find_sqld(folder / "sqld-binary")
    except NoSqld as reason:
        skip_or_fail(reason.message)
        raise


@pytest.fixture(scope="session")
def sqld(sqld_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sqld]:
    """A running sqld; `sqld.database()` creates a database with `url` and `token`."""
    server = Sqld(sqld_binary, tmp_path_factory.mktemp("sqld"))
    yield server
    server.close()


@pytest.fixture
def sqld_database(sqld: Sqld) -> SqldDatabase:
    """A new database of sqld."""
    return sqld.database()


@pytest.fixture(scope="session")
def sqld_engine(sqld_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqldEngineProcess]:
    """A service in front of three nodes, for tests that stop none of them."""
    engine = SqldEngineProcess(sqld_binary, tmp_path_factory.mktemp("sqld-engine"))
    yield engine
    engine.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a service with the group ``default``; copying it takes a quarter of the time of a new one."""
    folder = tmp_path_factory.mktemp("new") / "data"
    service = Service(folder, clock=Clock(), signup=True)
    service.catalog.create_group("local", "default", "ams")
    service.close()
    return folder


@pytest.fixture
def limits() -> Limits:
    """The limits of `service`; tests override them, also by a parameter."""
    return Limits()


@pytest.fixture
def service(new_folder, tmp_path, clock, limits):
    """A service in process over a temporary folder; it is swept only by the test."""
    shutil.copytree(new_folder, tmp_path / "data")
    service = Service(tmp_path / "data", clock=clock, limits=limits, signup=True)
    yield service
    service.close()
