"""Use grids in JupyterLab: cells, and the grid of a cell; the scripts run in a shared process (see host.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from client_packages import CannotInstall, install_npm


@pytest.fixture(scope="session")
def axe(request, require_real):
    """The script of axe-core, which checks the accessibility of a page."""
    try:
        folder = install_npm(request.config.cache.mkdir("browser-packages"), Path(__file__).parent)
    except CannotInstall as reason:
        require_real(f"axe-core cannot be installed: {reason}")
        raise
    return folder / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.parametrize(("how", "look"), [("mouse", "light"), ("keyboard", "dark"), ("keyboard", "narrow")])
def test_cells_are_selected_and_copied(run, tmp_path, axe, how, look):
    assert len(run("grid.py", tmp_path, axe, how, look)) == 4


@pytest.mark.parametrize(("how", "look"), [("mouse", "light"), ("keyboard", "dark"), ("mouse", "narrow")])
def test_the_grid_of_a_cell(run, tmp_path, axe, how, look):
    assert len(run("result_grid.py", tmp_path, axe, how, look)) == 11
