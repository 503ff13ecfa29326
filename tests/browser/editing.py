"""Ctrl+/ and Shift+Tab in %%sql cells, the descriptions in Tab's list, and the colours of %sql and %pipedb lines.

Arguments: the path of chromium, a folder to work in. Leaves ``light.png``, ``tooltip.png``, ``types.png`` and
``options.png`` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab import Notebook, browser, jupyterlab
from playwright.sync_api import Locator, Page, expect

BODY = ["-- all of them", "SELECT origin", "", "  FROM flight"]
LINES = [
    "late = %sql --on 'my db' SELECT origin IN ('JFK') AS class FROM flight",
    "%pipedb load frame --table \"my table\" for in class",
    "total = 7 % sql",
    "note = '''",
    "%sql SELECT 1",
    "'''",
]  # fmt: skip
CELLS = ["import this", "\n".join(["%%sql -o flights", *BODY]), "\n".join(LINES)]
HELP = [
    "%reload_ext pipemagic\n%pipedb connect --temporary --as 'my db'\n"
    "%sql CREATE TABLE flight (origin TEXT NOT NULL, \"air time\" REAL)\nflight = origin = 'a variable of Python'\n"
    "get_ipython().magics_manager.registry['PipeMagics'].session.connection().schema.ready.wait(30)",
    "%%sql\nSELECT f.origin FROM flight f",
    "origin",
]  # fmt: skip
COLOURS = """cell => [...cell.querySelectorAll('.cm-line')].map(line => {
  const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT), styles = [], found = {};
  while (walker.nextNode()) {
    const {color, fontWeight} = getComputedStyle(walker.currentNode.parentElement);
    for (const _ of walker.currentNode.data) styles.push(`${color} ${fontWeight}`);
  }
  for (const {0: word, index} of line.textContent.matchAll(/[^\\s()]+/g))
    found[word] = [...new Set(styles.slice(index, index + word.length))].join(' and ');
  return found;
})"""

# A magic inside a string of Python has the colour of the string, once the editor has parsed all of the cell.
ONE_STRING = f"cell => new Set(Object.values(({COLOURS})(cell)[4])).size === 1"

MODEL = "window.jupyterapp.shell.currentWidget.content.widgets[number].model.sharedModel"
# A change of the shared model reaches the editor like one by another user.
INSERT = f"([number, text]) => {{ {MODEL}.updateSource(0, 0, text); return {MODEL}.getSource(); }}"
DELETE = f"([number, length]) => {MODEL}.updateSource(0, length)"


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        check_colours(Notebook(page, lab, CELLS), page, folder / "light.png")
        for app in ("lab/tree", "notebooks"):
            toggle_comments(Notebook(page, lab, CELLS, app), page)
            if app == "lab/tree":  # the other one has no such variable of the page
                insert_into_model(Notebook(page, lab, CELLS, app), page)
        show_help(Notebook(page, lab, HELP), page, folder)


def check_colours(notebook: Notebook, page: Page, picture: Path) -> None:
    """The parts of a line have the same colours as in a SQL cell; other text has none."""
    python, sql, cell = (notebook.cells.nth(number).locator(".cm-content") for number in range(3))
    expect(sql).to_have_attribute("data-language", "sql")
    expect(sql.get_by_text("FROM", exact=True)).to_have_count(1)  # the editor has parsed all of the cell
    expect(cell.locator(".pipemagic-sql-plain").first).to_be_visible()
    page.wait_for_function(ONE_STRING, arg=cell.element_handle())
    page.screenshot(path=picture)
    plain = sql.evaluate("cell => getComputedStyle(cell).color + ' 400'")
    magic, _, body = sql.evaluate(COLOURS)[:3]
    assert magic["flights"] == body["origin"] == plain, (magic, body)
    assert len({magic["%%sql"], magic["-o"], body["SELECT"], plain}) == 4, (magic, body)

    late, load, total, *_ = cell.evaluate(COLOURS)
    assert late["%sql"] == load["%pipedb"] == magic["%%sql"], (late, load)
    assert late["--on"] == load["--table"] == magic["-o"], (late, load)
    assert late["SELECT"] == late["IN"] == late["FROM"] == body["SELECT"], late
    assert late["late"] == late["class"] == late["flight"] == plain, late
    assert load["load"] == load["for"] == load["in"] == load["class"] == plain, load
    assert late["'JFK'"] == late["db'"] == load['table"'] != plain, (late, load)
    assert total["sql"] == plain, total
    expect(python.locator(".pipemagic-sql-plain")).to_have_count(0)


def toggle_comments(notebook: Notebook, page: Page) -> None:
    """Ctrl+/ never changes the line of the magic, and comments the other lines as without it."""
    cell = notebook.cells.nth(1).locator(".cm-content")
    press = page.keyboard.press
    cell.click()

    press("Control+a")
    press("Control+/")
    expect_body(cell, ["-- -- all of them", "-- SELECT origin", "", "--   FROM flight"])
    press("Control+z")  # before other changes: an editor undoes those of half a second together
    expect_body(cell, BODY)
    press("Control+/")
    press("Control+/")
    expect_body(cell, BODY)

    press("Control+Home")  # from the middle of the magic line to the middle of the third
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowDown", "Shift+ArrowDown"):
        press(key)
    press("Control+/")
    expect_body(cell, ["-- -- all of them", "-- SELECT origin", *BODY[2:]])
    press("Control+/")
    expect_body(cell, BODY)

    press("Control+Home")  # below the magic line
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Shift+Control+End"):
        press(key)
    press("Control+/")
    expect_body(cell, [BODY[0], "-- SELECT origin", "", "--   FROM flight"])
    press("Control+/")
    expect_body(cell, BODY)

    press("Control+Home")  # the magic line alone
    press("Control+/")
    press("Shift+ArrowDown")
    press("Control+/")
    expect_body(cell, BODY)

    press("Control+a")  # the block comment of JupyterLab
    press("Alt+a")
    expect_body(cell, ["/* -- all of them", *BODY[1:3], "  FROM flight */"])
    press("Control+a")
    press("Alt+a")
    expect_body(cell, BODY)

    press("Control+Home")  # typed text is not changed
    page.keyboard.type("-- ")
    expect(cell.locator(".cm-line").first).to_have_text("-- %%sql -o flights")


def insert_into_model(notebook: Notebook, page: Page) -> None:
    """Text that others insert into a shared document stays, also a comment sign in the line of the magic."""
    cell = notebook.cells.nth(1).locator(".cm-content")
    for sign in ("-- ", "/* "):
        expect(cell.locator(".cm-line").first).to_have_text("%%sql -o flights")
        source = page.evaluate(INSERT, [1, sign])
        assert source.startswith(f"{sign}%%sql"), source
        expect(cell.locator(".cm-line").first).to_have_text(f"{sign}%%sql -o flights")
        page.evaluate(DELETE, [1, len(sign)])


def show_help(notebook: Notebook, page: Page, folder: Path) -> None:
    """Shift+Tab shows the meaning of a name in SQL; Tab's list shows types and descriptions, each in one line."""
    notebook.run(0)
    press, kind = page.keyboard.press, page.keyboard.type
    sql, python = (notebook.cells.nth(number).locator(".cm-content") for number in (1, 2))
    tooltip, entries = page.locator(".jp-Tooltip"), page.locator(".jp-Completer .jp-Completer-item")
    sql.click()
    press("Control+End")
    press("Shift+Tab")
    expect(tooltip).to_contain_text("flight: table, 2 columns (as f)")
    expect(tooltip).to_contain_text("TEXT  NOT NULL")
    page.screenshot(path=folder / "tooltip.png")
    for _ in " FROM flight f":  # which closes the tooltip
        press("ArrowLeft")
    expect(tooltip).to_have_count(0)
    press("Shift+Tab")
    expect(tooltip).to_have_text("flight.origin: TEXT NOT NULL")
    press("ArrowLeft")
    expect(tooltip).to_have_count(0)
    python.click()
    press("Control+End")
    press("Shift+Tab")
    expect(tooltip).to_contain_text("a variable of Python")
    press("ArrowLeft")
    expect(tooltip).to_have_count(0)

    for text, picture, shown in (
        ("%%sql\nSELECT * FROM flight f WHERE f.", "types.png", ["column text", "column real"]),
        ("%pipedb connect --re", "options.png", ["option: refuse statements that may write"]),
    ):
        press("Control+a")
        kind(text)
        press("Tab")
        found = entries.locator(".jp-Completer-typeExtended")
        expect(found.filter(has_text=shown[0])).to_have_count(1)
        texts = [inner.translate({0xA0: " ", 0x2011: "-"}) for inner in found.all_inner_texts()]
        assert set(shown) <= set(texts), texts
        lines = found.evaluate_all("all => all.map(one => one.scrollHeight <= one.clientHeight)")
        assert all(lines), texts
        page.screenshot(path=folder / picture)
        press("Escape")
        press("Enter")
    press("Control+a")
    kind('%pipedb use "m')
    press("Tab")
    expect(entries).to_have_count(1)
    press("Enter")
    expect(python).to_have_text('%pipedb use "my db"')


def expect_body(cell: Locator, body: list[str]) -> None:
    expect(cell.locator(".cm-line")).to_have_text(["%%sql -o flights", *body])
    expect(cell).to_have_attribute("data-language", "sql")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
