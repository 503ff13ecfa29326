"""Loading imports little and writes nothing; unloading restores the shell."""

from __future__ import annotations

import atexit
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipemagic import launcher
from pipemagic.notebook import extension

OTHER = """
from IPython.core.magic import register_line_cell_magic
@register_line_cell_magic
def sql(line, cell=None):
    return "the other one"
"""


def magics(shell):
    return {(kind, name) for kind, table in shell.ip.magics_manager.magics.items() for name in table}


def test_unloading_removes_the_magics(plain_shell):
    before = magics(plain_shell)
    plain_shell("%load_ext pipemagic")
    assert magics(plain_shell) - before == {
        ("line", "pipedb"), ("line", "sql"), ("cell", "sql"), ("line", "sqlcmd"), ("line", "sqlplot"),
        ("line", "check"), ("cell", "check"), ("cell", "exercise"),
    }  # fmt: skip
    plain_shell("%unload_ext pipemagic")
    assert magics(plain_shell) == before
    plain_shell("%load_ext pipemagic\n%reload_ext pipemagic\n%unload_ext pipemagic")
    assert magics(plain_shell) == before


def session_of(shell):
    return shell.ip.magics_manager.registry["PipeMagics"].session


def hooks(shell):
    """What the magics have added to a shell and to the interpreter, as counts."""
    ip = shell.ip
    after_cells = ip.events.callbacks["post_run_cell"]
    return {
        "matchers": sum(matcher.__module__.startswith("pipemagic") for matcher in ip.Completer.custom_matchers),
        "configurables": sum(type(item).__module__.startswith("pipemagic") for item in ip.configurables),
        "after cells": sum(callback.__module__.startswith("pipemagic") for callback in after_cells),
        "at exit": atexit._ncallbacks(),
    }


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_a_reload_keeps_the_session(db):
    db("%config PipeMagic.display_limit = 3")
    db("%sql CREATE TABLE kept (a INTEGER)")
    db("%%sql --save all_kept\nSELECT a FROM kept")
    db("%%sql\nBEGIN;\nINSERT INTO kept VALUES (7)")
    session, connection = session_of(db), session_of(db).connection()
    stream, baton = connection.stream, connection.stream.baton
    assert db("%reload_ext pipemagic").lines == []
    assert session_of(db) is session
    assert session.connection() is connection
    assert (connection.stream, stream.baton) == (stream, baton)
    assert db("%sql COMMIT").lines == ["Done."]
    assert db("%%sql --with all_kept\nSELECT a FROM all_kept").value["a"].tolist() == [7]
    assert db("%config PipeMagic.display_limit").value == 3


def test_a_reload_keeps_the_temporary_database_and_the_lease(shell):
    shell("%pipedb connect --temporary\n%sql CREATE TABLE kept AS SELECT 1 AS a")
    shell("%sql CREATE TEMP TABLE mine AS SELECT 7 AS a")
    folder = session_of(shell)._services.to_stop()._lease.service.folder
    for _ in range(2):
        shell("%reload_ext pipemagic")
        assert folder.exists()
        assert shell("%sql SELECT kept.a, mine.a AS b FROM kept, mine").value.to_dict("list") == {"a": [1], "b": [7]}
    shell("%unload_ext pipemagic")
    assert not folder.exists()


def test_a_reload_adds_no_hooks(db):
    magics, before = db.ip.magics_manager.registry["PipeMagics"], hooks(db)
    assert before | {"at exit": 0} == {"matchers": 1, "configurables": 2, "after cells": 1, "at exit": 0}
    db("%reload_ext pipemagic\n%load_ext pipemagic\n%reload_ext pipemagic")
    assert hooks(db) == before
    assert db.ip.magics_manager.registry["PipeMagics"] is magics
    db("%unload_ext pipemagic")
    assert hooks(db) | {"at exit": 0} == dict.fromkeys(before, 0)


def test_autoreload_keeps_one_connection(shell):
    shell("%load_ext autoreload\n%autoreload 2")
    shell("%pipedb connect --temporary\n%sql CREATE TABLE kept AS SELECT 1 AS a")
    before, connections = hooks(shell), dict(session_of(shell).connections)
    shell("%load_ext pipemagic")
    shell("%load_ext pipemagic")
    shell("%reload_ext pipemagic")
    assert hooks(shell) == before
    assert session_of(shell).connections == connections
    assert shell("%sql SELECT a FROM kept").value["a"].tolist() == [1]
    importlib.reload(extension)  # as %autoreload does for a file that was changed
    shell("%reload_ext pipemagic")
    assert hooks(shell) == before
    assert session_of(shell).connections == connections
    shell("%autoreload off\n%unload_ext autoreload\n%unload_ext pipemagic")
    assert connections["temporary"].stream is None


def test_a_reload_that_fails_leaves_the_magics_and_the_session(shell, monkeypatch):
    shell("%pipedb connect --temporary\n%sql CREATE TABLE kept AS SELECT 1 AS a")

    def fail(module):
        raise SyntaxError("a file that is being edited")

    monkeypatch.setattr("IPython.core.extensions.reload", fail)
    shell.fails("%reload_ext pipemagic")
    assert shell("%sql SELECT a FROM kept").value["a"].tolist() == [1]
    before = hooks(shell)
    shell("%load_ext pipemagic")
    assert hooks(shell) == before
    assert shell("%sql SELECT a FROM kept").value["a"].tolist() == [1]


def test_unloading_is_no_reload(shell):
    """Not even if the cell loads the extension again at once."""
    shell("%pipedb connect --temporary")
    session = session_of(shell)
    shell("%unload_ext pipemagic\n%load_ext pipemagic")
    assert session.connections == {}
    assert "no database is connected" in shell.fails("%sql SELECT 1").out
    shell("%pipedb connect --temporary\n%sql SELECT 1")


def test_a_kernel_that_ends_after_a_reload_or_after_unloading_leaves_no_service(tmp_path):
    for last in ("%reload_ext pipemagic", "%unload_ext pipemagic", "%reload_ext pipemagic\n%unload_ext pipemagic"):
        script = f"""
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
shell.run_cell("%load_ext pipemagic\\n%pipedb connect --temporary")
print(shell.magics_manager.registry["PipeMagics"].session._services.to_stop()._lease.service.folder)
shell.run_cell({last!r}).raise_error()
"""
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        folder = Path(run.stdout.splitlines()[-1])
        assert folder.parent == tmp_path
        assert not folder.exists()


def test_a_reload_takes_the_magics_back_from_an_extension_loaded_later(plain_shell):
    plain_shell("%load_ext pipemagic")
    plain_shell(OTHER)
    reloaded = plain_shell("%reload_ext pipemagic")
    assert reloaded.err.startswith("pipemagic replaces %%sql and %sql from __main__")
    assert plain_shell.fails("%sql x").error is not None
    plain_shell("%unload_ext pipemagic")
    assert plain_shell("%sql x").value == "the other one"


def test_magics_of_another_extension_are_replaced_with_a_warning_and_restored(plain_shell):
    plain_shell(OTHER)
    cell = plain_shell("%load_ext pipemagic")
    warning = "pipemagic replaces %%sql and %sql from __main__; %unload_ext pipemagic restores them."
    assert cell.err.splitlines() == [warning]
    assert plain_shell.fails("%sql SELECT 1").error is not None
    plain_shell("%unload_ext pipemagic")
    assert plain_shell("%sql x").value == "the other one"
    assert plain_shell("%%sql\nx").value == "the other one"


def test_magics_of_an_extension_loaded_later_are_kept(plain_shell):
    plain_shell("%load_ext pipemagic")
    plain_shell(OTHER)
    plain_shell("%unload_ext pipemagic")
    assert plain_shell("%sql x").value == "the other one"


def test_unloading_closes_streams_and_leases(shell, local_service):
    shell("%pipedb connect\n%sql BEGIN")
    session = shell.ip.magics_manager.registry["PipeMagics"].session
    stream = session.connection().stream
    shell("%unload_ext pipemagic")
    assert not stream.is_open
    assert session.connections == {}
    assert launcher.find() is not None  # the service waits for another lease


def test_loading_imports_and_writes_little(tmp_path):
    script = """
import os, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
shell = InteractiveShell(config=config)
before = {path for top in sys.argv[1:] for path in os.listdir(top)}
shell.run_line_magic("load_ext", "pipemagic")
assert {path for top in sys.argv[1:] for path in os.listdir(top)} == before
heavy = {
    "pandas", "numpy", "pyarrow", "polars", "matplotlib", "anywidget", "ipywidgets", "httpx", "uvicorn", "starlette",
    "apsw", "cryptography", "nbclient", "keyring", "jinja2", "msgspec",
}
assert not heavy & set(sys.modules)
print("loaded")
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True, text=True, check=True, cwd=tmp_path, timeout=300,
        env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert run.stdout == "loaded\n"


def test_the_frame_library_is_imported_while_the_service_starts(data):
    script = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
config.PipeMagic.type = "polars"
shell = InteractiveShell.instance(config=config)
shell.run_line_magic("load_ext", "pipemagic")
before = {"pandas", "polars"} & set(sys.modules)
shell.run_line_magic("pipedb", "connect")
print(before, {"pandas", "polars"} & set(sys.modules))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout.splitlines()[-1] == "set() {'polars'}"
