"""Programs that run notebooks on a schedule or in CI: a wrong line of a magic fails the run."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.slow

SETUP = "%load_ext pipemagic\n%pipedb connect --temporary"
REPORT = "%sql SELECT :since AS since"
LATER = "open('later', 'w').close()"

WRONG_LINES = {
    "%pipedb lod x": ("UsageError", "USAGE: unknown command 'lod'"),
    "%sql SELEC 1": ("StatementError", 'SQL_PARSE_ERROR: near "SELEC": syntax error'),
    "%%sql --nosuch\nSELECT 1": ("UsageError", "USAGE: unknown option --nosuch"),
}
"""Wrong cells, with the class of the error and the beginning of what is shown."""


def pytest_with(*options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, *options)


@dataclass(frozen=True)
class Runner:
    """A program that runs a notebook; ``saves`` is the notebook that it writes, also if a cell failed."""

    command: tuple[str, ...]
    saves: str | None = None
    runs_later_cells: bool = False


RUNNERS = {
    "nbmake": Runner(pytest_with("-p", "nbmake.pytest_plugin", "--nbmake", "--overwrite", "p.ipynb"), "p.ipynb"),
    "nbval": Runner(pytest_with("-p", "nbval.plugin", "--nbval", "p.ipynb"), runs_later_cells=True),
    "nbval-lax": Runner(pytest_with("-p", "nbval.plugin", "--nbval-lax", "p.ipynb"), runs_later_cells=True),
    "nbconvert": Runner((sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "p.ipynb")),
    "papermill": Runner(
        (sys.executable, "-m", "papermill", "p.ipynb", "out.ipynb", "-p", "since", "2026-08-01", "-k", "python3"),
        "out.ipynb",
    ),
}


@pytest.fixture(params=RUNNERS)
def runner(request: pytest.FixtureRequest) -> Runner:
    if request.param in ("nbmake", "papermill"):
        pytest.importorskip(request.param)
    return RUNNERS[request.param]


def run(runner: Runner, folder: Path, *cells: str) -> tuple[int, str]:
    """Run a notebook with these cells; return the exit code and everything that the program printed."""
    parameters = new_code_cell('since = "2026-07-01"', metadata={"tags": ["parameters"]})
    notebook = new_notebook(cells=[parameters, *map(new_code_cell, (SETUP, REPORT, *cells, LATER))])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, folder / "p.ipynb")
    own = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PIPEMAGIC_DATA": str(folder / "data"),
        "PIPEMAGIC_CONFIG": str(folder / "config"), "IPYTHONDIR": str(folder / "ipython"),
    }  # fmt: skip
    done = subprocess.run(
        runner.command, cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_notebook_without_errors_passes_with_the_parameters_of_the_run(runner, tmp_path):
    code, printed = run(runner, tmp_path)
    assert code == 0, printed
    assert (tmp_path / "later").exists()
    if runner.saves:
        report = next(cell for cell in nbformat.read(tmp_path / runner.saves, 4).cells if cell.source == REPORT)
        since = "2026-08-01" if runner is RUNNERS["papermill"] else "2026-07-01"
        assert since in report.outputs[0].data["text/plain"]


@pytest.mark.parametrize("line", WRONG_LINES)
def test_a_wrong_line_of_a_magic_fails_the_run(runner, line, tmp_path):
    kind, sentence = WRONG_LINES[line]
    code, printed = run(runner, tmp_path, line)
    assert code != 0, printed
    assert sentence in printed
    assert (tmp_path / "later").exists() is runner.runs_later_cells
    if runner.saves:
        failed = next(cell for cell in nbformat.read(tmp_path / runner.saves, 4).cells if cell.source == line)
        (output,) = failed.outputs
        assert output.output_type == "error"
        assert output.ename == kind
        assert output.traceback[0].startswith(sentence)
        assert output.evalue.startswith(sentence.partition(": ")[2])


@pytest.mark.parametrize("name", ["nbconvert", "papermill"])
def test_a_magic_that_does_not_exist_fails_runs_on_a_schedule(name, tmp_path):
    """IPython prints this error itself, and sends no output of the type error; docs/analysts/scripts.md says more."""
    if name == "papermill":
        pytest.importorskip("papermill")
    code, printed = run(RUNNERS[name], tmp_path, "%%sqll\nSELECT 1")
    assert code == 1, printed
    assert not (tmp_path / "later").exists()
