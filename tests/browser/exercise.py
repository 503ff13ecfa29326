"""A student solves an exercise in JupyterLab: no answer, a wrong one with hints and rows side by side, the right one.

Arguments: the path of chromium, a folder to work in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab import Album, Notebook, browser, jupyterlab
from playwright.sync_api import Page, expect

CELLS = [
    "%load_ext pipemagic\n%pipedb connect --temporary",
    "%%sql --quiet\nCREATE TABLE flights (carrier TEXT, delay INTEGER);\n"
    "INSERT INTO flights VALUES ('UA', 70), ('UA', 10), ('DL', 90), ('DL', 61), ('B6', 5)",
    "%%exercise late\n-- task: Count the flights that left more than an hour late.\n-- hint: Use WHERE delay > 60.\n"
    "-- hint: Group by carrier.\nSELECT carrier, count(*) AS late FROM flights WHERE delay > 60 GROUP BY carrier",
    "%%check late\n-- Write your SQL here.",
]


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        notebook, album = Notebook(page, lab, CELLS), Album(page, "exercise", folder)
        for number in range(len(CELLS)):
            notebook.run(number)
        feedback = notebook.cells.nth(3).locator(".pipemagic-check")
        expect(feedback).to_contain_text("late: no answer yet (1 point)")

        answer(notebook, page, "SELECT carrier, count(*) AS late FROM flights WHERE delay >= 10 GROUP BY carrier")
        expect(feedback).to_contain_text("Hint 1 of 2: Use WHERE delay > 60.")
        expect(feedback.locator("table")).to_be_visible()
        album.take("wrong answer")

        answer(notebook, page, "SELECT carrier, count(*) AS late FROM flights WHERE delay > 60 GROUP BY carrier")
        expect(feedback).to_have_text("late: passed, 1 of 1 point")
        album.take("right answer")


def answer(notebook: Notebook, page: Page, sql: str) -> None:
    """Replace the answer in the last cell and run it."""
    notebook.cells.nth(3).locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type(f"%%check late\n{sql}")
    notebook.run(3)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
