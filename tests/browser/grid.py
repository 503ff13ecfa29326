"""Select and copy cells of a table in a notebook, by mouse and keyboard, and compare the clipboard with SQLite.

Arguments: the path of chromium, a folder to work in, the path of axe-core's script, the input (``mouse`` or
``keyboard``), and the appearance (``light``, ``dark``, or ``narrow``, in Notebook 7). Prints one line for each thing
checked.
"""

from __future__ import annotations

import csv
import io
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from hands import Keyboard
from journey import APPS, NOT_OURS, WIDTHS
from lab import Album, Notebook, Watch, browser, jupyterlab
from playwright.sync_api import Locator, expect

TABLE = """
CREATE TABLE "values" (
  id INTEGER PRIMARY KEY, name TEXT, amount, big INTEGER, share REAL, data BLOB, note TEXT, long TEXT
);
INSERT INTO "values" WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60) SELECT
  i,
  CASE i % 9
    WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'NULL' WHEN 3 THEN '  padded ' WHEN 4 THEN '<b>bold</b>'
    WHEN 5 THEN 'two' || char(10) || 'lines' WHEN 6 THEN 'tab' || char(9) || 'here' WHEN 7 THEN '"quoted" text'
    ELSE '007'
  END,
  CASE i % 3 WHEN 0 THEN i WHEN 1 THEN i / 7.0 ELSE '12' END,
  9007199254740993 * i,
  i / 3.0,
  iif(i % 2, NULL, x'00ff'),
  'note ' || i,
  iif(i = 2, printf('%.*c', 1000, 'x'), printf('%.*c', 120, 'y'))
FROM n"""
CELLS = ["%load_ext pipemagic\n%pipedb connect", f"%%sql{TABLE}", "%pipedb panel explore", "# Ctrl+A selects no cell"]
COLUMNS, PAGE, ROWS = 8, 25, 60
LAST = COLUMNS - 1

# The cells of a table of HTML on the clipboard; a <br> is a line break inside a cell.
CLIPBOARD_TABLE = """async () => {
  const [item] = await navigator.clipboard.read(), html = await (await item.getType("text/html")).text();
  const page = new DOMParser().parseFromString(html.replaceAll(/<br[^>]*>/g, "\\n"), "text/html");
  return [...page.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
}"""
MARKED = "cells => cells.map(cell => [cell.parentElement.sectionRowIndex, cell.cellIndex - 1])"
VIOLATIONS = """async (panel) => {
  const { violations } = await axe.run(panel);
  return violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html)]);
}"""
# Whether nothing hides the corners of a cell; of a cell wider than the room, those at the edge of the first column.
VISIBLE = """(cell) => {
  const box = cell.getBoundingClientRect(), first = cell.parentElement.cells[0].getBoundingClientRect().right;
  const isWide = box.width > cell.closest(".pm-scroll").clientWidth - cell.parentElement.cells[0].offsetWidth;
  return (isWide ? [first + 3] : [box.left + 3, box.right - 3]).every((x) =>
    [box.top + 3, box.bottom - 3].every((y) => cell.contains(document.elementFromPoint(x, y))));
}"""

Rows = list[list[str]]


def expected() -> Rows:
    """Return the rows as SQLite has them, written as texts; the long value is truncated."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(TABLE)
        rows = [list(map(written, row)) for row in database.execute('SELECT * FROM "values" ORDER BY id')]
    rows[1][LAST] = "x" * 80 + "…"
    return rows


def written(value: Any) -> str:
    match value:
        case None:
            return ""
        case bytes():
            return f"x'{value.hex()}'"
        case str():
            return value
    return repr(value)


class Grid:
    """The grid on the page. Rows and columns are counted from 0, without the headings and the numbers of rows."""

    def __init__(self, notebook: Notebook) -> None:
        self.page, self.panel = notebook.page, notebook.panel
        self.root = self.panel.get_by_role("grid", name="Rows of values")
        self.status = self.root.locator("xpath=../..").get_by_role("status")

    def cell(self, row: int, column: int) -> Locator:
        return self.root.locator("tbody tr").nth(row).locator("td").nth(column)

    def number(self, row: int) -> Locator:
        return self.root.locator("tbody th").nth(row)

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def expect_page(self, first: int, last: int) -> None:
        """Wait for a page and its rows, which arrive in different messages."""
        expect(self.panel.get_by_text(f"Rows {first} to {last} of {ROWS}").filter(visible=True)).to_be_visible()
        expect(self.number(0)).to_have_text(str(first))

    def expect_at(self, row: int, column: int) -> None:
        """Check that a cell has the focus and is in view, beside the headings and the numbers of rows."""
        cell = self.cell(row, column)
        expect(cell).to_be_focused()
        expect(self.root.locator("[tabindex='0']")).to_have_count(1)
        assert cell.evaluate(VISIBLE), f"cell {row}, {column} is hidden"

    def expect_selected(self, down: range, across: range) -> None:
        """Check which cells are marked as selected."""
        selected = self.root.locator("[aria-selected=true]")
        expect(selected).to_have_count(len(down) * len(across))
        marked = selected.evaluate_all(MARKED)
        assert marked == [[row, column] for row in down for column in across], marked

    def check_copy(self, rows: Rows, words: str) -> None:
        """Copy, and compare the clipboard with rows, as a spreadsheet would read them."""
        self.press("Control+c")
        expect(self.status).to_have_text(words)
        text = self.page.evaluate("navigator.clipboard.readText()")
        if "1 cell" in words:
            assert [[text]] == rows
        else:
            assert list(csv.reader(io.StringIO(text, newline=""), "excel-tab")) == rows
        assert self.page.evaluate(CLIPBOARD_TABLE) == rows, "the HTML has other values"

    def check_accessibility(self, axe: Path) -> None:
        self.page.evaluate(axe.read_text("utf-8"))
        found = self.panel.evaluate(VIOLATIONS)
        assert not found, found


def part(rows: Rows, down: range, across: range) -> Rows:
    return [[rows[row][column] for column in across] for row in down]


def by_mouse(grid: Grid, rows: Rows) -> None:
    grid.cell(2, 1).click()
    grid.expect_selected(range(2, 3), range(1, 2))
    expect(grid.status).to_have_text("")
    grid.check_copy([["  padded "]], "1 cell copied.")
    grid.cell(4, 1).click()
    grid.check_copy([["two\nlines"]], "1 cell copied.")
    print("one cell", flush=True)
    grid.cell(6, 3).hover()
    grid.page.mouse.down()
    grid.cell(3, 0).hover()
    grid.page.mouse.up()
    grid.cell(0, 0).hover()  # without the button
    grid.expect_selected(range(3, 7), range(4))
    expect(grid.status).to_have_text("4 x 4 cells selected.")
    grid.check_copy(part(rows, range(3, 7), range(4)), "4 x 4 cells copied.")
    grid.cell(7, 4).click(modifiers=["Shift"])
    grid.expect_selected(range(6, 8), range(3, 5))
    grid.check_copy(part(rows, range(6, 8), range(3, 5)), "2 x 2 cells copied.")
    print("a rectangle", flush=True)
    grid.number(1).click()
    grid.number(2).click(modifiers=["Shift"])
    grid.check_copy(rows[1:3], f"2 x {COLUMNS} cells copied with 1 truncated value.")
    print("rows", flush=True)
    grid.button("Sort by id").click()
    grid.button("Sort by id").click()
    expect(grid.cell(0, 0)).to_have_text(str(ROWS))
    grid.cell(0, 0).click()
    grid.cell(1, 3).click(modifiers=["Shift"])
    grid.check_copy(part(rows[::-1], range(2), range(4)), "2 x 4 cells copied.")
    grid.button(f"Full value of long in row {PAGE}").click()
    expect(grid.panel.get_by_role("heading", name=f"long in row {PAGE}: 120 characters")).to_be_visible()
    grid.panel.get_by_title("Close the value").click()
    print("sorting, and a long value", flush=True)


def by_keyboard(grid: Grid, rows: Rows, hands: Keyboard) -> None:
    press = grid.press
    hands.reach_grid(grid.root)
    grid.expect_at(0, 0)
    grid.check_copy([["1"]], "1 cell copied.")
    press("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft", "ArrowUp")
    grid.expect_at(2, 0)
    press("End")
    grid.expect_at(2, LAST)
    press("Home", "Control+ArrowRight", "Control+ArrowDown")
    grid.expect_at(PAGE - 1, LAST)
    press("Control+Home")
    grid.expect_at(0, 0)
    press("Control+End")
    grid.expect_at(PAGE - 1, LAST)
    press("ArrowRight", "ArrowDown", "Home", "ArrowLeft")
    grid.expect_at(PAGE - 1, 0)
    print("arrows, Home and End", flush=True)
    press("Control+Home", "ArrowDown", "ArrowRight", *["Shift+ArrowDown"] * 3, "Shift+ArrowRight", "Shift+ArrowUp")
    grid.expect_at(1, 1)
    grid.expect_selected(range(1, 4), range(1, 3))
    expect(grid.status).to_have_text("3 x 2 cells selected.")
    grid.check_copy(part(rows, range(1, 4), range(1, 3)), "3 x 2 cells copied.")
    press("Shift+Control+End")
    grid.expect_selected(range(1, PAGE), range(1, COLUMNS))
    press("Shift+Control+Home")
    grid.expect_selected(range(2), range(2))
    press("Control+a")
    expect(grid.cell(0, 0)).to_be_focused()
    grid.check_copy(rows[:PAGE], f"{PAGE} x {COLUMNS} cells copied with 1 truncated value.")
    assert grid.page.locator(".jp-Notebook .jp-Cell.jp-mod-selected").count() <= 1, "JupyterLab selected its cells"
    press("Escape")
    grid.expect_selected(range(0), range(0))
    expect(grid.status).to_have_text("")
    print("a rectangle, and all cells", flush=True)
    press("Control+Home", "End", "Shift+ArrowDown", "PageDown")
    grid.expect_page(26, 50)
    grid.expect_at(0, LAST)
    grid.expect_selected(range(1), range(LAST, COLUMNS))  # the others were on the first page
    press("Home", "PageDown")
    grid.expect_page(51, 60)
    press("Shift+End")
    grid.check_copy([rows[50]], f"1 x {COLUMNS} cells copied.")
    press("PageDown", "PageUp", "PageUp")
    grid.expect_page(1, 25)
    grid.expect_at(0, 0)
    print("pages", flush=True)
    press("ArrowUp")
    expect(grid.button("Sort by id")).to_be_focused()
    press("Enter")
    expect(grid.root.locator("[aria-sort=ascending]")).to_contain_text("id")
    press("Enter")
    expect(grid.root.locator("[aria-sort=descending]")).to_contain_text("id")
    expect(grid.button("Sort by id")).to_be_focused()
    press("ArrowRight")
    expect(grid.button("Profile id")).to_be_focused()
    press("ArrowRight", "ArrowDown", "End")
    grid.expect_at(0, LAST)
    for key in ("Enter", "F2"):
        press(key)
        expect(grid.panel.get_by_role("heading", name="long in row 1: 120 characters")).to_be_visible()
        expect(grid.panel.get_by_title("Close the value")).to_be_focused()
        press("Escape")
        grid.expect_at(0, LAST)
    press("Tab")
    expect(grid.root.locator(":focus")).to_have_count(0)
    print("headings, and a long value", flush=True)


def main(chromium: str, folder: Path, axe: Path, how: str, look: str) -> None:
    with jupyterlab(folder, dark=look == "dark") as lab, browser(chromium, width=WIDTHS[look]) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        watch = Watch(page)
        app = "notebook" if look == "narrow" else "lab"
        notebook = Notebook(page, lab, CELLS, APPS[app])
        album = Album(page, f"grid-{how}-{look}", folder)
        try:
            for number in range(3):
                notebook.run(number)
            notebook.panel.get_by_role("button", name="Explore values").click()
            grid = Grid(notebook)
            expect(grid.root).to_have_attribute("aria-rowcount", str(ROWS + 1))
            if how == "mouse":
                by_mouse(grid, expected())
            else:
                grid.panel.get_by_role("button", name="Add filter").focus()
                by_keyboard(grid, expected(), Keyboard(notebook))
            grid.cell(1, 1).click()
            grid.cell(4, 2).click(modifiers=["Shift"])
            album.take("selected")
            grid.press("Control+a")
            grid.check_accessibility(axe)
            assert 'class="pm-number"' not in notebook.save(), "rows are in the saved notebook"
        except BaseException:
            album.take("failed", failed=True)
            raise
        watch.check(*NOT_OURS[app])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
