"""The examples of docs/analysts/libraries.md, on each server: programs print what the page shows.

tests/docs/test_examples.py runs the cells that need no other environment, too.
"""

from __future__ import annotations

import pytest
from page_examples import DOCS, blocks, cells, normalize
from page_sections import fences

PAGE = DOCS / "analysts" / "libraries.md"
PROGRAMS = {"SQLAlchemy", "A plain connection", "dlt", "Ibis"}


@pytest.mark.parametrize("title", sorted(PROGRAMS))
def test_a_program_prints_what_the_page_shows(title, libraries, target, tmp_path):
    [program], [*_, output] = fences(PAGE, title, "python"), fences(PAGE, title, "text")
    (tmp_path / "program.py").write_text(target.addressed(program), "utf-8")
    assert libraries.run(tmp_path, "python", "program.py") == output


def test_the_cells_print_what_the_page_shows_beside_jupysql(libraries, target, tmp_path):
    """All cells of the page run in one shell. In the last one, JupySQL has replaced %sql."""
    ipython = {block.text for block in blocks(PAGE) if block.kind == "ipython"}
    shown = [cell for cell in cells(PAGE) if cell.source in ipython]
    sources = [cell.source.replace("--temporary", target.url) for cell in shown]
    outputs = libraries.run_cells(
        tmp_path, *sources, "%reload_ext pipemagic", "%sql SELECT count(*) AS n FROM main.flights"
    )
    for cell, (success, output) in zip(shown, outputs, strict=False):
        assert success, output
        if cell.expected is not None:
            assert normalize(output) == normalize(cell.expected)
    assert [success for success, _ in outputs[-2:]] == [True, True]
    assert normalize(outputs[-1][1]) == "n\n0  4"
