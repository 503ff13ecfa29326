"""A complete journey through the panels: from an empty notebook to a database, transactions, and its deletion.

Arguments: the path of chromium, a working folder, the application (``lab`` or ``notebook``), the input: ``mouse`` or
``keyboard`` (once the notebook is open, the script clicks and focuses nothing), and the appearance: ``light``,
``dark``, or ``narrow``, in which the panel is 400 px wide.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from hands import Hands, Keyboard, Mouse
from lab import Album, Notebook, Watch, browser, copied_text, jupyterlab
from playwright.sync_api import Locator, expect

CELLS = [
    "%load_ext pipemagic",
    "%pipedb panel",
    "%%sql\nCREATE TABLE airport (code TEXT PRIMARY KEY);\nINSERT INTO airport VALUES ('JFK');\n"
    "INSERT INTO airport WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 49)\n"
    "SELECT 'A' || i FROM n;\nSELECT code FROM airport WHERE code = 'JFK'",
    "%%sql\nBEGIN;\nINSERT INTO airport VALUES ('LGA')",
    "%%sql\nBEGIN;\nINSERT INTO airport VALUES ('EWR')",
    "%%sql\nBEGIN;\nDELETE FROM airport WHERE code < 'J'",
    "%sql SELECT count(*) AS airports, max(code) AS last FROM airport",
    "import pipemagic\nfrom pipemagic import launcher\nlocal = launcher.find()\n"
    "pipemagic.management(local.url, local.platform_token()).create_organization('Club')",
]
LOAD, PANEL, QUERY, BEGIN, TIME_OUT, DELETE, COUNT, CLUB = range(len(CELLS))

APPS = {"lab": "lab/tree", "notebook": "notebooks"}

WIDTHS = {"light": 1280, "dark": 1280, "narrow": 440}  # px, window
NARROW = 400  # px, maximum width of the panel in a narrow window

ATTEMPTS = 4
"""A transaction lasts 5 s, which a busy machine may exceed; it is then started again."""

NOT_OURS = {
    "lab": (),
    "notebook": ("reading 'schema'", "filebrowser:open-path", "404 (Not Found)", "/static/notebook/"),
}
"""Console errors of the applications themselves.

jupyter_server caches the paths of static files by name only: a font that was requested from JupyterLab's folder before
is refused (403) below ``/static/notebook/``.
"""


class Visitor:
    """Performs the journey by mouse or keyboard, and takes screenshots."""

    def __init__(self, notebook: Notebook, hands: Hands, album: Album) -> None:
        self.notebook, self.hands, self.album = notebook, hands, album
        self.panel = notebook.panel

    def run(self) -> None:
        self.open()
        self.check_locations()
        self.create_group()
        self.add_location()
        self.check_map()
        self.create_database()
        self.run_sql()
        self.make_token()
        self.explore()
        self.check_organization()
        self.change_connections()
        self.keep_alive()
        self.commit_by_button()
        self.time_out_and_rerun()
        self.roll_back_by_button()
        self.delete_database()

    def open(self) -> None:
        self.hands.run(LOAD)
        self.hands.run(PANEL)
        self.hands.enter(PANEL)
        self.album.take("before-connect")
        self.hands.press(self.button("Connect"))
        expect(self.panel.get_by_role("table", name="Databases")).to_be_visible()

    def check_locations(self) -> None:
        self.hands.select_tab(self.panel, "Locations")
        expect(self.panel.get_by_role("row", name="nrt").first).to_contain_text("Tokyo")
        expect(self.map()).to_be_visible()
        self.album.take("locations")

    def create_group(self) -> None:
        self.hands.select_tab(self.panel, "Groups")
        self.hands.write(self.field("Group name"), "edge")
        self.hands.choose(self.field("Primary location"), "Tokyo, Japan (nrt)")
        self.hands.press(self.button("Create group"))
        self.expect_status("Group edge is in nrt.")
        self.album.take("group")

    def add_location(self) -> None:
        self.hands.press(self.button("Add a location to edge"))
        self.hands.choose(self.field("New location"), "Frankfurt, Germany (fra)")
        self.hands.press(self.button("Add location"))
        row = self.panel.get_by_role("table", name="Groups").get_by_role("row", name="edge")
        expect(row).to_contain_text("Frankfurt, Germany (fra)")
        self.album.take("second-location")

    def check_map(self) -> None:
        """Check the map and the filter, open the form of a location, and close it with Escape."""
        self.hands.select_tab(self.panel, "Locations")
        expect(self.map()).to_have_accessible_name(re.compile("primary at .*nrt.*; replicas at fra"))
        self.hands.write(self.field("Filter"), "sydney")
        expect(self.panel.get_by_role("table", name="Locations").locator("tbody tr")).to_have_count(1)
        self.hands.press(self.button("Add syd to a group"))
        group = self.field("Add to group")
        expect(group).to_be_focused()
        self.album.take("form", self.panel)
        self.notebook.page.keyboard.press("Escape")
        expect(group).to_have_count(0)

    def create_database(self) -> None:
        self.hands.select_tab(self.panel, "Databases")
        self.hands.write(self.field("Database name"), "main")
        expect(self.panel.get_by_text("main already exists")).to_be_visible()
        self.album.take("taken-name")
        self.hands.choose(self.field("Group"), "edge")
        self.hands.rewrite(self.field("Database name"), "flights", then="Enter")
        connect = self.button("Connect")
        expect(connect).to_be_visible()
        self.album.take("database")
        self.hands.press(connect)
        expect(self.panel.get_by_text("%%sql cells use flights")).to_be_visible()
        expect(connect).to_have_count(0)
        self.album.take("connected")
        self.hands.press(self.button("Done"))
        expect(self.button("Done")).to_have_count(0)

    def run_sql(self) -> None:
        self.hands.run(QUERY)
        expect(self.notebook.output(QUERY).last).to_contain_text("JFK")
        self.album.take("sql")
        self.hands.enter(PANEL)

    def make_token(self) -> None:
        """Create a read-only token for an hour, copy it while it is hidden, and close it."""
        self.hands.select_tab(self.panel, "Databases")
        self.hands.press(self.button("Details of flights"))
        expect(self.panel.get_by_role("table", name="Tables of flights")).to_contain_text("airport")
        self.hands.press(self.button("New token ..."))
        self.hands.choose(self.field("Expires"), "in 1 hour")
        self.hands.press(self.field("Read-only"), key="Space")
        self.hands.press(self.button("Create token"))
        self.expect_status("The token was created. It is shown only once.")
        self.album.take("token")
        self.hands.press(self.button("Copy token"))
        copied = copied_text(self.notebook.page, "eyJ")
        assert copied not in self.notebook.page.content()
        self.hands.press(self.button("Done"))
        expect(self.button("Copy token")).to_have_count(0)
        self.hands.press(self.button("Close details"))

    def explore(self) -> None:
        """Page, sort, filter and profile the rows of a table."""
        self.hands.select_tab(self.panel, "Explore")
        self.hands.press(self.button("Explore airport"))
        rows = self.panel.get_by_role("grid", name="Rows of airport")
        self.expect_text("Rows 1 to 25 of 41")
        self.album.take("explored")
        self.hands.press(self.button("Next"))
        self.expect_text("Rows 26 to 41 of 41")
        self.hands.press(self.button("Sort by code"))
        expect(rows.locator("th[aria-sort=ascending]")).to_have_count(1)
        self.hands.press(self.button("Sort by code"))
        expect(rows.get_by_role("row").nth(1)).to_contain_text("JFK")
        self.hands.choose(self.field("Comparison"), ">=")
        self.hands.write(self.field("Value"), "A40", then="Enter")
        self.expect_text("Rows 1 to 11 of 11")
        self.album.take("filtered")
        self.hands.press(self.button("Profile all columns"))
        expect(self.panel.get_by_role("table", name="Profile")).to_be_in_viewport()
        self.album.take("profiled")

    def check_organization(self) -> None:
        """Show the usage, switch to another organization, and back."""
        self.hands.run(CLUB)
        self.hands.enter(PANEL)
        self.hands.select_tab(self.panel, "Databases")
        self.hands.press(self.button("Usage"))
        expect(self.panel.get_by_role("heading", name="Used in this calendar month (UTC)")).to_be_visible()
        self.album.take("organization")
        self.hands.press(self.button("Hide usage"))
        self.hands.press(self.button("Refresh"))
        selector = self.field("Organization")
        expect(selector.locator("option")).to_have_count(2)
        self.hands.choose(selector, "club (Club)")
        self.expect_status("Using organization club (embedded service). The connections stay as they are:")
        self.expect_text("No group exists yet.")
        if isinstance(self.hands, Keyboard):
            expect(selector).to_be_focused()
        self.album.take("other-organization")
        self.hands.choose(selector, "local")
        self.expect_status("Using organization local (embedded service).")
        expect(self.panel.get_by_role("table", name="Databases")).to_contain_text("flights")

    def change_connections(self) -> None:
        """Switch to the connection of the first database, and back."""
        self.hands.select_tab(self.panel, "Session")
        self.hands.press(self.button("Use main"))
        self.expect_status("Using main.")
        self.album.take("other-connection")
        self.hands.press(self.button("Use flights"))
        self.expect_status("Using flights.")

    def keep_alive(self) -> None:
        keeping = self.field("Keep alive between cells").first
        self.hands.choose(keeping, "10 min")
        self.expect_status("flights is kept alive for 10 min after each cell.")
        self.hands.run(COUNT)
        expect(self.panel.get_by_text(re.compile("until .* without a cell"))).to_be_visible()
        self.album.take("kept", self.panel)
        self.hands.enter(PANEL)
        self.hands.choose(keeping, "off")
        self.expect_status("flights is no longer kept alive between cells.")

    def commit_by_button(self) -> None:
        """Begin in a cell, check the countdown, and commit before the time limit, if the machine is fast enough."""
        for _ in range(ATTEMPTS):
            self.hands.run(BEGIN)
            self.check_countdown()
            self.hands.enter(PANEL)
            self.hands.press(self.titled("Commit flights"), at_once=True)
            committed, lost = self.status("Committed"), self.titled("Discard flights")
            expect(committed.or_(lost).first).to_be_visible()
            if committed.is_visible():
                break
            self.hands.press(lost)  # it took too long
            self.expect_status("Discarded the lost transaction.")
        self.expect_status("Committed")
        self.album.take("committed")
        self.hands.run(COUNT)
        expect(self.notebook.output(COUNT).last).to_contain_text("LGA")

    def check_countdown(self) -> None:
        bar = self.panel.get_by_role("timer", name="Time left of the transaction of flights")
        expect(bar).to_be_visible()
        before = remaining(bar)
        self.album.take("transaction", self.panel)
        assert before <= 100
        self.notebook.page.wait_for_function(
            f"([bar, before]) => ({REMAINING})(bar) < before || !before", arg=[bar.element_handle(), before]
        )

    def time_out_and_rerun(self) -> None:
        """Check that a late transaction is lost only when the server says so, and run it again by a button."""
        self.hands.run(TIME_OUT)
        self.hands.enter(PANEL)
        expect(self.panel.get_by_text("Commit, or the next cell, reports that the server").first).to_be_visible()
        self.album.take("late")
        self.hands.press(self.titled("Commit flights"))
        expect(self.panel.get_by_text("Its statements can be run again until the next cell").first).to_be_visible()
        self.album.take("timed-out")
        self.hands.press(self.titled("Run again on flights"))
        self.expect_status(re.compile("Committed; 1 row affected"))
        self.hands.run(COUNT)
        expect(self.notebook.output(COUNT).last).to_contain_text("43")
        self.hands.enter(PANEL)

    def roll_back_by_button(self) -> None:
        """Check that rollback restores deleted rows, whether by the button or the time limit."""
        self.hands.run(DELETE)
        self.hands.enter(PANEL)
        self.hands.press(self.titled("Roll back flights").or_(self.titled("Discard flights")).first)
        self.expect_status(
            re.compile("Rolled back 1 statement|Discarded the lost transaction|already rolled back the transaction")
        )
        self.album.take("rolled-back")
        self.hands.run(COUNT)
        expect(self.notebook.output(COUNT).last).to_contain_text("43")
        self.hands.enter(PANEL)

    def delete_database(self) -> None:
        self.hands.select_tab(self.panel, "Databases")
        self.hands.press(self.button("Details of flights"))
        self.album.take("details")
        self.suspend_and_resume()
        self.hands.press(self.button("Delete database ..."))
        field = self.field("Type flights to delete")
        expect(field).to_be_focused()
        self.hands.write(field, "flights", then="Enter")
        expect(self.panel.get_by_role("table", name="Databases")).not_to_contain_text("flights")
        self.album.take("deleted")

    def suspend_and_resume(self) -> None:
        self.hands.press(self.button("Suspend database ..."))
        field = self.field("Type flights to suspend")
        expect(field).to_be_focused()
        self.hands.write(field, "flights", then="Enter")
        expect(self.panel.get_by_role("table", name="Databases")).to_contain_text("suspended")
        self.album.take("suspended")
        self.hands.press(self.button("Resume database"))
        expect(self.panel.get_by_role("table", name="Databases")).not_to_contain_text("suspended")

    # -- elements of the page

    def button(self, name: str) -> Locator:
        return self.panel.get_by_role("button", name=name, exact=True).filter(visible=True)

    def titled(self, title: str) -> Locator:
        """Return the button of one connection."""
        return self.panel.get_by_title(title, exact=True).filter(visible=True)

    def field(self, label: str) -> Locator:
        return self.panel.get_by_label(label, exact=True).filter(visible=True)

    def map(self) -> Locator:
        return self.panel.get_by_role("img").filter(visible=True).first

    def expect_text(self, words: str) -> None:
        expect(self.panel.get_by_text(words).filter(visible=True).first).to_be_visible()

    def status(self, words: str | re.Pattern[str]) -> Locator:
        return self.panel.get_by_role("status").filter(has_text=words).filter(visible=True).first

    def expect_status(self, words: str | re.Pattern[str]) -> None:
        expect(self.status(words)).to_be_visible()


REMAINING = "(bar) => parseFloat(bar.firstChild.style.width)"


def remaining(bar: Locator) -> float:
    """Return the remaining part of a bar, in percent."""
    return float(bar.evaluate(REMAINING))


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
            Visitor(notebook, Mouse(notebook) if how == "mouse" else Keyboard(notebook), album).run()
            saved = notebook.save()
        except BaseException:
            album.take("failed", failed=True)
            raise
        if look == "narrow":
            width = notebook.panel.bounding_box()["width"]
            assert width <= NARROW, width
        assert "eyJ" not in saved, "a token is in the saved notebook"
        assert "pmp_" not in saved, "a token is in the saved notebook"
        watch.check(*NOT_OURS[app])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
