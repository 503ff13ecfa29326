"""The committed notebooks were run from top to bottom, contain no secrets and no widget state, and run twice."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
FOLDERS = ("notebooks", "solutions")
NOTEBOOKS = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.ipynb"))]
SECRET = re.compile(r"pmp_[\w-]{8,}|eyJ[\w-]+\.[\w-]+\.[\w-]*")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.relative_to(ROOT).with_suffix("").as_posix())
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


def test_cells_of_sql_that_students_open_are_sql_in_vs_code():
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if path.parent.name == "notebooks" else []:
            is_sql = cell["cell_type"] == "code" and "".join(cell["source"]).startswith(("%%sql", "%%check"))
            assert cell["metadata"].get("vscode") == ({"languageId": "sql"} if is_sql else None), path.name


# -- Run All twice in one kernel


def twice(path):
    """Return a notebook whose code cells are those of another one, two times."""
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    notebook.cells = [*code, *deepcopy(code)]
    for number, cell in enumerate(notebook.cells, 1):
        cell.id, cell.execution_count = f"cell-{number}", number
    return notebook


def test_nbval_runs_the_quick_start_twice_in_one_kernel(tmp_path, monkeypatch):
    """The second run prints the same as the first, but that the extension is loaded and the connection exists."""
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    notebook = twice(ROOT / "notebooks" / "quickstart.ipynb")
    again = notebook.cells[len(notebook.cells) // 2 :]
    for cell in again[:2]:
        assert cell.source in ("%load_ext pipemagic", "%pipedb connect --temporary")
        cell.metadata["tags"] = ["nbval-ignore-output"]
    nbformat.write(notebook, tmp_path / "twice.ipynb")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = ["--nbval", "--nbval-current-env", f"--nbval-sanitize-with={ROOT / 'tests' / 'nbval.cfg'}"]
    options += ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "twice.ipynb"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout
    assert f"{len(notebook.cells)} passed" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(ROOT).with_suffix("").as_posix())
def test_each_cell_that_succeeds_does_so_again(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    folder = tmp_path / path.parent.name
    notebook = twice(path)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],
    ).execute()  # fmt: skip
    failed = [any(output.output_type == "error" for output in cell.outputs) for cell in notebook.cells]
    half = len(failed) // 2
    changed = [
        cell.source
        for cell, first, second in zip(notebook.cells, failed, failed[half:], strict=False)
        if first is not second
    ]
    assert changed == []


def test_the_page_on_scripts_has_the_rule_for_the_port():
    """Users need it for `--nbval`, as these notebooks do."""
    page = (ROOT / "docs" / "analysts" / "scripts.md").read_text("utf-8")
    rule = page.partition("```ini\n")[2].partition("```")[0]
    assert rule.startswith("[port]\n")
    assert rule in (ROOT / "tests" / "nbval.cfg").read_text("utf-8")
