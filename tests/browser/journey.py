"""A visitor's whole way through the panels: from an empty notebook to a database, transactions, and away again.

Arguments: the path of chromium, a folder to work in, the application (``lab`` or ``notebook``), how: ``mouse`` or
``keyboard`` (nothing is clicked, nor focused by the script, once the notebook is open), and the look: ``light``,
``dark``, or ``narrow``, where the panel has 400 px.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hands import Hands, Keyboard, Mouse
from lab import Album, Notebook, Watch, browser, jupyterlab
from playwright.sync_api import Locator, expect

CELLS = [
    "%load_ext pipemagic",
    "%pipedb panel",
    "%%sql\nCREATE TABLE airport (code TEXT PRIMARY KEY);\nINSERT INTO airport VALUES ('JFK');\n"
    "INSERT INTO airport WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 49)\n"
    "SELECT 'A' || i FROM n;\nSELECT code FROM airport WHERE code = 'JFK'",
    "%%sql\nBEGIN;\nINSERT INTO airport VALUES ('LGA')",
    "%%sql\nBEGIN;\nDELETE FROM airport WHERE code < 'J'",
    "%sql SELECT count(*) AS airports, max(code) AS last FROM airport",
]
LOAD, PANEL, QUERY, BEGIN, EMPTY, LOOK = range(len(CELLS))

APPS = {"lab": "lab/tree", "notebook": "notebooks"}

WIDTHS = {"light": 1280, "dark": 1280, "narrow": 440}  # px of the window
NARROW = 400  # px of the panel, at most, in a window that is narrow

ATTEMPTS = 4
"""A transaction lasts 5 s, and a machine may have other things to do: then a visitor begins it anew."""

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
        self.look_at_map()
        self.create_database()
        self.run_sql()
        self.make_token()
        self.explore()
        self.look_at_organization()
        self.change_connections()
        self.keep_alive()
        self.commit_by_button()
        self.roll_back_by_button()
        self.delete_database()

    def open(self) -> None:
        self.hands.run(LOAD)
        self.hands.run(PANEL)
        self.hands.enter(PANEL)
        self.album.take("before-connect")
        self.hands.press(self.button("Connect"))
        expect(self.panel.get_by_role("table", name="Locations")).to_be_visible()

    def see_locations(self) -> None:
        expect(self.panel.get_by_role("row", name="nrt").first).to_contain_text("Tokyo")
        expect(self.map()).to_be_visible()
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
        expect(row).to_contain_text("Frankfurt, Germany (fra)")
        self.album.take("second-location")

    def look_at_map(self) -> None:
        """Find a place, see what is where, open the form of a mark, and leave it by Escape."""
        self.hands.turn_to(self.panel, "Locations")
        expect(self.map()).to_have_accessible_name(re.compile("primary at .*nrt.*; replicas at fra"))
        self.hands.write(self.field("Filter"), "sydney")
        expect(self.panel.get_by_role("table", name="Locations").get_by_role("row")).to_have_count(2)
        self.hands.point_at(self.panel, "syd")
        group = self.field("Add to group")
        expect(group).to_be_focused()
        self.album.take("mark", self.panel)
        self.notebook.page.keyboard.press("Escape")
        expect(group).to_have_count(0)

    def create_database(self) -> None:
        self.hands.turn_to(self.panel, "Databases")
        self.hands.write(self.field("Database name"), "main")
        expect(self.panel.get_by_text("main exists already")).to_be_visible()
        self.album.take("taken-name")
        self.hands.rewrite(self.field("Database name"), "flights")
        self.hands.choose(self.field("Group"), "edge")
        self.hands.press(self.button("Create database"))
        connect = self.button("Connect to the new database flights")
        expect(connect).to_be_visible()
        self.album.take("database")
        self.hands.press(connect)
        expect(self.panel.get_by_text("flights is the current connection")).to_be_visible()
        self.album.take("connected")
        self.hands.press(self.button("Done"))
        expect(self.button("Done")).to_have_count(0)

    def run_sql(self) -> None:
        self.hands.run(QUERY)
        expect(self.notebook.output(QUERY).last).to_contain_text("JFK")
        self.album.take("sql")
        self.hands.enter(PANEL)

    def make_token(self) -> None:
        """A token that reads only, for an hour: hidden, shown, copied, put away."""
        self.hands.turn_to(self.panel, "Databases")
        self.hands.press(self.button("Details of flights"))
        self.hands.press(self.button("New token ..."))
        self.hands.choose(self.field("Expires"), "1h")
        self.hands.press(self.field("Only for reading"), key="Space")
        self.hands.press(self.button("Make token"))
        self.told("The token is made. It is shown only now.")
        self.album.take("token")
        self.hands.press(self.button("Copy token"))
        expect(self.notebook.page.get_by_text("Copied", exact=True)).to_have_count(1)
        copied = self.notebook.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("eyJ"), "what was copied is no token"
        assert copied not in self.notebook.page.content()
        self.hands.press(self.button("Done"))
        expect(self.button("Copy token")).to_have_count(0)

    def explore(self) -> None:
        """From the first rows of a table to all of them: turned, sorted, filtered."""
        self.hands.press(self.button("First rows of airport"))
        self.hands.press(self.button("Explore airport"))
        rows = self.panel.get_by_role("table", name="Rows of airport")
        self.shows("Rows 1 to 25 of 41")
        self.album.take("explored")
        self.hands.press(self.button("Next"))
        self.shows("Rows 26 to 41 of 41")
        self.hands.press(self.button("Sort by code"))
        self.hands.press(self.button("Sort by code"))
        expect(rows.get_by_role("row").nth(1)).to_contain_text("JFK")
        self.hands.choose(self.field("Comparison"), ">=")
        self.hands.write(self.field("Value"), "A40", then="Enter")
        self.shows("Rows 1 to 11 of 11")
        self.album.take("filtered")

    def look_at_organization(self) -> None:
        self.hands.turn_to(self.panel, "Organization")
        expect(self.panel.get_by_role("heading", name="Used in this calendar month (UTC)")).to_be_visible()
        self.album.take("organization")

    def change_connections(self) -> None:
        """The organization's first database is a connection too: to it, and back."""
        self.hands.turn_to(self.panel, "Session")
        self.hands.press(self.button("Use main"))
        self.told("Using main.")
        self.album.take("other-connection")
        self.hands.press(self.button("Use flights"))
        self.told("Using flights.")

    def keep_alive(self) -> None:
        keeping = self.card().get_by_label("Keep alive between cells")
        self.hands.choose(keeping, "10m")
        self.told("flights is kept alive for 10 min after each cell.")
        self.hands.run(LOOK)
        expect(self.card()).to_contain_text(re.compile("until .* without a cell"))
        self.album.take("kept", self.panel)
        self.hands.enter(PANEL)
        self.hands.choose(keeping, "off")
        self.told("flights is no longer kept alive between cells.")

    def commit_by_button(self) -> None:
        """Begin in a cell, see the time run out, and commit before it has."""
        for _ in range(ATTEMPTS):
            self.hands.run(BEGIN)
            self.see_bar()
            self.hands.enter(PANEL)
            self.hands.press(self.button("Commit flights"), at_once=True)
            committed, lost = self.status("Committed"), self.card().get_by_text("rolled it back").first
            expect(committed.or_(lost).first).to_be_visible()
            if committed.is_visible():
                break
            self.hands.press(self.button("Roll back flights"))  # it took too long
            self.told("cells run again on flights")
        self.told("Committed")
        self.album.take("committed")
        self.hands.run(LOOK)
        expect(self.notebook.output(LOOK).last).to_contain_text("LGA")

    def see_bar(self) -> None:
        bar = self.card().get_by_role("timer", name="Time left of the transaction of flights")
        expect(bar).to_be_visible()
        before = left_of(bar)
        self.album.take("transaction", self.panel)
        self.notebook.page.wait_for_function("([bar, before]) => bar.style.getPropertyValue('--left') < before",
                                             arg=[bar.element_handle(), before])  # fmt: skip
        assert float(left_of(bar)) < float(before) <= 1, "the bar does not run down"

    def roll_back_by_button(self) -> None:
        """What was deleted is there again, whether the button or the end of its time rolled it back."""
        self.hands.run(EMPTY)
        self.hands.enter(PANEL)
        self.hands.press(self.button("Roll back flights"))
        self.told(re.compile("Rolled back 1 statement on flights|The server had rolled it back already"))
        self.album.take("rolled-back")
        self.hands.run(LOOK)
        expect(self.notebook.output(LOOK).last).to_contain_text("42")
        self.hands.enter(PANEL)

    def delete_database(self) -> None:
        self.hands.turn_to(self.panel, "Databases")
        self.album.take("details")
        self.hands.press(self.button("Delete flights ..."))
        self.hands.write(self.field("Type flights to delete"), "flights", then="Enter")
        expect(self.panel.get_by_role("table", name="Databases")).not_to_contain_text("flights")
        self.album.take("deleted")

    # -- what there is on the page

    def button(self, name: str) -> Locator:
        return self.panel.get_by_role("button", name=name, exact=True)

    def field(self, label: str) -> Locator:
        return self.panel.get_by_label(label, exact=True)

    def map(self) -> Locator:
        """Give the map that is shown, of the one for wide pages and the one for narrow ones."""
        return self.panel.get_by_role("img").filter(visible=True).first

    def card(self) -> Locator:
        """Give what the session's panel tells of the database that was made."""
        return self.panel.get_by_role("group", name="Connection flights")

    def shows(self, words: str) -> None:
        expect(self.panel.get_by_text(words).first).to_be_visible()

    def status(self, words: str | re.Pattern[str]) -> Locator:
        return self.panel.get_by_role("status").filter(has_text=words).first

    def told(self, words: str | re.Pattern[str]) -> None:
        expect(self.status(words)).to_be_visible()


def left_of(bar: Locator) -> str:
    """Give what is left of a bar, of 1."""
    return str(bar.evaluate("(bar) => bar.style.getPropertyValue('--left')"))


def main(chromium: str, folder: Path, app: str, how: str, look: str) -> None:
    with (
        jupyterlab(folder, dark=look == "dark") as lab,
        browser(chromium, width=WIDTHS[look]) as page,
    ):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        watch = Watch(page)
        notebook = Notebook(page, lab, CELLS, APPS[app])
        album = Album(page, f"{app}-{how}-{look}", folder)
        try:
            Visitor(notebook, Mouse(notebook) if how == "mouse" else Keyboard(notebook), album).go()
        except BaseException:
            album.take("failed", failed=True)
            raise
        if look == "narrow":
            width = notebook.panel.bounding_box()["width"]
            assert width <= NARROW, width
        saved = notebook.save()
        assert "eyJ" not in saved, "a token is in the saved notebook"
        assert "pmp_" not in saved, "a token is in the saved notebook"
        watch.check(*NOT_OURS[app])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
