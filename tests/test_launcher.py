"""Finding, starting, leasing and stopping the embedded service, with real processes."""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from filelock import FileLock
from started_services import end_services
from waiting import until

from pipemagic import __version__, cli, launcher
from pipemagic.errors import ServiceError
from pipemagic.service.files import (
    LOCK_FILE,
    PLATFORM_TOKEN_FILE,
    PROBE_LOCK_FILE,
    RUNTIME_FILE,
    START_LOCK_FILE,
)
from pipemagic.service.settings import IDLE_TIMEOUT

WAIT = 20.0
posix = pytest.mark.skipif(os.name != "posix", reason="signals and file modes are those of POSIX")

HOLD = """
import sys, time
from pathlib import Path
from pipemagic import launcher
target, idle_timeout = sys.argv[1:]
if target == "temporary":
    lease = launcher.temporary()
else:
    lease = launcher.ensure(Path(target), idle_timeout=float(idle_timeout) if idle_timeout else None)
print(lease.service.url, lease.service.folder, flush=True)
sys.stdin.read()
"""


QUERIES = """
import http.client, json, sys, time
from urllib.parse import urlsplit
url, token, pause = sys.argv[1:]
address = urlsplit(url)
headers = {"Host": address.netloc, "Authorization": f"Bearer {token}"}
body = json.dumps({"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}, {"type": "close"}]})
while True:
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=20)
    connection.request("POST", "/v2/pipeline", body, headers)
    print(connection.getresponse().status, flush=True)
    connection.close()
    time.sleep(float(pause))
"""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    yield folder
    end_services(folder)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The folder of a running service, for tests that do not stop it; the folder is named data."""
    folder = tmp_path_factory.mktemp("running") / "data"
    with launcher.ensure(folder):
        yield folder
    end_services(folder)


class Kernel:
    """Another process that holds a lease; its service stops ``idle_timeout`` seconds after the last use."""

    def __init__(self, target, idle_timeout=""):
        package = str(Path(launcher.__file__).parents[1])
        self.popen = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(target), idle_timeout], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=os.environ | {"PYTHONPATH": package},
        )  # fmt: skip

    def place(self):
        url, folder = self.popen.stdout.readline().split(maxsplit=1)
        return url, Path(folder.strip())

    def kill(self):
        self.popen.kill()
        self.popen.wait(WAIT)
        self.popen.stdin.close()
        self.popen.stdout.close()


@pytest.fixture
def kernels():
    started = []

    def start(target, **options):
        started.append(Kernel(target, **options))
        return started[-1]

    yield start
    for kernel in started:
        kernel.kill()


@contextmanager
def queries(url, token, pause):
    """Run a program that queries a database and holds no lease; yield the process, which prints each status."""
    with subprocess.Popen(
        [sys.executable, "-c", QUERIES, url, token, str(pause)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    ) as program:  # fmt: skip
        try:
            yield program
        finally:
            program.kill()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def new_database(service):
    """Create a database; return its token."""
    organization = f"{service.url}/v1/organizations/local"
    with httpx.Client(base_url=organization, headers=bearer(service.platform_token()), timeout=WAIT) as http:
        http.post("/groups", json={"name": "g", "location": "ams"}).raise_for_status()
        http.post("/databases", json={"name": "d", "group": "g"}).raise_for_status()
        return http.post("/databases/d/auth/tokens").json()["jwt"]


def statuses(program, count):
    return [program.stdout.readline().strip() for _ in range(count)]


def pid_of(folder):
    return json.loads((folder / "service.json").read_text())["pid"]


def ends(pid, within):
    """Wait for the end of a process; return False if it is still running. A zombie has ended."""

    def ended():
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    try:
        return until(ended, seconds=within)
    except AssertionError:
        return False


# -- programs without a lease


def pipemagic_command(capfd, folder, *arguments):
    """Run a command in this process; return what it prints."""
    assert cli.main([*arguments, "--data", str(folder)]) == 0
    return capfd.readouterr().out.strip()


@posix
def test_a_service_stays_while_a_program_queries_it_and_ends_after_it(folder, soak, capfd, tmp_path, monkeypatch):
    """Its starter, a command, has ended. The long form takes two minutes, with the real time until the end."""
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path / "config"))
    idle_timeout, pause, count = (IDLE_TIMEOUT, 2, 60) if soak else (1.5, 0.1, 40)
    if not soak:
        launcher.ensure(folder, idle_timeout=idle_timeout).close()
    pipemagic_command(capfd, folder, "group", "create", "edge", "--location", "ams")
    pipemagic_command(capfd, folder, "db", "create", "flights", "--group", "edge")
    url = pipemagic_command(capfd, folder, "db", "show", "flights", "--http-url")
    token = pipemagic_command(capfd, folder, "db", "tokens", "create", "flights")
    pid = pid_of(folder)
    assert launcher.find(folder).idle_timeout == idle_timeout
    with queries(url, token, pause) as program:
        assert statuses(program, count) == ["200"] * count
        assert pid_of(folder) == pid
    assert ends(pid, idle_timeout + WAIT)
    assert launcher.find(folder) is None


@posix
@pytest.mark.parametrize("target", ["temporary", "shared"])
def test_a_program_keeps_the_service_of_a_notebook_but_not_its_temporary_one(target, folder, kernels):
    kernel = kernels(folder if target == "shared" else target, idle_timeout="1")
    url, used = kernel.place()
    pid = pid_of(used)
    token = new_database(launcher.LocalService(url, "local", __version__, used))
    with queries(url, token, 0.05) as program:
        assert statuses(program, 1) == ["200"]
        kernel.kill()
        if target == "temporary":
            assert ends(pid, WAIT)
            assert program.wait(WAIT) != 0
            assert not used.exists()
            return
        assert statuses(program, 40) == ["200"] * 40
    assert ends(pid, WAIT)


@posix
def test_a_service_stays_while_a_response_is_read(folder):
    with launcher.ensure(folder, idle_timeout=0.5) as lease:
        url, token, pid = lease.service.url, new_database(lease.service), pid_of(folder)
        rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT hex(zeroblob(1000)) FROM n"
        cursor = {"batch": {"steps": [{"stmt": {"sql": rows}}]}}
        with httpx.stream("POST", f"{url}/v3/cursor", headers=bearer(token), json=cursor, timeout=WAIT) as response:
            lines = response.iter_lines()
            assert json.loads(next(lines))["baton"]
            lease.close()
            assert not ends(pid, 2)
            assert json.loads(next(lines))["type"] == "step_begin"
    assert ends(pid, WAIT)


def test_find_and_stop_without_a_service_create_nothing(folder):
    assert launcher.find(folder) is None
    assert launcher.stop(folder) is None
    assert not folder.exists()


def test_start_find_stop(folder):
    with launcher.ensure(folder) as lease:
        found = launcher.find(folder)
        assert found == lease.service
        assert (found.organization, found.version, found.folder) == ("local", __version__, folder)
        headers = {"Authorization": f"Bearer {found.platform_token()}"}
        assert httpx.get(f"{found.url}/v1/auth/validate", headers=headers).json() == {"exp": -1}
        assert lease.alive
        assert launcher.stop(folder) is not None
        assert not lease.alive
        assert launcher.find(folder) is None
    with launcher.ensure(folder) as lease:
        assert lease.service.url == found.url  # addresses survive a restart


def test_the_token_is_in_no_repr(running):
    with launcher.ensure(running) as lease:
        assert lease.service.platform_token() not in repr(lease) + repr(lease.service) + str(vars(lease))
        lease.close()
        lease.close()
        assert repr(lease) == f"<Lease of {lease.service.url}, ended>"


def test_a_lease_notices_that_the_service_was_killed(folder):
    with launcher.ensure(folder) as lease:
        psutil.Process(pid_of(folder)).kill()
        until(lambda: not lease.alive)
        assert launcher.find(folder) is None
        with launcher.ensure(folder) as again:
            assert again.alive


def test_two_leases_of_one_service(running):
    with launcher.ensure(running) as first, launcher.ensure(running) as second:
        assert first.service == second.service
        first.close()
        assert second.alive


def test_the_service_is_detached_from_its_starter(running):
    process = psutil.Process(pid_of(running))
    if os.name == "posix":
        assert os.getsid(process.pid) == process.pid
        targets = {os.readlink(f"/proc/{process.pid}/fd/{n}") for n in (0, 1, 2)} if sys.platform == "linux" else set()
        assert targets <= {"/dev/null", str(running / "service.log")}
    assert process.cwd() == running.anchor


@posix
def test_a_service_ends_after_its_only_kernel_was_killed(folder, kernels):
    kernel = kernels(folder, idle_timeout="1")
    kernel.place()
    pid = pid_of(folder)
    kernel.kill()
    assert ends(pid, WAIT)
    assert not (folder / "service.json").exists()


@posix
def test_a_service_outlives_the_kernel_that_started_it_and_ends_after_the_last_lease(folder, kernels):
    first = kernels(folder, idle_timeout="0.5")
    url, _ = first.place()
    pid = pid_of(folder)
    with launcher.ensure(folder) as lease:
        first.kill()
        assert lease.service.url == url
        assert not ends(pid, 1)
        assert lease.alive
    assert ends(pid, WAIT)
    assert launcher.find(folder) is None


def test_kernels_that_start_at_the_same_time_share_one_service(folder, kernels):
    started = [kernels(folder) for _ in range(4)]
    urls = {kernel.place()[0] for kernel in started}
    assert len(urls) == 1
    services = [
        process for process in psutil.process_iter(["cmdline"])
        if str(folder) in (process.info["cmdline"] or []) and "--data" in process.info["cmdline"]
    ]  # fmt: skip
    assert [process.pid for process in services] == [pid_of(folder)]


@posix
@pytest.mark.parametrize("name", ["", RUNTIME_FILE, PLATFORM_TOKEN_FILE])
def test_a_service_of_another_user_is_not_used(folder, give_away, name, monkeypatch):
    """That user could read the statements and the tokens of this user's requests."""
    with launcher.ensure(folder) as lease:
        owner = folder.stat().st_uid
        with monkeypatch.context() as patch:
            patch.setattr(launcher, "_connect", lambda *_: pytest.fail("a request was sent"))
            give_away(folder / name)
            for use in (launcher.find, launcher.check, launcher.ensure, launcher.stop):
                with pytest.raises(ServiceError, match="belongs to another user") as refused:
                    use(folder)
                assert refused.value.code == "DATA_FOLDER"
        monkeypatch.undo()
        os.chown(folder / name, owner, -1)
        assert launcher.find(folder) == lease.service


@pytest.fixture
def usual_umask():
    """The umask of most machines; pytest may run with another."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder):
    return {path.name: oct(path.stat().st_mode & 0o777) for path in folder.rglob("*") if path.stat().st_mode & 0o077}


@posix
def test_no_file_of_a_folder_that_others_can_enter_is_open_to_them(folder, usual_umask):
    """Who can open a lock can hold it and listen at the service's port in its place."""
    folder.mkdir(mode=0o755)
    with launcher.ensure(folder) as lease:
        new_database(lease.service)
        assert launcher.check(folder) == lease.service
        names = {path.name for path in folder.rglob("*")}
        assert names >= {LOCK_FILE, START_LOCK_FILE, PROBE_LOCK_FILE, RUNTIME_FILE, "catalog.sqlite-wal"}
        assert open_to_others(folder) == {}
    launcher.stop(folder)
    assert open_to_others(folder) == {}
    assert folder.stat().st_mode & 0o777 == 0o755


@posix
@pytest.mark.parametrize("name", [LOCK_FILE, START_LOCK_FILE, PROBE_LOCK_FILE])
def test_a_lock_that_others_can_hold_is_refused(folder, name):
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    (folder / name).touch()
    (folder / name).chmod(0o644)
    for use in (launcher.find, launcher.check, launcher.ensure, launcher.stop):
        with pytest.raises(ServiceError, match=f"other users can hold the lock {folder / name}") as refused:
            use(folder)
        assert refused.value.hint == f"run: chmod 600 '{folder / name}'"
    assert (folder / name).stat().st_mode & 0o777 == 0o644


@posix
def test_a_private_folder_of_an_earlier_version_is_used(folder):
    """Its locks are open to others, who cannot enter the folder."""
    folder.mkdir(mode=0o700)
    for name in (LOCK_FILE, START_LOCK_FILE, PROBE_LOCK_FILE):
        (folder / name).touch()
        (folder / name).chmod(0o644)
    with launcher.ensure(folder) as lease:
        assert launcher.check(folder) == lease.service
        assert open_to_others(folder) == {}


# -- invalid runtime files


def write_runtime_file(folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    about = {"url": "http://127.0.0.1:9", "port": 9, "pid": os.getpid(), "host": platform.node(),
             "version": __version__, "organization": "local"}  # fmt: skip
    (folder / "service.json").write_text(json.dumps(about | changes))


def test_an_invalid_runtime_file_is_ignored(folder):
    folder.mkdir()
    for content in ("", "{", "[]", "{}", '"x"', '{"host": 1}'):
        (folder / "service.json").write_text(content)
        assert launcher.find(folder) is None, content
    with launcher.ensure(folder) as lease:
        assert lease.alive


def test_a_runtime_file_of_a_dead_process_is_not_used(folder):
    """Another program may have its port and pid now, so no request with a token is sent."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0.2)
        write_runtime_file(folder, url=f"http://127.0.0.1:{stranger.getsockname()[1]}")
        assert launcher.find(folder) is None
        with launcher.ensure(folder) as lease:
            assert lease.alive
        with pytest.raises(TimeoutError):
            stranger.accept()


def test_simultaneous_lock_tests_do_not_report_a_service(folder, monkeypatch):
    write_runtime_file(folder, url="http://127.0.0.1:9")
    found = []
    other = threading.Thread(target=lambda: found.append(launcher._is_locked(folder)))
    release = FileLock.release

    def release_late(lock, *options, **named):
        if lock.lock_file == str(folder / LOCK_FILE) and other.ident is None:
            other.start()
            other.join(0.1)  # it waits for this one
        release(lock, *options, **named)

    monkeypatch.setattr(FileLock, "release", release_late)
    assert launcher.check(folder) is None
    other.join(10)
    assert found == [False]


@contextmanager
def changed(folder, **changes):
    """Change the runtime file of a running service, and restore it afterwards."""
    path = folder / "service.json"
    about = path.read_text()
    path.write_text(json.dumps(json.loads(about) | changes))
    try:
        yield
    finally:
        path.write_text(about)


def test_a_runtime_file_of_another_host_is_not_used(running):
    with changed(running, host="elsewhere"):
        assert launcher.find(running) is None
        with pytest.raises(ServiceError, match=r"is in use by the service at .* on elsewhere\)") as caught:
            launcher.ensure(running)
        assert caught.value.code == "FOLDER_IN_USE"


def test_a_service_of_another_version_is_refused_and_can_be_stopped(folder):
    with launcher.ensure(folder), changed(folder, version="0.0.1"):
        with pytest.raises(ServiceError, match=r"is pipemagic 0\.0\.1, but this is") as caught:
            launcher.ensure(folder)
        assert caught.value.code == "VERSION_MISMATCH"
        assert "pipemagic stop" in caught.value.hint
        assert launcher.stop(folder) is not None


def test_the_reason_is_reported_if_a_service_cannot_start(folder):
    folder.mkdir(mode=0o700)
    (folder / "catalog.sqlite").write_bytes(b"this is no database, but long enough to look at" * 100)
    with pytest.raises(ServiceError, match=r"catalog\.sqlite is damaged") as caught:
        launcher.ensure(folder)
    assert caught.value.code == "BAD_CATALOG"


def test_the_log_has_the_output_of_a_service_that_ended_at_its_start(folder, monkeypatch):
    monkeypatch.setattr(launcher, "_MAIN", Path(__file__).with_name("no-such-file.py"))
    with pytest.raises(ServiceError, match="cannot start the embedded service") as caught:
        launcher.ensure(folder)
    assert str(folder / "service.log") in caught.value.hint
    assert "no-such-file.py" in (folder / "service.log").read_text()


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_the_mode_of_a_shared_folder_is_not_changed(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(ServiceError, match="is shared by all users"):
        launcher.ensure(folder)
    assert folder.stat().st_mode & 0o7777 == 0o1777
    assert list(folder.iterdir()) == []


def test_a_data_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert launcher.find(folder) is None
        with pytest.raises(ServiceError, match="cannot use ") as caught:
            launcher.ensure(folder)
        assert "PIPEMAGIC_DATA" in caught.value.hint


def test_a_relative_folder(running, monkeypatch):
    monkeypatch.chdir(running.parent)
    with launcher.ensure(Path("data")) as lease:
        assert lease.service.folder == running
        assert launcher.find(running) == launcher.find(Path("data")) == lease.service


# -- temporary


def test_temporary_services_are_separate_and_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with launcher.temporary() as lease, launcher.temporary() as other:
        assert lease.alive
        assert lease.service != other.service
        assert lease.service.folder.parent == tmp_path
        assert lease.service.folder != other.service.folder
    assert not lease.alive
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("options", "said"), [((), "strict"), (("--limits", "relaxed"), "relaxed")])
def test_a_temporary_service_has_the_limits_that_were_chosen(options, said):
    with launcher.temporary(*options) as lease, httpx.Client() as client:
        response = client.get(f"{lease.service.url}/version")
        assert response.headers["Pipemagic-Limits"] == said


@posix
def test_a_temporary_service_ends_with_its_kernel(kernels, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    kernel = kernels("temporary")
    _, folder = kernel.place()
    assert folder.parent == tmp_path
    pid = pid_of(folder)
    kernel.popen.send_signal(signal.SIGKILL)
    assert ends(pid, WAIT)
    assert list(tmp_path.iterdir()) == []


# -- the default folder, imports, work during the start


def test_the_default_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "x"))
    assert launcher.default_folder() == tmp_path / "x"
    monkeypatch.setenv("PIPEMAGIC_DATA", "~/y")
    assert launcher.default_folder() == Path.home() / "y"
    monkeypatch.delenv("PIPEMAGIC_DATA")
    assert launcher.default_folder().name == "pipemagic"


def test_the_launcher_imports_nothing_heavy():
    code = "import sys; from pipemagic import launcher; print([m for m in sys.argv[1:] if m in sys.modules])"
    heavy = ["apsw", "uvicorn", "httpx", "pandas", "cryptography", "msgspec"]
    package = str(Path(launcher.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": package},
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_while_starting_is_called_only_if_a_service_is_started(folder):
    calls = []
    with launcher.ensure(folder, while_starting=lambda: calls.append(launcher.find(folder))):
        assert calls == [None]
        with launcher.ensure(folder, while_starting=lambda: calls.append("again")):
            assert calls == [None]
    with launcher.temporary(while_starting=lambda: calls.append("temporary")):
        assert calls == [None, "temporary"]
