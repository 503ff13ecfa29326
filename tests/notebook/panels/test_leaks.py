"""A notebook with every panel open: no secret is in what is saved, shown, logged or remembered of it."""

from __future__ import annotations

import base64
import json
import os
import re
from itertools import chain
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook

from pipemagic import launcher
from pipemagic.notebook.panels.opening import NAMES

HELPERS = Path(__file__).parents[2] / "helpers"

# What a person does: a token is made, copied, put away; and another one stays on the page while the notebook is saved.
CLICKS = """
import sys
sys.path.insert(0, {helpers!r})
from pathlib import Path
from panel_page import PanelPage
panel = pipemagic.panels.databases()
page, really = PanelPage(panel), type(panel).send
listening = panel.send
def send(message, buffers=None):
    listening(message)
    really(panel, message, buffers)
panel.send = send
def make():
    page.click("New token ...")
    page.submit("Make token")
    page.wait("The token is made. It is shown only now.")
    from waiting import until
    until(lambda: page.secrets)
    with Path({secrets!r}).open("a") as file:
        file.write("".join(f"{{one}}\\n" for one in page.secrets.values()))
page.click("Details of main")
make()
page.click("Done")
make()
panel
"""

# Everything that the libraries below have to say, in the output of the cells too.
LOGGING = """
import logging
logging.basicConfig(level=logging.DEBUG, force=True)
"""

# The line that makes a token and puts it where it belongs; what fails, with the values of all variables on the way.
LINES = """
%pipedb create-token main --to-env MAIN_TOKEN
import os
with Path({secrets!r}).open("a") as file:
    file.write(os.environ.pop("MAIN_TOKEN") + "\\n")
%pipedb databases
%pipedb tables
%pipedb groups
%pipedb locations
%pipedb usage
%history -g
"""
FAILING = [
    "%pipedb connect nope",
    "%pipedb create-group default --location ams",
    "%%sql\nSELECT * FROM nope",
    "%pipedb delete-database nope --confirm",
    "%pipedb create-token nope --to-env NOPE",
    "panel.view.view.model.holdings.platform.delete_database('nope')",
    "panel.view.view.model.holdings.platform.create_token('main', expiration='soon')",
]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MODES = ("Verbose", "Context", "Plain")

# Everything of the panels that may be printed, and all of their models, to the last attribute.
PRINTING = """
import gc
from ipywidgets import Widget
from pipemagic.notebook.panels.ground.widget import Panel, View
from pipemagic.notebook.panels.ground.work import Model
print(panel, repr(panel), panel.view.__dict__)
for one in gc.get_objects():
    if isinstance(one, (Panel, View, Model)):
        print(repr(one), str(one), {name: value for name, value in one.__dict__.items() if name != "view"})
        if isinstance(one, Model):
            print(one.trait_values() if hasattr(one, "trait_values") else "")
print([widget.get_state() for widget in Widget.widgets.values()] if hasattr(Widget, "widgets") else "")
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Run the notebook, with widget state; gives everything that it left, as bytes by a name."""
    folders = {"PIPEMAGIC_DATA": "data", "IPYTHONDIR": "ipython", "PIPEMAGIC_CONFIG": "config"}
    tmp_path = tmp_path_factory.mktemp("leaks")
    own = {variable: str(tmp_path / folder) for variable, folder in folders.items()}
    clicks, lines = (text.format(helpers=str(HELPERS), secrets=str(tmp_path / "secrets")) for text in (CLICKS, LINES))
    failing = [[f"%xmode {mode}", *FAILING] for mode in MODES]
    panels = [*(f"%pipedb panel {name}" for name in NAMES), "%pipedb panel", clicks]
    sql = "%%sql\nBEGIN; CREATE TABLE t (a); SELECT 1; COMMIT"
    before = [LOGGING, "%load_ext pipemagic\nimport pipemagic", "%pipedb connect"]
    cells = [*before, *panels, sql, lines, PRINTING, *chain(*failing)]
    notebook = new_notebook(cells=list(map(new_code_cell, cells)))
    for cell in notebook.cells:
        if cell.source in FAILING:
            cell.metadata["tags"] = ["raises-exception"]
    log = (tmp_path / "kernel.log").open("wb")
    client = NotebookClient(
        notebook,
        timeout=100,
        kernel_name="python3",
        store_widget_state=True,
        ipython_hist_file=str(tmp_path / "history.sqlite"),
    )
    with log:
        client.execute(stderr=log, stdout=log, env={**os.environ, **own})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    left = {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}
    left["notebook"] = nbformat.writes(notebook).encode()
    left["exported"] = HTMLExporter().from_notebook_node(notebook)[0].encode()
    left["states"] = json.dumps(notebook.metadata["widgets"]).encode()
    yield left
    launcher.stop(tmp_path / "data")


def pieces(secret: str) -> set[bytes]:
    """Give a secret as it may be written: as it is, its parts, and in base64 at each of the three places."""
    parts = {secret, *(part for part in secret.split(".") if len(part) > 16)}
    encoded = {base64.b64encode(b"x" * start + secret.encode())[4:-4] for start in range(3)}
    return {part.encode() for part in parts} | encoded


def test_no_secret_is_left_anywhere(saved):
    made = saved["secrets"].decode().split()
    assert len(made) == 3
    token_files = {name: text for name, text in saved.items() if name.endswith("platform-token")}
    assert token_files
    states = json.loads(saved["states"])
    trees = [one["state"]["tree"] for one in states["application/vnd.jupyter.widget-state+json"]["state"].values()
             if "tree" in one["state"]]  # fmt: skip
    assert len(trees) == len(NAMES) + 2
    assert "Copy token" in json.dumps(trees)  # a token is open in one of them
    its_own = {*token_files, "secrets"}  # where they belong
    in_data = {name for name in saved if name.startswith("data/") and not name.endswith(".log")}
    places = {name: text for name, text in saved.items() if name not in its_own | in_data}
    assert {"notebook", "exported", "states", "kernel.log", "data/service.log"} <= places.keys()
    assert b"%%sql" in places["history.sqlite"]
    for secret in [*made, *(text.decode().strip() for text in token_files.values())]:
        for place, text in places.items():
            for piece in pieces(secret):
                assert piece not in text, f"a secret is in {place}"


def test_there_was_something_to_leak_into(saved):
    """Each cell that had to fail did, with a traceback; and each level of log was on."""
    cells = json.loads(saved["notebook"])["cells"]
    failed = [one for cell in cells for one in cell.get("outputs", []) if one["output_type"] == "error"]
    sources = {"".join(cell["source"]): cell.get("outputs", []) for cell in cells}
    fine = {text for text, outputs in sources.items() if not any(one["output_type"] == "error" for one in outputs)}
    assert sorted(fine & set(FAILING)) == []
    assert len(failed) == len(FAILING) * len(MODES)
    shown = COLOURS.sub("", "".join(line for one in failed for line in one["traceback"]))
    assert re.search(r"self = <pipemagic\.", shown)  # the values of variables
    assert b"DEBUG:" in saved["notebook"]


def test_nothing_that_looks_like_a_token_is_saved(saved):
    for place in ("notebook", "exported", "states", "kernel.log"):
        assert b"eyJ" not in saved[place]
        assert b"pmp_" not in saved[place]
