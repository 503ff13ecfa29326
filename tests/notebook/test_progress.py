"""Progress is shown after a second, in notebooks and terminals, and removed at the end."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from copy import deepcopy

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from pipemagic.notebook import progress
from pipemagic.notebook.progress import Progress, TerminalView, show_progress
from pipemagic.notebook.settings import PipeMagic


class Seconds:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class RecordingView:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def show(self, line, done, total) -> None:
        self.lines.append(line)

    def close(self) -> None:
        self.lines.append("gone")


def test_progress_shows_counts_and_elapsed_time() -> None:
    seconds, view = Seconds(), RecordingView()
    bar = Progress("rows sent", view, seconds)
    for seconds.now, state in [(1.0, None), (1.2, None), (2.5, (12_000, None)), (70.0, (13_000, 20_000))]:
        if state:
            bar(*state)
        bar.show()
    bar.close()
    assert view.lines == [
        "Running (1 s)", "rows sent: 12,000 (2 s)", "rows sent: 13,000 of 20,000 (1 min 10 s)", "gone"]  # fmt: skip


def test_short_work_shows_nothing(monkeypatch) -> None:
    view = RecordingView()
    monkeypatch.setattr(progress, "_view", lambda: view)
    with show_progress("rows sent", PipeMagic()) as bar:
        bar(10, 20)
    assert view.lines == []


def test_work_that_waits_for_one_response_shows_the_elapsed_time(monkeypatch) -> None:
    view, showed = RecordingView(), threading.Event()
    monkeypatch.setattr(progress, "_view", lambda: view)
    monkeypatch.setattr(progress, "DELAY", 0.01)
    monkeypatch.setattr(view, "show", lambda line, done, total: (view.lines.append(line), showed.set()))
    with show_progress("rows received", PipeMagic()):
        assert showed.wait(10)
    assert view.lines[0] == "Running (0 s)"
    assert view.lines[-1] == "gone"


def test_a_terminal_shows_one_line_and_clears_it() -> None:
    stream = io.StringIO()
    view = TerminalView(stream)
    view.show("rows received: 12,345", 12_345, None)
    view.show("rows received: 7", 7, None)
    view.close()
    written = stream.getvalue()
    assert written.startswith("\rrows received: 12,345\rrows received: 7     \r")
    assert "\n" not in written
    assert written.endswith("\r" + " " * len("rows received: 7") + "\r")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "on", "expected"), [(Terminal, True, True), (Terminal, False, False), (io.StringIO, True, False)]
)
def test_nothing_is_written_without_a_terminal_or_if_switched_off(monkeypatch, stream, on, expected) -> None:
    monkeypatch.setattr(sys, "stderr", stream())
    with show_progress("rows sent", PipeMagic(progress=on)) as bar:
        bar(1, 2)
        bar.show()
    assert bool(sys.stderr.getvalue()) is expected


CELL = """
import time
from pipemagic.notebook import progress
from pipemagic.notebook.settings import PipeMagic
progress.DELAY = 0.05
print("before")
with progress.show_progress("rows <b>sent", PipeMagic()) as bar:
    for n in range(4):
        bar(n, 4)
        time.sleep({pause})
print("after")
"""


PAUSES = (0.3, 0.0)


@pytest.fixture(scope="module")
def ran() -> tuple[nbformat.NotebookNode, list[dict]]:
    """Run the cell with each of the pauses; return the notebook and all messages of the kernel."""
    notebook = new_notebook(cells=[new_code_cell(CELL.format(pause=pause)) for pause in PAUSES])
    client = NotebookClient(notebook, timeout=300, kernel_name="python3")
    messages: list[dict] = []
    process = client.process_message

    def note(message, *args):
        messages.append(message)
        return process(message, *args)

    client.process_message = note
    client.execute()
    return notebook, messages


def test_a_kernel_shows_a_bar_and_the_notebook_saves_nothing_of_it(ran) -> None:
    notebook, messages = ran
    updates = [one["content"]["data"] for one in messages if one["msg_type"] == "update_display_data"]
    updates = updates[: updates.index({}) + 1]  # of the first cell
    lines = [data.get("text/plain", "").partition(" (")[0] for data in updates[:-1]]
    assert set(lines) <= {f"rows <b>sent: {n} of 4" for n in range(4)}
    assert lines == sorted(lines)
    assert lines[-1] == "rows <b>sent: 3 of 4"
    assert updates[-2]["text/html"].startswith('<progress max="4" value="3"></progress> rows &lt;b&gt;sent: 3 of 4 (')
    assert updates[-1] == {}
    saved = nbformat.writes(notebook)
    assert "of 4" not in saved
    assert "progress>" not in saved
    assert "widgets" not in notebook.metadata
    assert [output.get("data", output.get("text")) for output in notebook.cells[0].outputs] == [
        "before\n", {}, "after\n"]  # fmt: skip


def test_nbval_passes_however_long_the_work_takes(ran, tmp_path) -> None:
    """The cell that was fast is slow now, and vice versa."""
    notebook = deepcopy(ran[0])
    for cell, now in zip(notebook.cells, reversed(PAUSES), strict=True):
        cell.source = CELL.format(pause=now)
    nbformat.write(notebook, tmp_path / "work.ipynb")
    options = ["-p", "nbval.plugin", "--nbval", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "work.ipynb"], cwd=tmp_path, capture_output=True, text=True,
        timeout=300, check=False, env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout
