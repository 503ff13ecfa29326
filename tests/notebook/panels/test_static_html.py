"""The static forms of panels in notebooks and terminals, which are identical in every run."""

from __future__ import annotations

import asyncio
import json
import os
import re
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from waiting import until

from pipemagic import launcher
from pipemagic.notebook.panels import static_html
from pipemagic.notebook.panels.opening import NAMES, open_panel
from pipemagic.notebook.panels.static_html import WIDGET, Picture, TableBlock

BLOCKS = [
    "One & only line",
    TableBlock(["Name", "Group"], [["<b>a</b>", "edge"], ["\x1b[31mbell", "x"]]),
    Picture("<svg><g><title>a place</title><circle/></g></svg>"),
]


def test_the_text_of_blocks():
    assert static_html.to_text("Things", BLOCKS).splitlines() == [
        "Things",
        "One & only line",
        "  Name            Group",
        "  <b>a</b>        edge",
        "  \\u001b[31mbell  x",
    ]


def test_the_html_of_blocks():
    assert static_html.to_html('"Things"', BLOCKS) == (
        '<section aria-label="&quot;Things&quot;"><h2>&quot;Things&quot;</h2><p>One &amp; only line</p>'
        "<table><thead><tr><th>Name</th><th>Group</th></tr></thead><tbody><tr><td>&lt;b&gt;a&lt;/b&gt;</td>"
        "<td>edge</td></tr><tr><td>\x1b[31mbell</td><td>x</td></tr></tbody></table>"
        "<svg><g><circle/></g></svg></section>"
    )


def test_in_a_terminal_a_panel_is_a_text(shell, data):
    shell("%pipedb connect")
    cell = shell("%pipedb panel")
    said = re.sub(r"^Out\[\d+\]: ", "", cell.out).splitlines()
    assert said[:2] == ["Explore", "Tables of main"]
    assert not re.search("[<>\x1b]", cell.out)
    assert cell.shown == []


CELLS = ["%load_ext pipemagic\n%pipedb panel", "%pipedb connect",
         "%sql CREATE TABLE airport (code TEXT PRIMARY KEY, name TEXT)",
         "%sql INSERT INTO airport VALUES ('JFK', 'Kennedy'), ('LGA', 'La Guardia')",
         *(f"%pipedb panel {name}" for name in NAMES), "%pipedb panel"]  # fmt: skip

# The Jupyter extension does this in every kernel; it shows each output in its richest form.
IN_VS_CODE = ["__vsc_ipynb_file__ = '/home/me/a.ipynb'", "%pipedb panel databases"]


async def run(folder):
    """Run the cells in a new kernel with a new data folder; return the saved notebook."""
    notebook = new_notebook(cells=list(map(new_code_cell, [*CELLS, *IN_VS_CODE])))
    own = {"PIPEMAGIC_DATA": str(folder / "data"), "IPYTHONDIR": str(folder / "ipython")}
    await NotebookClient(notebook, timeout=300, kernel_name="python3").async_execute(env={**os.environ, **own})
    return nbformat.reads(nbformat.writes(notebook), 4)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two notebooks with every panel, run at the same time."""
    folders = [tmp_path_factory.mktemp("saved") for _ in range(2)]

    async def run_both():
        return await asyncio.gather(*map(run, folders))

    yield asyncio.run(run_both())
    for folder in folders:
        launcher.stop(folder / "data")


def test_every_panel_is_saved_live_and_as_html_and_text(runs):
    cells = runs[0].cells[4 : len(CELLS)]
    for title, cell in zip([*map(str.capitalize, NAMES), "Explore"], cells, strict=True):  # the last are the tabs
        live, saved = (output.data for output in cell.outputs)
        assert WIDGET in live
        assert re.findall("<h2>(.*?)</h2>", saved["text/html"]) == [title]
        assert saved["text/plain"].splitlines()[0] == title
        assert not re.search("<(script|form|input|button|select|iframe|img)", saved["text/html"])
        assert not re.search(r"127\.0\.0\.1|localhost:|http://", saved["text/plain"])


def test_the_tab_that_is_selected_replaces_the_saved_form(session, monkeypatch):
    published = []
    monkeypatch.setattr(static_html, "get_ipython", lambda: SimpleNamespace(kernel=True, user_ns={}))
    monkeypatch.setattr(static_html, "publish_display_data", lambda data, **more: published.append((data, more)))
    tabs = open_panel(session)
    tabs.select("Groups")
    assert published == []  # nothing to replace yet
    tabs._ipython_display_()
    _, (first, how) = published
    assert first["text/plain"].splitlines()[0] == "Groups"
    tabs.select("Databases")
    until(lambda: len(published) == 3)
    second, how_again = published[-1]
    assert second["text/plain"].splitlines()[0] == "Databases"
    assert "main" in second["text/html"]
    assert how_again == {**how, "update": True}


def saved_by(cell):
    """Return what a cell saved, except the port of the service and the names of widgets, which differ in every run."""
    saved = [{**output.get("data", {}), "": output.get("text")} for output in cell.outputs]
    shown = [json.loads(re.sub(r"localhost:\d+", "localhost:PORT", json.dumps(bundle))) for bundle in saved]
    return [{kind: value for kind, value in bundle.items() if kind != WIDGET} for bundle in shown]


def test_another_run_saves_the_same(runs):
    one, other = runs
    for ours, theirs in zip(one.cells, other.cells, strict=True):
        assert saved_by(ours) == saved_by(theirs)
    assert [bool(cell.outputs) for cell in one.cells[: len(CELLS)]] == [True] * len(CELLS)


def test_in_vs_code_live_and_static_are_one_output(runs):
    (shown,) = (output.data for output in runs[0].cells[-1].outputs)
    assert set(shown) == {WIDGET, "text/html", "text/plain"}
    assert "<h2>Databases</h2>" in shown["text/html"]
    assert shown["text/plain"].splitlines()[0] == "Databases"
