"""The branches for other platforms: each module gets a `sys` that names another platform."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from types import SimpleNamespace

import pytest
from waiting import until

from pipemagic import config, launcher
from pipemagic.cli import shell
from pipemagic.errors import ServiceError, SessionError
from pipemagic.http.transport import HttpConnection, Origin
from pipemagic.service import files, listeners, process
from pipemagic.service.sqld import local_nodes
from pipemagic.session import tokens

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows takes its own branches in every other test")


@pytest.fixture
def on(monkeypatch):
    """Make modules see another `sys.platform`."""

    def on(platform, *modules):
        for module in modules:
            monkeypatch.setattr(module, "sys", SimpleNamespace(**{**vars(sys), "platform": platform}))

    return on


@pytest.fixture
def open_file(tmp_path):
    """A file with a token that all users can read."""
    path = tmp_path / "token"
    path.write_text("a-token")
    path.chmod(0o644)
    return path


def test_the_mode_of_a_token_file_is_checked_where_files_have_modes(on, open_file):
    with pytest.raises(SessionError, match="is accessible to other users"):
        tokens.read_token_file(open_file)
    on("win32", tokens)
    assert tokens.read_token_file(open_file) == "a-token"


def test_the_owner_of_a_token_file_is_not_checked_on_windows(on, open_file, monkeypatch):
    open_file.chmod(0o600)
    monkeypatch.delattr(os, "getuid")
    with pytest.raises(AttributeError):
        tokens.read_token_file(open_file)
    on("win32", tokens)
    assert tokens.read_token_file(open_file) == "a-token"


def test_modes_of_folders_are_checked_where_they_exist(on, tmp_path):
    tmp_path.chmod(0o777)
    for name in (files.KEY_FILE, files.LOCK_FILE):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o666)
    for check in (config.make_private_folder, files.check_lock_files, files.check_data_folder):
        with pytest.raises(ServiceError, match="other users"):
            check(tmp_path)
    on("win32", files, config)
    config.make_private_folder(tmp_path)
    files.check_data_folder(tmp_path)
    config.private_lock(tmp_path / files.LOCK_FILE)
    assert stat.S_IMODE((tmp_path / files.LOCK_FILE).stat().st_mode) == 0o666
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o777
    config.write_private(tmp_path / "file", b"a\nb\r\n")
    assert (tmp_path / "file").read_bytes() == b"a\nb\r\n"


def test_folders_are_not_synced_on_windows(on, tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    config.sync_folder(tmp_path)
    assert len(synced) == 1
    on("win32", config)
    config.sync_folder(tmp_path)
    assert len(synced) == 1


@pytest.mark.parametrize("platform", ["win32", "linux"])
def test_the_shell_needs_no_readline(on, tmp_path, monkeypatch, platform):
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path / "config"))
    on(platform, shell)
    monkeypatch.setitem(sys.modules, "readline", None)  # importing it would fail
    with shell._history():
        pass
    assert not (tmp_path / "config").exists()


def test_a_stale_connection_is_detected_without_poll(on):
    from pipemagic.http import transport

    ours, theirs = socket.socketpair()
    with ours, theirs:
        kept = HttpConnection(ours, Origin("127.0.0.1", 1, None))
        on("win32", transport)
        assert not kept.is_stale()
        theirs.sendall(b"unasked")
        until(kept.is_stale)


def test_sqld_is_not_for_windows(on, tmp_path):
    on("win32", local_nodes)
    for attempt in (
        lambda: local_nodes.find_sqld(tmp_path),
        lambda: local_nodes._locked(tmp_path).__enter__(),
    ):
        with pytest.raises(local_nodes.NoSqld, match="not built for Windows"):
            attempt()
    assert not list(tmp_path.iterdir())


def test_a_local_node_is_bound_to_its_service_on_linux_only(on):
    """Elsewhere the next start ends it: `test_a_node_that_an_earlier_service_has_left_is_ended`."""
    on("darwin", local_nodes)
    assert local_nodes._bound(("/usr/bin/sqld", "--version")) == ("/usr/bin/sqld", "--version")


def test_a_service_for_all_notebooks_is_detached(on, tmp_path, monkeypatch):
    started = []

    def start(command, **options):
        started.append(options)
        raise OSError("enough")

    monkeypatch.setattr(launcher, "_Child", start)
    monkeypatch.setattr(subprocess, "DETACHED_PROCESS", 8, raising=False)
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 512, raising=False)
    for platform in ("linux", "win32"):
        on(platform, launcher)
        with pytest.raises(OSError, match="enough"):
            launcher._spawn(tmp_path, stdin=subprocess.DEVNULL, callback=lambda: None)
    assert [options.get("start_new_session") for options in started] == [True, None]
    assert [options.get("creationflags") for options in started] == [None, 8 | 512]


def test_ports_are_not_shared_on_windows(on, monkeypatch):
    on("win32", listeners)
    # An option of this system replaces that of Windows: the address cannot be taken over.
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_KEEPALIVE, raising=False)
    with listeners._bind("127.0.0.1", 0) as listener:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


def test_the_limit_of_file_handles_is_not_raised_on_windows(on, monkeypatch):
    on("win32", process)
    monkeypatch.setitem(sys.modules, "resource", None)
    process._allow_many_files()


def test_there_is_no_sighup_on_windows(on, monkeypatch):
    on("win32", process)
    monkeypatch.setattr(process, "signal", SimpleNamespace())  # without any signal
    process.stop_on_hang_up()


@pytest.mark.parametrize(("platform", "handled"), [("linux", True), ("win32", False)])
def test_there_is_no_signal_for_a_renewed_certificate_on_windows(on, platform, handled):
    on(platform, process)

    async def follow():
        process.reload_on_signal(lambda: None)
        return asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)

    assert asyncio.run(follow()) is handled
