"""Progress is shown after a second, in notebooks and terminals, and removed at the end."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from pipemagic.notebook import progress
from pipemagic.notebook.progress import ProgressDisplay, TerminalView, show_progress
from pipemagic.notebook.settings import PipeMagic
from pipemagic.text import literal_html


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
    bar = ProgressDisplay("rows sent", view, seconds)
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


WORK = """
import time
from pipemagic.notebook import progress
from pipemagic.notebook.settings import PipeMagic
progress.DELAY = 0.05
with progress.show_progress("rows <b>sent", PipeMagic()) as bar:
    for n in range(4):
        bar(n, 4)
        time.sleep({pause})
"""
CELL = WORK + 'print("after")'

PAUSES = (0.3, 0.0)


class Run:
    """A notebook that was run, and the messages of its kernel, by cell."""

    def __init__(self, *cells: str, folder: Path | None = None) -> None:
        self.notebook = new_notebook(cells=[new_code_cell(cell) for cell in ("%load_ext pipemagic", *cells)])
        resources = {"metadata": {"path": str(folder)}} if folder else {}
        client = NotebookClient(self.notebook, timeout=300, kernel_name="python3", resources=resources)
        self.messages: list[list[dict]] = [[] for _ in self.notebook.cells]
        process = client.process_message

        def note(message, cell, index):
            self.messages[index].append(message)
            return process(message, cell, index)

        client.process_message = note
        client.execute()

    def shown(self, cell: int) -> list[str]:
        """Return the lines of progress that a cell has shown, without the elapsed time."""
        updates = [sent["content"]["data"] for sent in self.messages[cell] if sent["msg_type"] == "update_display_data"]
        return [data["text/plain"].partition(" (")[0] for data in updates if data]

    def saved(self, cell: int) -> list[object]:
        """Return the saved outputs of a cell."""
        return [output.get("data", output.get("text")) for output in self.notebook.cells[cell].outputs]


@pytest.fixture(scope="module")
def ran() -> Run:
    """The cell with each of the pauses."""
    return Run(*(CELL.format(pause=pause) for pause in PAUSES))


def test_a_kernel_shows_a_bar_and_the_notebook_saves_nothing_of_it(ran) -> None:
    lines = ran.shown(1)
    assert set(lines) <= {f"rows <b>sent: {n} of 4" for n in range(4)}
    assert lines == sorted(lines)
    assert lines[-1] == "rows <b>sent: 3 of 4"
    updates = [sent["content"]["data"] for sent in ran.messages[1] if sent["msg_type"] == "update_display_data"]
    bar = '<progress max="4" value="3"></progress> rows &lt;b&gt;sent: 3 of 4 ('
    assert updates[-1]["text/html"].startswith(literal_html(bar).removesuffix("</div>"))
    assert ran.saved(1) == ran.saved(2) == ["after\n"]
    assert "widgets" not in ran.notebook.metadata


def test_nbval_passes_however_long_the_work_takes(ran, tmp_path) -> None:
    """The cell that was fast is slow now, and vice versa."""
    notebook = deepcopy(ran.notebook)
    for cell, now in zip(notebook.cells[1:], reversed(PAUSES), strict=True):
        cell.source = CELL.format(pause=now)
    nbformat.write(notebook, tmp_path / "work.ipynb")
    options = ["-p", "nbval.plugin", "--nbval", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "work.ipynb"], cwd=tmp_path, capture_output=True, text=True,
        timeout=300, check=False, env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert "3 passed" in done.stdout, done.stdout


SLOW_WORK = WORK.format(pause=0.3)
TWICE = SLOW_WORK + "with progress.show_progress('rows received', PipeMagic()):\n    time.sleep(0.5)"
PRINTS_MEANWHILE = f"""
import threading
def say_it():
    while not displayed: time.sleep(0.01)
    print("meanwhile\\n", end="")  # one write, which nothing can divide
import time
displayed = []
publish = get_ipython().display_pub.publish
def note(*args, **options):
    publish(*args, **options)
    displayed.append(1)
get_ipython().display_pub.publish = note
threading.Thread(target=say_it).start()
{SLOW_WORK}
get_ipython().display_pub.publish = publish
"""
RUN_CELL = f"print('before')\nget_ipython().run_cell({SLOW_WORK!r});"


def test_other_outputs_of_the_cell_stay() -> None:
    run = Run(
        f"print('before')\n{SLOW_WORK}\nprint('after')",
        f"import sys\nsys.stderr.write('before')\n{SLOW_WORK}",
        f"display('before')\n{SLOW_WORK}",
        RUN_CELL,
        PRINTS_MEANWHILE,
        f"%%capture captured\n{SLOW_WORK}",
        "captured.stdout, captured.outputs",
        TWICE,
    )
    saved = [run.saved(cell) for cell in range(1, 9)]
    assert saved[0] == ["before\n", "after\n"]
    assert saved[1] == ["before"]
    assert saved[2] == [{"text/plain": "'before'"}]
    assert saved[3] == ["before\n"]
    assert "meanwhile\n" in saved[4]
    assert saved[5:] == [[], [{"text/plain": "('', [])"}], []]
    assert [bool(run.shown(cell)) for cell in range(1, 9)] == [False] * 4 + [True, False, False, True]
    assert {line.partition(":")[0] for line in run.shown(8)} == {"rows <b>sent", "Running"}


CALLBACK = """
%unload_ext pipemagic
get_ipython().events.register("pre_run_cell", lambda info: display("of a callback"))
%load_ext pipemagic
"""
FORK = f"""
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=print, args=("of a fork",))
child.start()
{SLOW_WORK}
child.join()
"""
AT_THE_LAST_MOMENT = f"""
import threading
from pipemagic.notebook.progress import CellMessages
shell, compare, compared = get_ipython(), CellMessages.are, []
def put_out():
    content, parent = {{"name": "stdout", "text": "of a thread"}}, shell.display_pub.parent_header
    shell.kernel.session.send(shell.display_pub.pub_socket, "stream", content, parent=parent)
def compare_and_put_out(messages, number, *others):
    found = compare(messages, number, *others)
    if number and found and not compared:
        compared.append(True)
        thread = threading.Thread(target=copy_context().run, args=(put_out,))
        thread.start()
        thread.join()
    return found
from contextvars import copy_context
CellMessages.are = compare_and_put_out
{SLOW_WORK}
CellMessages.are = compare
{SLOW_WORK}
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_outputs_that_the_kernel_does_not_count_or_that_come_while_the_progress_is_removed_stay() -> None:
    run = Run(AT_THE_LAST_MOMENT, FORK, CALLBACK, SLOW_WORK)
    assert run.saved(1) == ["of a thread"]
    assert "of a fork" in "".join(map(str, run.saved(2)))
    assert run.saved(4) == [{"text/plain": "'of a callback'"}]
    assert [bool(run.shown(cell)) for cell in (1, 2, 4)] == [True, False, False]


QUERY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000) SELECT sum(i) AS s FROM n"


def test_nothing_is_saved_of_the_progress_of_loads_copies_queries_and_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    run = Run(
        "import pandas\nfrom pipemagic.notebook import progress\nprogress.DELAY = progress.INTERVAL = 0.01\n"
        "frame = pandas.DataFrame({'a': range(300_000)})\nframe.to_csv('frame.csv', index=False)",
        "%pipedb connect --temporary --as one",
        "%pipedb load frame --table t",
        "%pipedb load frame.csv --table u",
        f"%%sql --out total\n{QUERY}",
        "%sql --to-csv out.csv SELECT a FROM t",
        "%pipedb copy t --to one --as v",
        folder=tmp_path,
    )
    assert all(run.shown(cell) for cell in range(3, 8)), [run.shown(cell) for cell in range(3, 8)]
    assert run.saved(3)[0].startswith("Loaded 300,000 rows and 1 column into t")
    assert run.saved(4)[0].startswith("Loaded 300,000 rows and 1 column into u")
    assert run.saved(7) == ["Copied 300,000 rows into v on one.\n"]
    assert [len(run.saved(cell)) for cell in range(3, 8)] == [1, 1, 0, 1, 1], [run.saved(5), run.saved(6)]
