"""Click through the panel in JupyterLab: a group, a database, a connection, then a %%sql cell.

Arguments: the path of chromium, a folder to work in. Leaves ``panel.png`` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab import PATIENCE, Notebook, browser, jupyterlab
from playwright.sync_api import expect

CELLS = [
    "%load_ext pipemagic\n%pipedb connect",
    "%pipedb panel",
    "%%sql\nCREATE TABLE airport (code TEXT PRIMARY KEY);\nINSERT INTO airport VALUES ('JFK'), ('LGA');\n"
    "SELECT code FROM airport ORDER BY code",
    "%pipedb connections",
]


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as address, browser(chromium) as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        notebook = Notebook(page, address, folder, CELLS)
        notebook.run(0)
        expect(notebook.output(0).last).to_have_text("Connected to main (embedded service).\n", timeout=PATIENCE)
        notebook.run(1)
        panel = page.locator(".pipemagic-panel")
        status = panel.locator(".pipemagic-status")
        expect(panel.get_by_text("Organization local (embedded service)")).to_be_visible(timeout=PATIENCE)

        panel.get_by_label("Database name:").fill("two words")
        panel.get_by_role("button", name="Create database").click()
        expect(status).to_contain_text("invalid database name", timeout=PATIENCE)
        page.screenshot(path=folder / "error.png")

        panel.get_by_label("Group name:").fill("edge")
        panel.get_by_label("Location:").select_option("nrt: Tokyo, Japan")
        panel.get_by_role("button", name="Create group").click()
        expect(status).to_have_text("Group edge is in nrt.", timeout=PATIENCE)
        expect(panel.get_by_label("Group name:")).to_have_value("")

        panel.get_by_label("Database name:").fill("flights")
        panel.get_by_label("Group:", exact=True).select_option("edge")
        panel.get_by_role("button", name="Create database").click()
        expect(status).to_have_text("Database flights is in group edge.", timeout=PATIENCE)

        panel.get_by_label("Database:", exact=True).select_option("flights")
        panel.get_by_role("button", name="Connect").click()
        expect(status).to_have_text("Connected to flights: %%sql cells use it now.", timeout=PATIENCE)
        expect(panel.locator("table")).to_contain_text("flights (current)")
        page.screenshot(path=folder / "panel.png")

        notebook.run(2)
        expect(notebook.output(2).locator("table.dataframe tbody tr")).to_have_count(2, timeout=PATIENCE)
        notebook.run(3)
        expect(notebook.output(3).locator("table.dataframe")).to_contain_text("flights", timeout=PATIENCE)
        page.screenshot(path=folder / "cells.png")

        saved = notebook.save()
        assert "eyJ" not in saved, "a token is in the saved notebook"
        assert "pmp_" not in saved, "a token is in the saved notebook"
        assert "group edge" not in saved, "the text form is that of the first display"
        assert "Organization local (embedded service)" in saved
        assert not errors, errors


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
