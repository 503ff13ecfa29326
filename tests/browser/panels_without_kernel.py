"""Check what is shown of a panel whose kernel has stopped, in a reopened notebook, and without the lab extensions.

Arguments: the path of chromium, a folder to work in, and the application (``lab`` or ``notebook``). Leaves pictures
there, and prints one line for each thing checked.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from lab import Album, Lab, Notebook, browser, jupyterlab
from playwright.sync_api import Locator, Page, expect

CELLS = [
    "%load_ext pipemagic\n%pipedb connect --temporary\n%sql CREATE TABLE airport (code TEXT PRIMARY KEY)",
    "%pipedb panel",
    "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
]
APPS = {"lab": "lab/tree", "notebook": "notebooks"}
STOPPED = "The kernel has stopped. Run the cell again."
NOT_FOUND = "Error displaying widget: model not found"
FAILED = "Click to show javascript error."
INSTALL = "To use this panel, install anywidget"
MANAGER = "@jupyter-widgets/jupyterlab-manager"


def open_panel(page: Page, lab: Lab, app: str, name: str) -> Notebook:
    """Run the cells of a new notebook, up to the panel."""
    notebook = Notebook(page, lab, CELLS, APPS[app], name)
    notebook.run(0)
    notebook.run(1)
    expect(notebook.panel.locator(".pm-busy").filter(visible=True)).to_have_count(0)  # else buttons stay disabled
    return notebook


def saved_form(notebook: Notebook) -> Locator:
    return notebook.output(1).locator(".pipemagic-saved")


def check_stopped(notebook: Notebook, album: Album, what: str) -> None:
    """Check the message, also on a tab that was never opened and in view after a click far below it."""
    message = notebook.panel.get_by_role("alert").filter(has_text=STOPPED)
    expect(message).to_be_visible()
    expect(saved_form(notebook)).to_be_hidden()
    tabs = notebook.panel.get_by_role("tab")
    opened = notebook.panel.get_by_role("tab", selected=True).inner_text()
    for tab in tabs.all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(message).to_have_count(1)
        expect(message).to_be_in_viewport()
    album.take(what)
    tabs.get_by_text(opened, exact=True).click()
    buttons = notebook.panel.locator("button:not(:disabled, [aria-disabled=true])").filter(visible=True)
    buttons.last.scroll_into_view_if_needed()
    buttons.last.click()
    expect(message).to_be_in_viewport()


def shut_down(page: Page) -> None:
    """Shut the kernel down in the menu."""
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name="Shut Down Kernel", exact=True).click()


def restart(page: Page) -> None:
    """Restart the kernel by the button of the toolbar."""
    page.locator("[data-jp-item-name=restart] jp-button, [data-jp-item-name=restart] button").first.click()
    with page.expect_response(re.compile("/restart")):
        page.locator(".jp-Dialog .jp-mod-accept").click()


def let_die(page: Page, notebook: Notebook) -> None:
    """Kill the kernel, which the server restarts."""
    notebook.cells.nth(2).locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("appears to have died")
    dialog.locator("button").last.click()
    expect(dialog).to_have_count(0)


def check_reopened(page: Page, lab: Lab, notebook: Notebook, app: str, album: Album) -> None:
    """Check that a saved notebook shows the static form alone, whether it is trusted or not."""
    saved = json.loads(notebook.path.read_text("utf-8"))
    page.goto(lab.url(notebook.path, APPS[app]))
    error = page.get_by_text(NOT_FOUND)
    expect(error).to_have_count(1)  # JupyterLab still shows it, in an output that is hidden
    expect(error).to_be_hidden()
    expect(saved_form(notebook)).to_be_visible()
    expect(saved_form(notebook).locator("td").first).to_have_css("text-align", "left")
    assert note(notebook) == "none"
    album.take("reopened")

    saved["cells"][1]["outputs"][1]["data"]["text/html"].append("<!-- another author's -->")
    untrusted = notebook.path.with_name("untrusted.ipynb")
    untrusted.write_text(json.dumps(saved), "utf-8")
    page.goto(lab.url(untrusted, APPS[app]))
    expect(saved_form(notebook)).to_be_visible()
    expect(saved_form(notebook).locator("td").first).not_to_have_css("text-align", "left")  # no style is left
    expect(error).to_have_count(0)
    album.take("untrusted")


def note(notebook: Notebook) -> str:
    """Return what the style adds to the static form."""
    return str(saved_form(notebook).evaluate("(form) => getComputedStyle(form, '::before').content"))


def check_without(page: Page, lab: Lab, app: str, album: Album, *extensions: str) -> None:
    """Check that without lab extensions the static form is shown, with what to install; with them, the live panel."""
    lab.disable(*extensions)
    name = f"without-{len(extensions)}"
    notebook = open_panel(page, lab, app, name)
    expect(saved_form(notebook)).to_be_visible()
    assert note(notebook).startswith(f'"{INSTALL}')
    errors = page.get_by_text(FAILED)
    (expect(errors).to_have_count if MANAGER in extensions else expect(errors).not_to_have_count)(0)
    expect(errors.filter(visible=True)).to_have_count(0)
    expect(notebook.panel).to_be_hidden()
    album.take(name)
    notebook.save()
    lab.disable()
    page.reload()
    expect(notebook.panel.get_by_role("tab").first).to_be_visible()
    expect(saved_form(notebook)).to_be_hidden()
    print(f"without {' and '.join(extensions)}", flush=True)


def main(chromium: str, folder: Path, app: str) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        album = Album(page, f"without-kernel-{app}", folder)
        notebook = open_panel(page, lab, app, "panel")
        notebook.save()
        shut_down(page)
        check_stopped(notebook, album, "shut-down")
        print("a kernel that was shut down", flush=True)

        check_reopened(page, lab, notebook, app, album)
        print("static HTML, trusted and not", flush=True)

        notebook = open_panel(page, lab, app, "died")
        let_die(page, notebook)
        check_stopped(notebook, album, "died")
        print("a kernel that has died", flush=True)

        notebook.run(0)
        notebook.run(1)
        restart(page)
        check_stopped(notebook, album, "restarted")
        print("a kernel that was restarted", flush=True)

        check_without(page, lab, app, album, "anywidget")
        check_without(page, lab, app, album, "anywidget", MANAGER)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
