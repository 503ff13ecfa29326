"""Create and show a token, and save the notebook: the value must be on the page only.

Arguments: the path of chromium, and a folder to work in.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab import Album, Notebook, Watch, browser, jupyterlab
from nbconvert import HTMLExporter
from playwright.sync_api import Locator, Page, expect

CELLS = ["%load_ext pipemagic\n%pipedb connect --temporary", "%pipedb panel databases"]
NARROW = 400  # px


def make(panel: Locator) -> None:
    panel.get_by_role("button", name="Details of main").click()
    panel.get_by_role("button", name="New token ...").click()
    panel.get_by_role("button", name="Create token").click()
    expect(panel.get_by_text("The token was created. It is shown only once.")).to_be_visible()


def show(panel: Locator) -> str:
    panel.get_by_role("button", name="Show the token").press("Enter")
    value = panel.locator(".pm-token")
    expect(value).to_contain_text(".")
    assert value.inner_text().count(".") == 2, "no token is shown"
    return value.inner_text()


def check_width(panel: Locator, album: Album) -> None:
    """Check that the token fits a narrow panel."""
    album.take("wide")
    panel.evaluate("(panel, width) => { panel.style.width = `${width}px`; }", NARROW)
    assert panel.evaluate("(panel) => panel.scrollWidth <= panel.clientWidth"), "the token is wider than the panel"
    album.take("narrow", panel)


def check_saved(notebook: Notebook, value: str) -> None:
    """Check that the token is in no saved or exported notebook."""
    notebook.cells.first.locator(".cm-content").click()  # Escape in the panel would close the token
    saved = notebook.save()
    assert "Databases" in saved
    expect(notebook.panel.locator(".pm-token")).to_have_text(value)
    written = [saved, HTMLExporter().from_filename(str(notebook.path))[0]]
    written += [path.read_text("utf-8") for path in notebook.path.parent.rglob("*.ipynb")]
    assert len(written) > 2
    for text in written:
        assert not any(part in text for part in value.split(".")), "the token is saved"


def check_hidden(page: Page, panel: Locator, value: str) -> None:
    """Check that the button hides the token and a reload removes it."""
    panel.get_by_role("button", name="Hide the token").click()
    assert value not in page.content()
    show(panel)
    page.reload()
    expect(panel.get_by_text("not available: a token is shown only once")).to_be_visible()
    assert value not in page.content()


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        watch = Watch(page)
        notebook = Notebook(page, lab, CELLS)
        for number in range(len(CELLS)):
            notebook.run(number)
        make(notebook.panel)
        value = show(notebook.panel)
        check_width(notebook.panel, Album(page, "shown-token", folder))
        check_saved(notebook, value)
        check_hidden(page, notebook.panel, value)
        watch.check()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
