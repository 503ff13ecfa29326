"""Tab as a front end asks for it, of a real kernel."""

from __future__ import annotations

import os

import pytest
from jupyter_client.manager import KernelManager
from waiting import until

PATIENCE = 30.0


@pytest.fixture
def kernel(tmp_path):
    manager = KernelManager(kernel_name="python3")
    data = {"PIPEMAGIC_DATA": str(tmp_path / "data"), "IPYTHONDIR": str(tmp_path / "ipython")}
    manager.start_kernel(env={**os.environ, **data})
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=PATIENCE)
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=False)
    manager.cleanup_resources()


def complete(kernel, cell):
    """Ask at the | of a cell; gives the entries with their kinds, and the text that they replace."""
    at = cell.index("|")
    code = cell[:at] + cell[at + 1 :]
    content = kernel.complete(code, at, reply=True, timeout=PATIENCE)["content"]
    assert content["status"] == "ok"
    kinds = [one["type"] for one in content["metadata"]["_jupyter_types_experimental"]]
    replaced = code[content["cursor_start"] : content["cursor_end"]]
    return list(zip(content["matches"], kinds, strict=True)), replaced


def test_tab_in_a_kernel(kernel):
    for cell in ("%load_ext pipemagic\n%pipedb connect --temporary", '%sql CREATE TABLE city (name, "first name")'):
        assert kernel.execute_interactive(cell, timeout=PATIENCE, output_hook=print)["content"]["status"] == "ok"
    city = ([("city", "table")], "CI")
    until(lambda: complete(kernel, "%%sql\nSELECT * FROM CI|") == city)
    found, replaced = complete(kernel, "%%sql -o 😀\n-- 😀\nSELECT c.| FROM city AS c")
    assert (found, replaced) == ([("name", "column"), ('"first name"', "column")], "")
    assert complete(kernel, "%pipedb connect --tempo|") == ([("--temporary", "option")], "--tempo")
    assert complete(kernel, "%%sql\nSELECT 'pri|'")[0] == []
    assert ("print", "function") in complete(kernel, "prin|")[0]
