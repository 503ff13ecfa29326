"""A visitor's whole way through the panels: from an empty notebook to a database, a transaction, and away again.

Arguments: the path of chromium, a folder to work in, the application (``lab`` or ``notebook``), and how: ``mouse`` or
``keyboard`` (nothing is clicked, nor focused by the script, once the notebook is open).
"""

from __future__ import annotations

import sys
from pathlib import Path

from hands import Hands, Keyboard, Mouse
from lab import PATIENCE, Album, Notebook, Watch, browser, jupyterlab
from playwright.sync_api import Locator, expect

CELLS = [
    "%load_ext pipemagic",
    "%pipedb panel",
    "%%sql\nCREATE TABLE airport (code TEXT PRIMARY KEY);\nINSERT INTO airport VALUES ('JFK');\n"
    "SELECT code FROM airport",
    "%%sql\nBEGIN;\nINSERT INTO airport VALUES ('LGA')",
    "%sql SELECT code FROM airport ORDER BY code",
]
LOAD, PANEL, QUERY, BEGIN, LOOK = range(len(CELLS))

APPS = {"lab": "lab/tree", "notebook": "notebooks"}

NOT_OURS = {"lab": (), "notebook": ("reading 'schema'", "filebrowser:open-path", "404 (Not Found)")}
"""What the applications themselves complain about, whatever is installed."""


class Visitor:
    """Goes the way in one of two manners, and takes pictures."""

    def __init__(self, notebook: Notebook, hands: Hands, album: Album) -> None:
        self.notebook, self.hands, self.album = notebook, hands, album
        self.panel = notebook.panel

    def go(self) -> None:
        self.open()
        self.see_locations()
        self.create_group()
        self.add_location()
        self.create_database()
        self.run_sql()
        self.commit_by_button()
        self.delete_database()

    def open(self) -> None:
        self.hands.run(LOAD)
        self.hands.run(PANEL)
        self.hands.enter(PANEL)
        self.album.take("before-connect")
        self.hands.press(self.button("Connect"))
        expect(self.panel.get_by_role("table", name="Locations")).to_be_visible(timeout=PATIENCE)

    def see_locations(self) -> None:
        expect(self.panel.get_by_role("row", name="nrt").first).to_contain_text("Tokyo")
        expect(self.panel.locator("svg").first).to_be_visible()
        self.album.take("locations")

    def create_group(self) -> None:
        self.hands.turn_to(self.panel, "Groups")
        self.hands.write(self.field("Group name"), "edge")
        self.hands.choose(self.field("Primary location"), "nrt")
        self.hands.press(self.button("Create group"))
        self.told("Group edge is in nrt.")
        self.album.take("group")

    def add_location(self) -> None:
        self.hands.press(self.button("Add a location to edge"))
        self.hands.choose(self.field("New location of edge"), "fra")
        self.hands.press(self.button("Add location"))
        row = self.panel.get_by_role("table", name="Groups").get_by_role("row", name="edge")
        expect(row).to_contain_text("Frankfurt, Germany (fra)", timeout=PATIENCE)
        self.album.take("second-location")

    def create_database(self) -> None:
        self.hands.turn_to(self.panel, "Databases")
        self.hands.write(self.field("Database name"), "main")
        expect(self.panel.get_by_text("main exists already")).to_be_visible(timeout=PATIENCE)
        self.album.take("taken-name")
        self.hands.rewrite(self.field("Database name"), "flights")
        self.hands.choose(self.field("Group"), "edge")
        self.hands.press(self.button("Create database"))
        connect = self.button("Connect to the new database flights")
        expect(connect).to_be_visible(timeout=PATIENCE)
        self.album.take("database")
        self.hands.press(connect)
        expect(self.panel.get_by_text("flights is the current connection")).to_be_visible(timeout=PATIENCE)
        self.album.take("connected")

    def run_sql(self) -> None:
        self.hands.run(QUERY)
        expect(self.notebook.output(QUERY).last).to_contain_text("JFK", timeout=PATIENCE)
        self.album.take("sql")
        self.hands.enter(PANEL)

    def commit_by_button(self) -> None:
        self.hands.turn_to(self.panel, "Session")
        self.hands.run(BEGIN)
        bar = self.panel.locator(".pm-clock").first
        expect(bar).to_be_visible(timeout=PATIENCE)
        before = left_of(bar)
        self.album.take("transaction")
        self.notebook.page.wait_for_function("([bar, before]) => bar.style.getPropertyValue('--left') < before",
                                             arg=[bar.element_handle(), before])  # fmt: skip
        assert 0 < float(left_of(bar)) < float(before) <= 1, "the bar does not run down"
        self.hands.enter(PANEL)
        self.hands.press(self.button("Commit flights"))
        self.told("Committed")
        self.album.take("committed")
        self.hands.run(LOOK)
        expect(self.notebook.output(LOOK).last).to_contain_text("LGA", timeout=PATIENCE)
        self.hands.enter(PANEL)

    def delete_database(self) -> None:
        self.hands.turn_to(self.panel, "Databases")
        self.hands.press(self.button("Details of flights"))
        self.album.take("details")
        self.hands.press(self.button("Delete flights ..."))
        self.hands.write(self.field("Type flights to delete"), "flights", then="Enter")
        expect(self.panel.get_by_role("table", name="Databases")).not_to_contain_text("flights", timeout=PATIENCE)
        self.album.take("deleted")

    # -- what there is on the page

    def button(self, name: str) -> Locator:
        return self.panel.get_by_role("button", name=name, exact=True)

    def field(self, label: str) -> Locator:
        return self.panel.get_by_label(label, exact=True)

    def told(self, words: str) -> None:
        expect(self.panel.get_by_role("status").filter(has_text=words).first).to_be_visible(timeout=PATIENCE)


def left_of(bar: Locator) -> str:
    """Give what is left of a bar, of 1."""
    return str(bar.evaluate("(bar) => bar.style.getPropertyValue('--left')"))


def main(chromium: str, folder: Path, app: str, how: str) -> None:
    with jupyterlab(folder) as address, browser(chromium) as page:
        watch = Watch(page)
        notebook = Notebook(page, address, folder, CELLS, APPS[app])
        album = Album(page, f"{app}-{how}", folder)
        try:
            Visitor(notebook, Mouse(notebook) if how == "mouse" else Keyboard(notebook), album).go()
        except BaseException:
            album.take("failed")
            raise
        saved = notebook.save()
        assert "eyJ" not in saved, "a token is in the saved notebook"
        assert "pmp_" not in saved, "a token is in the saved notebook"
        watch.check(*NOT_OURS[app])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
