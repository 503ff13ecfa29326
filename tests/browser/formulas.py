"""Names and values with $...$ are shown as they are in JupyterLab and in Notebook 7, which set formulas in HTML.

Arguments: the path of chromium, a folder to work in. Leaves ``lab.png`` and ``notebook.png`` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab import Notebook, browser, jupyterlab
from playwright.sync_api import Locator, Page, expect

VALUE = "$x^2$ and $y_1$"
CELLS = [
    "%load_ext pipemagic\n%pipedb connect --temporary",
    "from IPython.display import HTML\ntable, other = '$a$', \"SELECT 'other' AS [$b$]\"\nHTML('<p>$x^2$</p>')",
    f'%%sql\nCREATE TABLE IF NOT EXISTS "$a$" AS SELECT \'{VALUE}\' AS "$b$";\nSELECT \'{VALUE}\' AS "$c$";\n'
    'SELECT * FROM "$a$" -- $d$ and $e$',
    f"%sql --type polars SELECT '{VALUE}' AS \"$b$\"",
    "%pipedb tables",
    "%pipedb profile {table}",
    "%pipedb diff {table} {other}",
    "%pipedb diagram",
    '%sql --dry-run SELECT "$b$", \'$f$ and $g$\' FROM "$a$"',
]


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        for app, picture in (("lab/tree", "lab.png"), ("notebooks", "notebook.png")):
            notebook = Notebook(page, lab, CELLS, app=app)
            look_for_formulas(notebook, page)
            page.screenshot(path=folder / picture)


def look_for_formulas(notebook: Notebook, page: Page) -> None:
    for number in range(len(CELLS)):
        notebook.run(number)
    expect(formulas(notebook.cells.nth(1))).to_have_count(1)  # MathJax runs: others would be set by now
    for number in range(2, len(CELLS)):
        expect(notebook.cells.nth(number).locator(".jp-OutputArea")).to_contain_text("$")
        expect(formulas(notebook.cells.nth(number))).to_have_count(0)
    expect(notebook.cells.nth(2)).to_contain_text(VALUE)
    notebook.cells.nth(2).scroll_into_view_if_needed()
    page.mouse.move(0, 0)


def formulas(cell: Locator) -> Locator:
    return cell.locator(".jp-OutputArea mjx-container")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
