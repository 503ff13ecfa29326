"""Take the screenshots of the documentation, with the tools of the browser tests: `.ci/screenshots.py [FOLDER]`.

The folder is docs/images by default. chromium is the one of PIPEMAGIC_CHROMIUM, or on the PATH.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from lab import Notebook, browser, jupyterlab  # noqa: E402
from PIL import Image  # noqa: E402
from playwright.sync_api import Locator, Page, expect  # noqa: E402

COLOURS = 128  # of a picture: enough for text, and a third of the size
WIDTH, HEIGHT = 900, 2600  # room for both panels

CELLS = [
    "%load_ext pipemagic\n%pipedb connect --temporary\n%pipedb create-group edge --location nrt\n"
    "%pipedb create-database flights --group edge\n%pipedb connect flights",
    "%%sql\nCREATE TABLE airlines (carrier TEXT PRIMARY KEY, name TEXT);\n"
    "CREATE TABLE flights (id INTEGER PRIMARY KEY, carrier TEXT REFERENCES airlines, origin TEXT, dep_delay REAL);\n"
    "INSERT INTO airlines VALUES ('AA', 'American Airlines Inc.'), ('UA', 'United Air Lines Inc.');\n"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 240)\n"
    "INSERT INTO flights SELECT i, iif(i % 3, 'UA', 'AA'), iif(i % 2, 'EWR', 'JFK'), (i * 37 % 113) / 2.0 - 10 FROM n",
    "%pipedb panel databases",
    "%pipedb panel explore",
    "%%exercise late\n-- task: How many flights of each carrier were more than 40 minutes late?\n"
    "--   Return the columns `carrier` and `late`.\n-- points: 2\n-- hint: count(*) counts the rows of a group.\n"
    "SELECT carrier, count(*) AS late FROM flights WHERE dep_delay > 40 GROUP BY carrier",
    "%%check late\nSELECT carrier, count(*) AS n FROM flights\nWHERE dep_delay > 40 GROUP BY carrier LIMIT 1",
    "%%exercise gates\n-- task: Create the table of gates: their airport and number, which are its primary key.\n"
    "-- points: 2\n"
    "CREATE TABLE gates (airport TEXT, number INTEGER, seats INTEGER NOT NULL, PRIMARY KEY (airport, number))",
    "%%check gates\nCREATE TABLE gates\n  (airport TEXT PRIMARY KEY, number TEXT, seats INTEGER)",
    "%sql BEGIN",
    "%sql UPDATE flights SET dep_delay = 0 WHERE dep_delay < 0",
    "%%sql\nSELECT count(*) AS late FROM flights WHERE dep_delay > 40;\nCOMMIT",
    "%pipedb wire last",
    "",
]
SETUP, TABLES, DATABASES, EXPLORE, EXERCISE, CHECK, STATE, STATE_CHECK, BEGIN, UPDATE, COMMIT, WIRE, QUERY = range(
    len(CELLS)
)

CLASS = [
    "%load_ext pipemagic\n%pipedb connect\n%pipedb create-database birds\n%pipedb connect birds\n"
    "%sql CREATE TABLE bird (name TEXT, species TEXT, mass_g INTEGER)",
    """import sys
from pathlib import Path
students = "Ada Lovelace", "Grace Hopper", "Jörg Müller", "Zoë Chan", "Noor Haddad", "Tomás Silva"
_ = Path("roster.csv").write_text("\\n".join(["name", *students]), "utf-8")
!{sys.executable} -m pipemagic class create roster.csv --group default --from birds --name sql-1 --record --address http://teacher.lan:8080""",
    """import pipemagic
from pipemagic.teaching.classes import model
species = "select species, count(*) as birds from bird"
done = [  # exercise, points, possible points, wrong answer
    [("heavy", 0, 4, "select name from bird"), ("heavy", 4, 4, None), ("species", 2, 2, None)],
    [("heavy", 4, 4, None), ("species", 2, 2, None)],
    [("heavy", 2, 4, "select name from bird where mass_g < ?"), ("species", 0, 2, species), (None, None, None, None)],
    [("heavy", 4, 4, None), ("species", 0, 2, species)],
    [],
    [("heavy", 1, 4, "select * from bird"), ("heavy", 4, 4, None), ("species", 0, 2, species)],
]
for seat, rows in zip(model.load().seats, done):
    with pipemagic.connect(seat.url, seat.token) as database:
        for number, (exercise, points, of, answer) in enumerate(rows):
            error = None if exercise else 'near "mass_g": syntax error'
            database.execute(
                "INSERT INTO pipemagic_progress(id, cells, errors, error, exercise, points, of) "
                "VALUES (?, 1, ?, ?, ?, ?, ?)", [number, int(not exercise), error, exercise, points, of]
            )
            if answer:
                database.execute(
                    "INSERT INTO pipemagic_answers VALUES "
                    "(?, ?, '1 missing row and 1 row that differs: is GROUP BY missing?')", [number, answer]
                )""",
    "%pipedb panel class",
]
"""A class, what the notebooks of its students write, and its panel."""


def save(picture: bytes, path: Path) -> None:
    """Write a screenshot as a small PNG."""
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size:,} bytes")


def shown(panel: Locator) -> bytes:
    """Return the picture of a panel without work in progress."""
    expect(panel.locator(".pm-busy").filter(visible=True)).to_have_count(0)
    return panel.screenshot()


def databases(notebook: Notebook) -> bytes:
    """Show the details of a database."""
    notebook.run(DATABASES)
    panel = notebook.cells.nth(DATABASES).locator(".pipemagic-panel")
    panel.get_by_role("button", name="Details of flights").click()
    expect(panel.get_by_role("table", name="Tables of flights")).to_contain_text("airlines")
    return shown(panel)


def explore(notebook: Notebook) -> bytes:
    """Show rows that are sorted and filtered."""
    notebook.run(EXPLORE)
    panel = notebook.cells.nth(EXPLORE).locator(".pipemagic-panel")
    panel.get_by_role("button", name="Explore flights").click()
    panel.get_by_label("Column", exact=True).select_option(label="dep_delay")
    panel.get_by_label("Comparison", exact=True).select_option(label=">=")
    panel.get_by_label("Value", exact=True).fill("42")
    panel.get_by_label("Value", exact=True).press("Enter")
    expect(panel.get_by_text("Rows 1 to 22 of 22")).to_be_visible()
    panel.get_by_role("button", name="Sort by dep_delay").click()
    expect(panel.locator("th[aria-sort=ascending]")).to_have_count(1)
    return shown(panel)


def exercise_feedback(notebook: Notebook, page: Page, exercise: int, text: str) -> bytes:
    """Check the answer in the cell below an exercise."""
    notebook.run(exercise)
    notebook.run(exercise + 1)
    cell = notebook.cells.nth(exercise + 1)
    expect(cell).to_contain_text(text)
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    assert box is not None
    return page.screenshot(clip={**box, "width": 640})  # without the buttons of the cell


def class_panel(notebook: Notebook) -> bytes:
    """Show the progress of a class."""
    for number in range(len(CLASS)):
        notebook.run(number)
    panel = notebook.cells.nth(len(CLASS) - 1).locator(".pipemagic-panel")
    expect(panel.get_by_text("5 of 6 connected, 2 passed all 2 exercises, 1 with errors")).to_be_visible()
    return shown(panel)


def class_handouts(page: Page, folder: Path) -> bytes:
    """Show two cards of the hand-outs of the class."""
    page.goto((folder / "sql-1-handouts.html").as_uri())
    page.set_viewport_size({"width": 800, "height": HEIGHT})
    page.locator("h1").evaluate("title => title.remove()")
    cards = page.locator("section")
    expect(cards.locator(".qr")).to_have_count(6)  # segno is installed
    first = cards.first.bounding_box()
    assert first is not None
    return page.screenshot(clip={"x": 0, "y": 0, "width": 800, "height": first["y"] + first["height"] + 12})


def wire(notebook: Notebook) -> bytes:
    """Show the requests of a cell, which ends a transaction."""
    for number in (BEGIN, UPDATE, COMMIT, WIRE):
        notebook.run(number)
    cell = notebook.cells.nth(WIRE)
    cell.evaluate("cell => cell.scrollIntoView({block: 'start'})")
    return cell.screenshot()


def type_query(notebook: Notebook, page: Page, before: str, after: str = "") -> Locator:
    """Type a query into the last cell, with the cursor between two parts; return the cell."""
    cell = notebook.cells.nth(QUERY)
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type(before + after)
    for _ in after:
        page.keyboard.press("ArrowLeft")
    return cell


def around(page: Page, cell: Locator, *others: Locator) -> bytes:
    """Return the picture of a cell and of what is open above or below it."""
    boxes = [box for locator in (cell, *others) if (box := locator.bounding_box()) is not None]
    left, top = min(box["x"] for box in boxes), min(box["y"] for box in boxes)
    bottom = max(box["y"] + box["height"] for box in boxes) + 8
    right = max(box["x"] + box["width"] for box in boxes)
    return page.screenshot(clip={"x": left, "y": top, "width": min(right - left, 720), "height": bottom - top})


def completion(notebook: Notebook, page: Page) -> bytes:
    """Open the list of the columns of a table."""
    cell = type_query(notebook, page, "%%sql\nSELECT a.name, f.", " FROM flights AS f JOIN airlines AS a")
    page.keyboard.press("Tab")
    offered = page.locator(".jp-Completer")
    expect(offered.locator(".jp-Completer-item")).to_have_count(4)
    return around(page, cell, offered)


def help_on_a_table(notebook: Notebook, page: Page) -> bytes:
    """Open the help on a table."""
    cell = type_query(notebook, page, "%%sql\nSELECT count(*) FROM flig", "hts")
    page.keyboard.press("Shift+Tab")
    tooltip = page.locator(".jp-Tooltip")
    expect(tooltip).to_contain_text("REFERENCES")
    return around(page, cell, tooltip)


def main(folder: Path) -> None:
    """Take all screenshots with one notebook."""
    chromium = os.environ.get("PIPEMAGIC_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no chromium on the PATH, and PIPEMAGIC_CHROMIUM names none")
    with (
        tempfile.TemporaryDirectory() as home,
        jupyterlab(Path(home)) as lab,
        browser(chromium, width=WIDTH, height=HEIGHT) as page,
    ):
        notebook = Notebook(page, lab, CELLS, app="notebooks")
        notebook.run(SETUP)
        notebook.run(TABLES)
        for name, picture in {
            "panel-databases": databases(notebook),
            "panel-explore": explore(notebook),
            "exercise-feedback": exercise_feedback(notebook, page, EXERCISE, "1 of 2 points"),
            "exercise-state": exercise_feedback(notebook, page, STATE, "seats must be NOT NULL"),
            "wire": wire(notebook),
            "completion": completion(notebook, page),
            "help-on-a-table": help_on_a_table(notebook, page),
        }.items():
            save(picture, folder / f"{name}.png")
        save(class_panel(Notebook(page, lab, CLASS, app="notebooks", name="class")), folder / "class-panel.png")
        save(class_handouts(page, lab.notebooks), folder / "class-handouts.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
