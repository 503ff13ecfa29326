"""Whole notebooks, run by nbclient: what is saved, and where a run stops."""

from __future__ import annotations

import re

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook
from started_services import end_services


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run cells as a notebook; gives the notebook, wherever it stopped."""
    monkeypatch.setenv("PIPEMAGIC_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def run_notebook(*cells, allow_errors=False):
        notebook = new_notebook(cells=[new_code_cell(cell) for cell in ("%load_ext pipemagic", *cells)])
        client = NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=allow_errors)
        try:
            client.execute()
        except CellExecutionError as error:
            notebook.metadata["stopped"] = str(error)
        return notebook

    yield run_notebook
    end_services(tmp_path / "data")


def text_of(cell):
    """Give everything that a cell put out as text."""
    said = []
    for output in cell.outputs:
        said.append(output.get("text", "") or output.get("data", {}).get("text/plain", ""))
        said += output.get("traceback", [])
    return "\n".join(said)


def test_a_token_is_nowhere_in_a_saved_notebook_or_the_history(run, tmp_path, sqld_database, monkeypatch):
    token = sqld_database.token
    monkeypatch.setenv("MINE", token)
    notebook = run(
        "%pipedb connect",
        "%pipedb panel",
        f"%pipedb connect {sqld_database.url} --as mine --token-env MINE",
        "%sql SELECT 1",
        "session = get_ipython().magics_manager.registry['PipeMagics'].session\nsession, session.connection()",
        "%pipedb status\n%pipedb connections",
        "%history -n",
        "%sql SELECT nope",
        allow_errors=True,
    )
    assert "no such column: nope" in text_of(notebook.cells[-1])
    assert notebook.metadata["widgets"]  # the state of the panel is saved, too
    saved = nbformat.writes(notebook)
    secrets = [token, token.split(".")[1], (tmp_path / "data" / "platform-token").read_text().strip(), "eyJ", "pmp_"]
    files = [path for path in (tmp_path / "ipython").rglob("*") if path.is_file()]
    files.append(tmp_path / "data" / "service.log")
    for text in [saved.encode(), *(path.read_bytes() for path in files)]:
        for secret in secrets:
            assert secret.encode() not in text


def test_output_is_the_same_every_time_except_for_the_port_and_a_failing_cell_stops_the_run(run):
    cells = (
        "%pipedb connect --temporary",
        "%pipedb create-group edge --location nrt --if-not-exists",
        "%pipedb create-database flights --group edge --if-not-exists",
        "%pipedb connect flights",
        "%%sql --confirm\nCREATE TABLE IF NOT EXISTS t (a);\nDELETE FROM t;\nINSERT INTO t VALUES (1), (2)",
        "%sql BEGIN",
        "%sql SELECT sum(a) AS s FROM t",
        "%sql COMMIT",
        "%pipedb panel",
        "%pipedb tables",
    )
    failing = (
        "%%sql\nCREATE TABLE x (a);\nINSERT INTO x VALUES (1);\nINSERT INTO u VALUES (2);\nINSERT INTO x VALUES (3)",
        "print('not reached')",
    )
    first, second = run(*cells), run(*cells, *failing)
    assert "stopped" not in first.metadata
    texts = [
        [re.sub(r"localhost:\d+", "localhost:PORT", text_of(cell)) for cell in notebook.cells[: len(first.cells)]]
        for notebook in (first, second)
    ]
    assert texts[0] == texts[1]
    assert texts[0][1:5] == [
        "Connected to temporary (temporary service).\nAddress: http://main-local.localhost:PORT\n",
        "Group edge is in nrt.\n",
        "Database flights is in group edge.\n",
        "Connected to flights (temporary service).\nAddress: http://flights-local.localhost:PORT\n",
    ]
    assert texts[0][5].splitlines()[-1] == "3  INSERT INTO t VALUES (1), (2)     2 rows affected"
    assert "no such table: u" in second.metadata["stopped"]
    failed, after = second.cells[-2:]
    assert failed.outputs[-1]["ename"] == "StatementError"
    assert text_of(failed).splitlines()[-4:] == [
        "  INSERT INTO u VALUES (2);",
        "              ^",
        "Statements 1-2 were applied; statement 4 did not run.",
        "Hint: %pipedb tables lists the tables",
    ]
    assert after.outputs == []
