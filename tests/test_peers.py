"""The pipemagic lines of docs/analysts/other-magics.md run from top to bottom in one notebook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

PAGE = Path(__file__).parents[1] / "docs" / "analysts" / "other-magics.md"


def lines() -> list[str]:
    """Return the cells of the page and the code in the columns *here* of its tables, in order."""
    found, column, fenced = [], None, None
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if fenced is not None:
            if line == "```":
                found.append("\n".join(fenced))
                fenced = None
            else:
                fenced.append(line)
        elif line == "```ipython":
            fenced = []
        elif not line.startswith("|"):
            column = None
        else:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if "here" in cells:
                column = cells.index("here")
            elif column is not None:
                found += re.findall(r"`([^`]+)`", cells[column])
    return found


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEMAGIC_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell(config=config)
    yield shell
    shell.run_line_magic("unload_ext", "pipemagic")
    InteractiveShell.clear_instance()


def test_every_pipemagic_line_runs(shell):
    ours = lines()
    assert len(ours) > 30
    for source in ours:
        with capture_output() as captured:
            result = shell.run_cell(source)
        assert result.success, f"{source}\n{captured.stdout}{captured.stderr}"
