"""A notebook with every panel: its file, outputs, logs and traits contain no secret."""

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

# A token is created, copied and dismissed; another one stays on the page while the notebook is saved.
CLICKS = """
import sys
sys.path.insert(0, {helpers!r})
from pathlib import Path
from panel_page import PanelPage
panel = pipemagic.panels.databases()
page = PanelPage(panel)
def create():
    page.click("New token ...")
    page.submit("Create token")
    page.wait("The token was created. It is shown only once.")
    with Path({secrets!r}).open("a") as file:
        file.write("".join(f"{{one}}\\n" for one in page.secrets))
page.click("Details of main")
create()
page.click("Done")
create()
panel
"""

# The logs of all libraries, in the output of the cells, too.
LOGGING = """
import logging
logging.basicConfig(level=logging.DEBUG, force=True)
"""

# The line that stores a token; cells that fail, with the values of all variables in tracebacks.
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
    "panel.state.organization.delete_database('nope')",
    "panel.state.organization.create_token('main', expiration='soon')",
]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MODES = ("Verbose", "Context", "Plain")

# All objects of the panels, to the last attribute.
PRINTING = """
import gc
printed = Path({printed!r}).open("w")
from ipywidgets import Widget
from ipywidgets.widgets.widget import _instances
from pipemagic.notebook.panels.components import SecretText
from pipemagic.notebook.panels.tasks import LatestTask
from pipemagic.notebook.panels.organization_state import OrganizationState
print(panel, repr(panel), panel.__dict__, file=printed)
assert any(isinstance(one, SecretText) for one in gc.get_objects())
for one in gc.get_objects():
    if isinstance(one, (Widget, LatestTask, OrganizationState)):
        print(repr(one), str(one), one.__dict__, file=printed)
print([widget.get_state() for widget in _instances.values()], file=printed)
printed.close()
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Run the notebook, with widget state; return all its files and outputs as bytes by name."""
    folders = {"PIPEMAGIC_DATA": "data", "IPYTHONDIR": "ipython", "PIPEMAGIC_CONFIG": "config"}
    tmp_path = tmp_path_factory.mktemp("leaks")
    own = {variable: str(tmp_path / folder) for variable, folder in folders.items()}
    clicks, lines = (text.format(helpers=str(HELPERS), secrets=str(tmp_path / "secrets")) for text in (CLICKS, LINES))
    printing = PRINTING.format(printed=str(tmp_path / "printed"))
    failing = [[f"%xmode {mode}", *FAILING] for mode in MODES]
    panels = [*(f"%pipedb panel {name}" for name in NAMES), "%pipedb panel", clicks]
    sql = "%%sql\nBEGIN; CREATE TABLE t (a); SELECT 1; COMMIT"
    before = [LOGGING, "%load_ext pipemagic\nimport pipemagic", "%pipedb connect"]
    cells = [*before, *panels, sql, lines, printing, *chain(*failing)]
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
    """Return the forms of a secret: unchanged, its parts, and in base64 at each of the three offsets."""
    parts = {secret, *(part for part in secret.split(".") if len(part) > 16)}
    encoded = {base64.b64encode(b"x" * start + secret.encode())[4:-4] for start in range(3)}
    return {part.encode() for part in parts} | encoded


def test_no_secret_is_left_anywhere(saved):
    made = saved["secrets"].decode().split()
    assert len(made) == 3
    token_files = {name: text for name, text in saved.items() if name.endswith("platform-token")}
    assert token_files
    states = json.loads(saved["states"])
    kinds = [
        model["state"].get("kind") for model in states["application/vnd.jupyter.widget-state+json"]["state"].values()
    ]
    assert "secret" in kinds  # a token is shown by one of them
    assert "table" in kinds
    its_own = {*token_files, "secrets"}  # the files that may contain them
    in_data = {name for name in saved if name.startswith("data/") and not name.endswith(".log")}
    places = {name: text for name, text in saved.items() if name not in its_own | in_data}
    assert {"notebook", "exported", "states", "kernel.log", "data/service.log", "printed"} <= places.keys()
    assert b"%%sql" in places["history.sqlite"]
    for secret in [*made, *(text.decode().strip() for text in token_files.values())]:
        for place, text in places.items():
            for piece in pieces(secret):
                assert piece not in text, f"a secret is in {place}"


def test_the_failing_cells_failed_with_long_tracebacks(saved):
    """Check that each cell that must fail did, with a traceback, and that the logs are complete."""
    cells = json.loads(saved["notebook"])["cells"]
    failed = [output for cell in cells for output in cell.get("outputs", []) if output["output_type"] == "error"]
    sources = {"".join(cell["source"]): cell.get("outputs", []) for cell in cells}
    fine = {
        text for text, outputs in sources.items() if not any(output["output_type"] == "error" for output in outputs)
    }
    assert sorted(fine & set(FAILING)) == []
    assert len(failed) == len(FAILING) * len(MODES)
    shown = COLOURS.sub("", "".join(line for output in failed for line in output["traceback"]))
    assert re.search(r"self = <pipemagic\.", shown)  # the values of variables
    assert b"DEBUG:" in saved["notebook"]


def test_nothing_that_looks_like_a_token_is_saved(saved):
    state = json.loads(saved["states"])["application/vnd.jupyter.widget-state+json"]["state"]
    assert not any("rows" in model["state"] for model in state.values())  # nor rows of tables
    for place in ("notebook", "exported", "states", "kernel.log"):
        assert b"eyJ" not in saved[place]
        assert b"pmp_" not in saved[place]
