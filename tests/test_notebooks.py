"""The committed notebooks were run from top to bottom, and contain no secrets and no widget state."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted([*FOLDER.glob("*.ipynb"), *FOLDER.glob("teacher/*.ipynb")])
SECRET = re.compile(r"pmp_[\w-]{8,}|eyJ[\w-]+\.[\w-]+\.[\w-]*")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.relative_to(FOLDER).with_suffix("").as_posix())
def notebook(request):
    return json.loads(request.param.read_text(encoding="utf-8"))


def test_every_cell_was_run_in_order(notebook):
    # nbval skips cells without a number, so a notebook that was never run would pass.
    counts = [cell["execution_count"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_a_notebook_has_no_secret_no_port_and_no_widget_state(notebook):
    text = json.dumps(notebook)
    assert not SECRET.search(text)
    assert not re.search(r"(127\.0\.0\.1|localhost):\d+", text)
    assert "widgets" not in notebook["metadata"]


def test_only_cells_with_the_tag_failed(notebook):
    for cell in notebook["cells"]:
        failed = any(output["output_type"] == "error" for output in cell.get("outputs", []))
        assert failed == ("raises-exception" in cell["metadata"].get("tags", []))
