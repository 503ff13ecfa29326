"""Take screenshots of every panel in every state, light and dark, wide and narrow, for review.

Arguments: the path of chromium, a folder for the pictures, and optionally names of states (all by default).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lab import Notebook, Watch, browser, jupyterlab
from playwright.sync_api import Locator, expect

from pipemagic.notebook.panels.opening import NAMES

WIDE, NARROW = 960, 400  # px

START = """
import os, threading
from pipemagic.session import Session
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.errors import PipemagicError

def started():
    session = Session(environ={})
    session.connect(temporary=True)
    return session

def usual():
    session = started()
    platform = session.platform
    for group, codes in {"asia": ["nrt", "sin", "bom"], "europe": ["ams", "lhr", "fra"], "us": ["iad", "ewr"]}.items():
        for place, code in enumerate(codes):
            platform.add_location(group, code) if place else platform.create_group(group, code)
    for name, group in {"flights": "us", "shop": "us", "trips": "europe", "airports": "asia"}.items():
        platform.create_database(name, group)
    session.connect("shop")
    session.connect("flights")
    session.run('''
        CREATE TABLE flight
            (id INTEGER PRIMARY KEY, carrier TEXT, origin TEXT, dest TEXT, dep_delay REAL, note, raw BLOB);
        CREATE TABLE "long name of a table, with spaces and quotes" (a);
        CREATE VIEW late AS SELECT * FROM flight WHERE dep_delay > 30;
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 240)
        INSERT INTO flight SELECT i, 'UA', 'EWR', 'IAH', (i * 37 % 113) / 2.0 - 10,
            CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'NULL'
                ELSE replace(hex(zeroblob(90)), '00', 'long ') END,
            CASE WHEN i % 3 THEN zeroblob(40) END FROM n;
    ''')
    return session

def task(panel):
    panel.wait()
    return getattr(panel, "action", panel.tasks[-1] if panel.tasks else None)
"""

STATES = {
    "before": "session = Session(environ={})",
    "empty": """
session = started()
session.platform.delete_database("main")
session.platform.delete_group("default")
""",
    "usual": "session = usual()",
    "many": """
session = started()
for number in range(100):
    session.platform.create_database(f"db-{number:03}", "default")
""",
    "long": """
session = started()
group, database = "g" + "roup" * 14, "d" + "atab" * 14
session.platform.create_group(group, "ams")
session.platform.add_location(group, "nrt")
session.platform.create_database(database, group)
session.connect(database)
session.run("CREATE TABLE " + "t" * 63 + " (" + "c" * 63 + ")")
""",
    "class": """
import random, tempfile, time
from pipemagic.classroom import creation, model
from pipemagic.classroom.roster import Student

os.environ["PIPEMAGIC_CONFIG"] = tempfile.mkdtemp()
session = started()
session.run("CREATE TABLE flight (carrier TEXT)")
api, random = session.platform.api, random.Random(7)
made = model.Class("sql", api.url, api.slug, "default", "main", expires=time.time() + 7200)
first, last = ["Ada", "Jörg", "Zoë", "Łukasz", "明"], ["Müller", "Okonkwo", "van der Berg-Łuczak", "Nguyễn", "Smith"]
names = [f"{one} {other} {number}" for number in range(8) for one in first for other in last]
names[3] = "Maximiliane " + "Freifrau von und zu " * 4 + "Hohenstein"
creation.add_students(made, [Student(name.casefold(), name) for name in names], api.slug)
creation.create(api, made)
fields = "INSERT INTO pipemagic_progress(id, at, cells, errors, error, exercise, points, of) VALUES "
for seat in made.seats[:183]:
    with creation.Access(api, made)(seat) as database:
        ago = random.choice([5, 40, 120, 600, 1500])
        at = f"strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '-{ago} seconds')"
        passed, failed = random.randrange(9), random.random() < 0.3
        cells = random.randrange(30)
        rows = [f"(random(), {at}, {cells}, 0, NULL, 'task_{one}', 2, 2)" for one in range(passed)]
        error = "no such column: dep_dely (in a statement that joins flights, airports and planes)"
        rows += [f"(random(), {at}, 1, {int(failed)}, {repr(error) if failed else 'NULL'}, NULL, NULL, NULL)"]
        database.execute(fields + ", ".join(rows))
""",
    "error": "session = usual()",
    "busy": "session = usual()",
    "transaction": "session = usual()\nsession.run('BEGIN; UPDATE flight SET dep_delay = 0 WHERE id < 10')",
}

AFTER = {
    "class": """
if panel.title == "Class":
    task(panel)
    panel.choose(made.seats[5].database)
    panel.ask_to_reset(asking=True)
""",
    "error": """
task(panel).error = PipemagicError(
    "the server refused the request (HTTP 402): this feature is not available for starter plans",
    hint="the organization's plan does not include this", code="SERVER")
panel.changed()
""",
    "busy": """
task(panel).start("Running something that takes long ...", lambda: threading.Event().wait(600) or "")
""",
}


def cells(state: str) -> list[str]:
    """Return a cell that creates the state, then one for each panel."""
    shown = [f"panel = open_panel(session, {name!r})\n{AFTER.get(state, '')}\npanel" for name in NAMES]
    return [START + STATES[state], *shown, "session.shut_down()"]


def draw(panel: Locator, width: int) -> None:
    """Make a panel as wide as a page of that width would."""
    panel.evaluate("(panel, width) => { panel.style.maxWidth = panel.style.width = `${width}px`; }", width)


def main(chromium: str, folder: Path, states: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        with (
            tempfile.TemporaryDirectory() as home,
            jupyterlab(Path(home), dark=theme == "dark") as lab,
            browser(chromium, width=1500, height=2000) as page,
        ):
            watch = Watch(page)
            for state in states:
                notebook = Notebook(page, lab, cells(state), name=state)
                notebook.run(0)
                for place, name in enumerate(NAMES, 1):
                    notebook.run(place)
                    panel = notebook.cells.nth(place).locator(".pipemagic-panel")
                    expect(panel).to_be_visible()
                    if state != "busy":
                        expect(panel.locator(".pm-busy").filter(visible=True)).to_have_count(0)
                    for width in (WIDE, NARROW):
                        draw(panel, width)
                        panel.screenshot(path=folder / f"{name}-{state}-{theme}-{width}.png")
                notebook.run(len(NAMES) + 1)
            watch.check()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:] or list(STATES))
