"""What notebooks and terminals show of panels without a kernel, and that it is the same in every run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from pipemagic import local
from pipemagic.notebook.panels.ground import faces
from pipemagic.notebook.panels.ground.tree import h
from pipemagic.notebook.panels.opening import NAMES

TREE = h(
    "section",
    h("div", h("h2", "Things"), h("button", "Do"), class_="pm-head"),
    h("p", "One ", h("b", "& only"), " line", key="line", keep=True),
    h("form", h("label", "Name", for_="@name"), h("input", name="name", id="@name")),
    h("div", "now", live=True),
    h("table", h("thead", h("tr", h("th", "Name"), h("th", "Size", live=True), h("th", "Group"))),
      h("tbody", h("tr", h("td", "<b>a</b>", key="a"), h("td", "4 kB", live=True), h("td", "edge")),
        h("tr", h("td", "\x1b[31mbell"), h("td", "5 kB", live=True), h("td", "x"))), aria_label='"Things"'),
    h("svg", h("title", "a map"), h("circle", r=3)),
    h("ul", h("li", "first", id="@first"), h("li", "second", h("ul", h("li", "inside")))),
    aria_label="Things",
)  # fmt: skip


def test_the_text_of_a_tree():
    assert faces.text(TREE).splitlines() == [
        "Things",
        "One & only line",
        "  Name       Group",
        "  <b>a</b>   edge",
        "  \N{REPLACEMENT CHARACTER}[31mbell  x",
        "first",
        "second",
        "inside",
    ]


def test_the_html_of_a_tree():
    assert faces.html(TREE) == (
        '<section aria-label="Things"><div class="pm-head"><h2>Things</h2></div><p>One <b>&amp; only</b> line</p>'
        '<table aria-label="&quot;Things&quot;"><thead><tr><th>Name</th><th>Group</th></tr></thead>'
        "<tbody><tr><td>&lt;b&gt;a&lt;/b&gt;</td><td>edge</td></tr><tr><td>\x1b[31mbell</td><td>x</td></tr></tbody>"
        '</table><svg><circle r="3"></circle></svg>'
        "<ul><li>first</li><li>second<ul><li>inside</li></ul></li></ul></section>"
    )


def test_in_a_terminal_a_panel_is_a_text(shell, data):
    shell("%pipedb connect")
    cell = shell("%pipedb panel")
    said = re.sub(r"^Out\[\d+\]: ", "", cell.out).splitlines()
    assert [name.capitalize() for name in NAMES if name.capitalize() not in said] == []
    assert "  main" in cell.out
    assert not re.search("[<>\x1b]", cell.out)
    assert cell.shown == []


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """A notebook with every panel, as it is saved after a run."""
    folder = tmp_path_factory.mktemp("saved")
    cells = ["%load_ext pipemagic\n%pipedb panel", "%pipedb connect",
             "%sql CREATE TABLE airport (code TEXT PRIMARY KEY, name TEXT)",
             "%sql INSERT INTO airport VALUES ('JFK', 'Kennedy'), ('LGA', 'La Guardia')",
             *(f"%pipedb panel {name}" for name in NAMES), "%pipedb panel"]  # fmt: skip
    notebook = new_notebook(cells=list(map(new_code_cell, cells)))
    own = {"PIPEMAGIC_DATA": str(folder / "data"), "IPYTHONDIR": str(folder / "ipython")}
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(env={**os.environ, **own})
    nbformat.write(notebook, folder / "panels.ipynb")
    yield folder / "panels.ipynb"
    local.stop(folder / "data")


def test_every_panel_is_saved_in_html_and_in_text_and_live(notebook):
    cells = nbformat.read(notebook, 4).cells[4:]
    for name, cell in zip([*NAMES, "all"], cells, strict=True):
        live, saved = (output.data for output in cell.outputs)
        assert "application/vnd.jupyter.widget-view+json" in live
        titles = NAMES if name == "all" else (name,)
        for title in titles:
            assert f"<h2>{title.capitalize()}</h2>" in saved["text/html"]
            assert title.capitalize() in saved["text/plain"].splitlines()
        assert not re.search("<(script|form|input|button|select|iframe|img)", saved["text/html"])
        assert not re.search(r"127\.0\.0\.1|localhost:|http://", saved["text/plain"])


def test_another_run_saves_the_same(notebook, tmp_path):
    own = {"PIPEMAGIC_DATA": str(tmp_path / "data"), "IPYTHONDIR": str(tmp_path / "ipython")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=300", "-q", "-p",
         "no:cacheprovider", "--override-ini", "addopts=", "--rootdir", str(notebook.parent), str(notebook)],
        cwd=notebook.parent, env={**os.environ, **own}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    try:
        assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
        assert f"{len(NAMES) + 5} passed" in run.stdout
    finally:
        local.stop(Path(own["PIPEMAGIC_DATA"]))


def test_in_vs_code_both_faces_are_one_output(tmp_path):
    # What its Jupyter extension does in every kernel; it shows each output apart, and of one output what it can.
    cells = ["%load_ext pipemagic\n__vsc_ipynb_file__ = '/home/me/a.ipynb'", "%pipedb panel databases"]
    notebook = new_notebook(cells=list(map(new_code_cell, cells)))
    own = {"PIPEMAGIC_DATA": str(tmp_path / "data"), "IPYTHONDIR": str(tmp_path / "ipython")}
    NotebookClient(notebook, timeout=100, kernel_name="python3").execute(env={**os.environ, **own})
    (shown,) = (output.data for output in notebook.cells[1].outputs)
    assert set(shown) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert "<h2>Databases</h2>" in shown["text/html"]
    assert shown["text/plain"].splitlines()[0] == "Databases"
