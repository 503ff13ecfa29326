"""Plugins of other distributions, in a real shell: what they add, and that a broken one is left out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

import pytest
from distributions import write_metadata

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "python.md"

SHELL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config
config = Config()
config.HistoryManager.enabled = False
config.InteractiveShell.colors = "nocolor"
shell = InteractiveShell.instance(config=config)
outputs = []
for cell in json.loads(sys.argv[1]):
    with capture_output() as captured:
        result = shell.run_cell(cell)
    outputs.append([captured.stdout, captured.stderr, repr(result.error_in_exec)])
print(json.dumps(outputs))
"""

COMPLETIONS = """
from IPython.core.completer import provisionalcompleter
with provisionalcompleter():
    print([found.text for found in get_ipython().Completer.completions("%birds ", 7)])
"""


@pytest.fixture
def install(tmp_path):
    """Install a distribution, as pip does: its files, and the metadata with its entry point."""

    def install(name, target, files):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, "utf-8")
        write_metadata(tmp_path, name, {"pipemagic.plugins": {name: target}})

    return install


@pytest.fixture
def run(tmp_path):
    """Run Python in a process that has the distributions."""
    home = tmp_path / "home"
    home.mkdir()
    own = {
        "HOME": str(home), "PIPEMAGIC_DATA": str(home / "data"), "PIPEMAGIC_CONFIG": str(home / "config"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
    }  # fmt: skip

    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, cwd=home, timeout=300, env=os.environ | own
        )

    return run


@pytest.fixture
def cells(run):
    """Run cells in a new shell; return output, standard error and error of each."""

    def cells(*cells):
        done = run("-c", SHELL, json.dumps(cells))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return cells


def files_of_page():
    """Return the files of the package that the page describes, by their names in the text."""
    _, *parts = re.split(r"`(birds/\w+\.\w+)`", PAGE.read_text("utf-8"))
    fence = re.compile(r"```(?:python|markdown)\n(.*?)```", re.DOTALL)
    return {name: fence.search(text)[1] for name, text in zip(parts[::2], parts[1::2], strict=True)}


@pytest.fixture
def birds(tmp_path, monkeypatch):
    """The distribution of the page, with the files that its build backend puts into the wheel."""
    source = tmp_path / "source"
    (metadata,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    for path, text in {"pyproject.toml": metadata, **files_of_page()}.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text, "utf-8")
    monkeypatch.chdir(source)
    backend = import_module(tomllib.loads(metadata)["build-system"]["build-backend"])
    with zipfile.ZipFile(source / backend.build_wheel(str(source))) as wheel:
        wheel.extractall(tmp_path)


def test_a_plugin_adds_magics_settings_panels_help_and_events(birds, cells):
    outputs = cells(
        "%load_ext pipemagic",
        "%pipedb connect --temporary",
        "%%sql\nCREATE TABLE sightings AS SELECT 'owl' AS kind; INSERT INTO sightings VALUES ('owl'), ('wren')",
        '%config PipeMagic.birds = "sightings"',
        "%birds owl",
        "%birds",
        "%sql SELECT nope",
        "print(get_ipython().run_line_magic('pipedb', 'panel birds').label.value)",
        "print([panel.title for panel in get_ipython().run_line_magic('pipedb', 'panel').panels])",
        "%pipedb help bird",
        COMPLETIONS,
        "%unload_ext pipemagic",
        "%birds owl",
    )  # fmt: skip
    loaded, connected, created, _, owls, missing, failed, panel, tabs, topic, completions, unloaded, gone = outputs
    assert (loaded, unloaded) == (["", "", "None"], ["", "", "None"])
    assert connected[0].splitlines()[-1] == "Birds are counted here."
    assert created[0].splitlines()[-1] == "temporary: a cell ran"
    assert "2" in owls[0].split()
    assert "%birds KIND" in missing[0]
    assert "Traceback" not in missing[0]
    assert failed[0].startswith("temporary: UNKNOWN_NAME\n")
    assert panel[0] == "Connections: temporary\n"
    assert "'Birds'" in tabs[0]
    assert topic[0].split("\n\n") == [
        "%birds KIND returns the number of birds of a kind.", "More: %pipedb help analysts/explore\n"
    ]  # fmt: skip
    assert "'owl', 'wren'" in completions[0]
    assert gone[1] == "UsageError: Line magic function `%birds` not found.\n"


def test_a_plugin_adds_a_command(birds, run):
    assert run("-m", "pipemagic", "birds").stdout == "tweet\n"
    listed = run("-m", "pipemagic", "--help").stdout
    assert re.search(r"^  birds +Print what birds say\.$", listed, re.MULTILINE)
    assert re.search(r"^  class +", listed, re.MULTILINE)


BROKEN = {
    "missing": ("missing.plugin:plugin", {}),
    "other": ("other:plugin", {"other.py": "plugin = {}"}),
    "raises": ("raises:plugin", {"raises.py": "raise RuntimeError('no birds\\nhere')"}),
    "magics": (
        "magics:plugin",
        {"magics.py": "from pipemagic.plugins import Plugin\nplugin = Plugin(magics=('magics_missing:Magics',))"},
    ),
    "sql": (
        "takes_sql:plugin",
        {
            "takes_sql.py": "from pipemagic.plugins import Plugin\nplugin = Plugin(magics=('sql_magics:Own',))",
            "sql_magics.py": (
                "from IPython.core.magic import line_magic, magics_class\n"
                "from pipemagic.notebook.plugin_magics import PluginMagics\n"
                "@magics_class\nclass Own(PluginMagics):\n    @line_magic\n    def sql(self, line): return 'own'\n"
            ),
        },
    ),
    "starts": (
        "starts:plugin",
        {
            "starts.py": (
                "from pipemagic.plugins import Plugin\nplugin = Plugin(start='starts:start')\n"
                "def start(session): raise RuntimeError('no session')\n"
            )
        },
    ),
    "receives": (
        "receives:plugin",
        {
            "receives.py": (
                "from pipemagic.plugins import Plugin\nplugin = Plugin(start='receives:start')\n"
                "def fail(cell): raise RuntimeError('no cell')\n"
                "def start(session): session.cell_ran.connect(fail)\n"
            )
        },
    ),
}
REPORTS = {
    "missing": "The plugin missing is left out: ModuleNotFoundError: No module named 'missing'",
    "other": "The plugin other is left out: TypeError: other:plugin is not a Plugin",
    "raises": "The plugin raises is left out: RuntimeError: no birds here",
    "magics": "The plugin magics is left out: ModuleNotFoundError: No module named 'magics_missing'",
    "sql": "The plugin sql is left out: ValueError: %sql is already a magic of pipemagic",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_reported_in_a_line_and_the_rest_works(name, install, cells):
    install(name, *BROKEN[name])
    loaded, connected, answer, exercise = cells(
        "%load_ext pipemagic", "%pipedb connect --temporary", "x = %sql SELECT 6 * 7 AS n\nprint(x.n[0])", "%check"
    )
    assert loaded == ["", f"{REPORTS[name]}\n" if name in REPORTS else "", "None"]
    assert connected[2] == "None"
    assert (connected[1] == "The plugin starts is left out: RuntimeError: no session\n") == (name == "starts")
    assert ("receives.fail failed: RuntimeError: no cell" in answer[0]) == (name == "receives")
    assert answer[0].splitlines()[-1] == "42"
    assert exercise[2] == "None"


def test_a_broken_command_is_reported_in_a_line(install, run):
    install("lost", "lost:plugin", {"lost.py": (
        "from pipemagic.plugins import Plugin\nplugin = Plugin(commands={'lost': 'lost_commands:lost'})"
    )})  # fmt: skip
    done = run("-m", "pipemagic", "lost")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        "The plugin lost is left out: ModuleNotFoundError: No module named 'lost_commands'"
    )
    assert run("-m", "pipemagic", "--version").stdout.startswith("pipemagic ")
    assert run("-m", "pipemagic", "--help").returncode == 0


def test_the_installed_metadata_has_the_entry_points_of_this_tree():
    """An environment that is older than an entry point needs ``pip install -e .`` again."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    installed = {(entry.group, entry.name): entry.value for entry in distribution("pipemagic").entry_points}
    for group, entries in listed.items():
        for name, value in entries.items():
            assert installed.get((group, name)) == value, "run pip install -e . again"
