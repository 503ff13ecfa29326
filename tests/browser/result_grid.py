"""Use ``%%sql --grid`` in a notebook, by mouse and keyboard, and look at its saved and exported forms.

Arguments: the path of chromium, a folder to work in, the path of axe-core's script, the input (``mouse`` or
``keyboard``), and the appearance (``light``, ``dark``, or ``narrow``, in Notebook 7). Prints one line for each thing
checked.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import nbformat
from grid import VIOLATIONS
from hands import Hands, Keyboard, Mouse
from journey import APPS, NOT_OURS, WIDTHS
from lab import Album, Lab, Notebook, Watch, browser, copied_text, jupyterlab
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Locator, Page, expect

FLIGHTS = """
CREATE TABLE flights (id INTEGER PRIMARY KEY, origin TEXT, delay REAL, day DATE, note TEXT);
INSERT INTO flights WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 130) SELECT
  i, substr('JFKLGAEWR', (i % 3) * 3 + 1, 3), iif(i % 10, i % 7 * 1.5, NULL), date('2024-01-01', (i % 50) || ' days'),
  iif(i % 25 = 1, printf('%.*c', 300, 'x'), 'note <b>' || i || '</b>')
FROM n"""
SELECT = "SELECT id, origin, delay, day, note FROM flights"
CELLS = [
    "%load_ext pipemagic\n%pipedb connect --temporary",
    f"%%sql --quiet{FLIGHTS}",
    f"%%sql --grid\n{SELECT}",
    "%%sql --grid\nSELECT origin, count(*) AS n, avg(delay) AS late FROM flights GROUP BY origin",
    "print(jfk['id'].tolist())",
    "# the copied cell",
    "from ipywidgets.widgets.widget import _instances\nprint(len(_instances))",
]
LOAD, TABLE, GRID, OTHER, EXPORTED, COPIED, COUNT = range(len(CELLS))
JFK = list(range(3, 130, 3))
"""The ids of the flights from JFK."""

WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


class ResultGrid:
    """The grid below a cell."""

    def __init__(self, notebook: Notebook, number: int, hands: Hands) -> None:
        self.page, self.hands = notebook.page, hands
        self.panel = notebook.cells.nth(number).locator(".pipemagic-panel")
        self.root = self.panel.get_by_role("grid", name="Rows of the result")

    def button(self, name: str) -> Locator:
        return self.panel.get_by_role("button", name=name, exact=True).filter(visible=True)

    def press(self, *names: str) -> None:
        for name in names:
            self.hands.press(self.button(name))

    def close(self, title: str) -> None:
        self.hands.press(self.panel.get_by_title(title).filter(visible=True))

    def field(self, label: str) -> Locator:
        return self.panel.get_by_label(label, exact=True).filter(visible=True)

    def expect_text(self, words: str | re.Pattern[str]) -> None:
        expect(self.panel.get_by_text(words).filter(visible=True).first).to_be_visible()

    def rows(self) -> list[list[str]]:
        """Return the texts of the cells."""
        return [
            [cell.inner_text().split("\n")[0] for cell in row.locator("td").all()]
            for row in self.root.locator("tbody tr").all()
        ]

    def column(self, place: int) -> list[str]:
        return [row[place] for row in self.rows()]


def turn_and_sort(grid: ResultGrid) -> None:
    grid.expect_text("Rows 1 to 25 of 130")
    for button, first, last in (("Next", 26, 50), ("Last", 126, 130), ("Previous", 101, 125), ("First", 1, 25)):
        grid.press(button)
        grid.expect_text(f"Rows {first} to {last} of 130")
        expect(grid.root.locator("tbody th").first).to_have_text(str(first))
    grid.press("Sort by delay")
    expect(grid.root.locator("[aria-sort=ascending]")).to_contain_text("delay")
    expect(grid.root.locator("tbody tr").first).to_contain_text("NULL")
    grid.press("Sort by delay")
    expect(grid.root.locator("[aria-sort=descending]")).to_contain_text("delay")
    expect(grid.root.locator("tbody tr").first).to_contain_text("9.0")
    expect(grid.root.locator("tbody td:nth-child(4)")).to_have_text([re.compile("9.0|7.5")] * 25)
    grid.press("Sort by delay")
    expect(grid.root.locator("[aria-sort=descending]")).to_have_count(0)
    print("pages and order", flush=True)


def copy_cells(grid: ResultGrid) -> None:
    """Select two rows of two columns by keys, and copy them."""
    if isinstance(grid.hands, Keyboard):
        grid.hands.reach_grid(grid.root)
    else:
        grid.root.locator("td").first.click()
    for key in ("ArrowDown", "Control+Home", "Shift+ArrowDown", "Shift+ArrowRight", "Control+c"):  # from a heading, too
        grid.page.keyboard.press(key)
    expect(grid.panel.get_by_text("2 x 2 cells copied.")).to_be_visible()
    assert grid.page.evaluate("navigator.clipboard.readText()").split() == ["1", "LGA", "2", "EWR"]
    print("copied cells", flush=True)


def filter_and_profile(grid: ResultGrid, album: Album) -> None:
    hands = grid.hands
    hands.choose(grid.field("Column"), "origin")
    hands.write(grid.field("Value"), "JFK", then="Enter")
    grid.expect_text(f"Rows 1 to 25 of {len(JFK)}")
    expect(grid.root.locator("tbody td:nth-child(3)")).to_have_text(["JFK"] * 25)
    hands.write(grid.field("Condition in SQL"), "dely > 5", then="Enter")
    grid.expect_text("no such column: dely")
    album.take("wrong-condition", grid.panel)
    hands.rewrite(grid.field("Condition in SQL"), "delay > 5", then="Enter")
    late = sum(id_ % 10 != 0 and id_ % 7 * 1.5 > 5 for id_ in JFK)
    grid.expect_text(f"Rows 1 to {late} of {late}")
    grid.press("Profile delay")
    grid.expect_text("Profiles of the filtered rows")
    album.take("filters-and-profile", grid.panel)
    grid.close("Close the profiles")
    grid.press("Remove delay > 5")
    grid.expect_text(f"Rows 1 to 25 of {len(JFK)}")
    print("filters and a profile", flush=True)


def open_value(grid: ResultGrid, album: Album) -> None:
    if isinstance(grid.hands, Keyboard):
        grid.hands.reach_grid(grid.root)
        for key in ("Control+Home", *["ArrowDown"] * 16, "End", "Enter"):
            grid.page.keyboard.press(key)
    else:
        grid.press("Full value of note in row 17")
    grid.expect_text("note in row 17: 300 characters")
    expect(grid.panel.locator("pre").filter(visible=True)).to_have_text("x" * 300)
    album.take("value", grid.panel)
    grid.close("Close the value")
    print("a long value", flush=True)


def export(grid: ResultGrid, notebook: Notebook, album: Album) -> None:
    hands = grid.hands
    grid.press("Export ...")
    hands.write(grid.field("Variable or file"), "jfk")
    album.take("export", grid.panel)
    grid.press("Export")
    grid.expect_text(f"jfk is a DataFrame of {len(JFK)} rows.")
    hands.run(EXPORTED)
    expect(notebook.output(EXPORTED).last).to_have_text(str(JFK))
    print("a variable that the next cell uses", flush=True)


def run_copy(grid: ResultGrid, notebook: Notebook) -> None:
    """Copy the cell of the displayed rows into another cell, and compare its frame with them."""
    page = grid.page
    grid.hands.enter(GRID)
    grid.press("Sort by id")
    grid.press("Sort by id")
    expect(grid.root.locator("tbody tr").first).to_contain_text("129")
    grid.press("Copy the cell")
    text = copied_text(page, "%%sql")
    assert text.startswith("%%sql --on temporary\nSELECT * FROM ("), text
    if isinstance(grid.hands, Keyboard):
        grid.hands.enter(COPIED)
        page.keyboard.press("Enter")
    else:
        notebook.cells.nth(COPIED).locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Control+v")
    notebook.run_by(lambda: page.keyboard.press("Control+Enter"), COPIED)
    frame = notebook.cells.nth(COPIED).locator("table.dataframe tbody tr")
    expect(frame).to_have_count(25)
    ids = [row.locator("td").first.inner_text() for row in frame.all()]
    assert ids == grid.column(0) == [str(id_) for id_ in JFK[::-1][:25]], ids
    print("the copied cell", flush=True)


def check_two(grid: ResultGrid, notebook: Notebook) -> None:
    """Check that another grid is independent."""
    other = ResultGrid(notebook, OTHER, grid.hands)
    expect(other.root.locator("tbody tr")).to_have_count(3)
    expect(grid.root.locator("tbody tr")).to_have_count(25)
    other.hands.enter(OTHER)
    other.press("Sort by n")
    expect(other.root.locator("[aria-sort=ascending]")).to_contain_text("n")
    expect(grid.root.locator("[aria-sort=descending]")).to_contain_text("id")
    print("two grids", flush=True)


def check_again(notebook: Notebook, grid: ResultGrid) -> None:
    """Check that a cell that runs again leaves no widgets of its first grid."""
    counts = []
    for _ in range(3):
        notebook.run(OTHER)
        expect(ResultGrid(notebook, OTHER, grid.hands).root.locator("tbody tr")).to_have_count(3)
        notebook.run(COUNT)
        counts.append(notebook.output(COUNT).last.inner_text())
    assert counts == counts[:1] * 3, counts
    print("a cell that runs again", flush=True)


def check_accessibility(grid: ResultGrid, axe: Path) -> None:
    """Check the grid with everything open."""
    grid.page.evaluate(axe.read_text("utf-8"))
    found = grid.panel.evaluate(VIOLATIONS)
    assert not found, found
    print("accessibility", flush=True)


def check_saved(page: Page, lab: Lab, notebook: Notebook, app: str, album: Album) -> None:
    """Check the notebook that is opened again, with its kernel and after that has ended, and exported HTML."""
    notebook.save()
    exported, _ = HTMLExporter().from_filename(str(notebook.path))
    html = notebook.path.with_suffix(".html")
    html.write_text(exported, "utf-8")
    for saved in json.loads(notebook.path.read_text("utf-8"))["cells"][GRID]["outputs"]:
        assert "widget-view" in str(saved["data"]) or "Rows 1 to 25 of 130" in "".join(saved["data"]["text/html"])
    form = notebook.output(GRID).locator(".pipemagic-saved")
    page.goto(lab.url(notebook.path, APPS[app]))
    expect(notebook.output(GRID).get_by_role("grid")).to_be_visible()
    expect(form).to_be_hidden()
    lab.end_kernels()
    page.goto(lab.url(notebook.path, APPS[app]))
    expect(form).to_be_visible()
    expect(form.locator("tbody tr")).to_have_count(25)
    expect(form).to_contain_text("note <b>2</b>")
    album.take("reopened")
    page.goto(html.as_uri())
    form = page.locator(".pipemagic-saved").first
    expect(form.locator("tbody tr")).to_have_count(25)
    album.take("exported")
    print("the saved forms", flush=True)


def check_executed(lab: Lab, notebook: Notebook) -> None:
    """Check that a program that runs notebooks saves the first page."""
    executed = nbformat.read(notebook.path, as_version=4)
    executed.cells = executed.cells[: EXPORTED - 1]
    own = {"PIPEMAGIC_DATA": str(lab.notebooks / "data")}
    NotebookClient(executed, timeout=120, kernel_name="python3").execute(env={**os.environ, **own})
    assert "Rows 1 to 25 of 130" in str(executed.cells[GRID].outputs)
    print("nbclient", flush=True)


def main(chromium: str, folder: Path, axe: Path, how: str, look: str) -> None:
    app = "notebook" if look == "narrow" else "lab"
    with jupyterlab(folder, dark=look == "dark") as lab, browser(chromium, width=WIDTHS[look], height=1600) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        watch = Watch(page)
        notebook = Notebook(page, lab, CELLS, APPS[app])
        album = Album(page, f"result-grid-{how}-{look}", folder)
        hands: Hands = Mouse(notebook) if how == "mouse" else Keyboard(notebook)
        try:
            for number in (LOAD, TABLE, GRID, OTHER):
                hands.run(number)
            hands.enter(GRID)
            grid = ResultGrid(notebook, GRID, hands)
            turn_and_sort(grid)
            copy_cells(grid)
            filter_and_profile(grid, album)
            open_value(grid, album)
            export(grid, notebook, album)
            run_copy(grid, notebook)
            check_two(grid, notebook)
            check_again(notebook, grid)
            grid.hands.enter(GRID)
            grid.press("Profile all columns", "Export ...")
            grid.expect_text("Profiles of the filtered rows")
            album.take("all-open", grid.panel)
            check_accessibility(grid, axe)
            assert not page.evaluate(WIDER), "the page scrolls to the side"
            watch.check(*NOT_OURS[app])
            check_saved(page, lab, notebook, app, album)
            check_executed(lab, notebook)
        except BaseException:
            album.take("failed", failed=True)
            raise


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
