"""SQL colours and Tab in %%sql and %%check cells, in JupyterLab and in Notebook 7.

Arguments: the path of chromium, a folder to work in. Leaves ``lab.png``, ``tab.png``,
``connect.png`` and ``notebook.png`` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab import Notebook, browser, jupyterlab
from playwright.sync_api import Locator, Page, expect

CELLS = [
    "%load_ext pipemagic\n%pipedb connect --temporary",
    "\n%%sql --quiet -o flights\n-- all of them\nCREATE TABLE IF NOT EXISTS flight (origin TEXT, \"to\" TEXT);\n"
    "SELECT origin FROM flight WHERE origin <> 'JFK'",
    "total = 1\nlen('id')",
    "%%sqlite\nSELECT 1",
    "%%check late_flights --on temporary\nSELECT origin FROM flight",
]  # fmt: skip


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        logged: list[str] = []
        page.on("console", lambda message: logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        notebook = Notebook(page, lab, CELLS)
        look_at_colours(notebook, page)
        page.screenshot(path=folder / "lab.png")
        complete(notebook, page, folder / "tab.png")
        assert not [line for line in logged if "pipemagic" in line], logged

        notebook = Notebook(page, lab, CELLS, app="notebooks")
        look_at_colours(notebook, page)
        page.screenshot(path=folder / "notebook.png")
        assert not [line for line in logged if "pipemagic" in line], logged


def look_at_colours(notebook: Notebook, page: Page) -> None:
    text = [notebook.cells.nth(number).locator(".cm-content") for number in range(len(CELLS))]
    for number, language in enumerate(["python", "sql", "python", "python", "sql"]):
        expect(text[number]).to_have_attribute("data-language", language)
    for number, line in {1: "%%sql --quiet -o flights", 4: "%%check late_flights --on temporary"}.items():
        magic = notebook.cells.nth(number).locator(".pipemagic-sql-magic")
        expect(magic).to_have_count(1)
        expect(magic).to_have_text(line)
    expect(text[1].get_by_text("'JFK'", exact=True)).to_have_count(1)  # the editor has parsed all of the cell
    colours = text[1].evaluate(
        """cell => Object.fromEntries([...cell.querySelectorAll('span')].map(
            span => [span.textContent, getComputedStyle(span).color]))"""
    )
    plain = text[1].evaluate("cell => getComputedStyle(cell).color")
    assert colours["SELECT"] == colours["WHERE"] != plain, colours
    assert len({plain, colours["SELECT"], colours["'JFK'"], colours["-- all of them"]}) == 4, colours
    turn_into_sql_and_back(notebook, page)


def turn_into_sql_and_back(notebook: Notebook, page: Page) -> None:
    """The language of a cell follows its first line; Ctrl+/ uses the comments of that language."""
    cell = notebook.cells.nth(2).locator(".cm-content")
    cell.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("%%sql\nSELECT id")
    expect(cell).to_have_attribute("data-language", "sql")
    page.keyboard.press("Control+/")
    expect(cell.locator(".cm-line").last).to_have_text("-- SELECT id")
    page.keyboard.press("Control+/")
    expect(cell.locator(".cm-line").last).to_have_text("SELECT id")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Delete")
    expect(cell).to_have_attribute("data-language", "python")
    page.keyboard.press("Control+/")
    expect(cell.locator(".cm-line").first).to_have_text("# %sql")


def complete(notebook: Notebook, page: Page, picture: Path) -> None:
    """Tab offers the columns of a table that a cell has created, and Enter accepts one."""
    notebook.run(0)
    notebook.run(1)
    cell = notebook.cells.nth(2).locator(".cm-content")
    cell.click()
    page.keyboard.press("Control+a")
    page.keyboard.type("%%sql\nSELECT f. FROM flight AS f")
    for _ in " FROM flight AS f":
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    offered = page.locator(".jp-Completer .jp-Completer-item")
    expect(offered).to_have_count(2)
    expect(offered.first).to_contain_text("origin")
    expect(offered.last).to_contain_text('"to"')
    page.screenshot(path=picture)
    page.keyboard.press("Enter")
    expect(cell.locator(".cm-line").last).to_have_text("SELECT f.origin FROM flight AS f")
    complete_magic_lines(cell, page, picture.with_name("connect.png"))


def complete_magic_lines(cell: Locator, page: Page, picture: Path) -> None:
    """Tab behind a command offers its options and values, without the words of the cell that JupyterLab adds."""
    offered = page.locator(".jp-Completer .jp-Completer-match")
    for line, first in {"%pipedb connect ": "--temporary", "%pipedb plot ": "histogram", "%%sql ": "--on"}.items():
        cell.click()
        page.keyboard.press("Control+a")
        page.keyboard.type(line)
        page.keyboard.press("Tab")
        expect(offered.first).to_have_text(first)
        assert not {"%", "%%", "pipedb", "connect", "plot", "sql"} & {*offered.all_inner_texts()}
        if "connect" in line:
            page.screenshot(path=picture)
        page.keyboard.press("Escape")
        expect(page.locator(".jp-Completer")).to_be_hidden()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
