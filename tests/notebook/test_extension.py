"""Loading imports little and writes nothing; unloading restores the shell."""

from __future__ import annotations

import os
import subprocess
import sys

from pipemagic import launcher

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


def test_reloading_works(shell, local_service):
    shell("%pipedb connect")
    shell("%reload_ext pipemagic")
    assert "no database is connected" in shell.fails("%sql SELECT 1").out
    shell("%pipedb connect\n%sql SELECT 1")


def test_magics_of_another_extension_are_replaced_with_a_warning_and_restored(plain_shell):
    plain_shell(OTHER)
    cell = plain_shell("%load_ext pipemagic")
    warning = "pipemagic replaces %%sql and %sql of __main__; %unload_ext pipemagic restores them."
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
