"""Panels in JupyterLab: contrast in both themes, the saved face, and what is said when the kernel is gone.

Arguments: the path of chromium, a folder to work in. Leaves pictures there, and prints one line for each thing checked.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from lab import Album, Lab, Notebook, browser, jupyterlab
from nbconvert import HTMLExporter
from playwright.sync_api import Locator, Page, expect

CELLS = [
    "%load_ext pipemagic\n%pipedb connect\n%sql CREATE TABLE airport (code TEXT PRIMARY KEY, name TEXT)",
    "%pipedb panel",
]
LIVE = ".pipemagic-panel:not(.pipemagic-saved)"
SAVED = ".pipemagic-saved"
TEXT, CONTROL = 4.5, 3.0  # WCAG 2, 1.4.3 and 1.4.11

# What contrast there is, as [what, contrast]: of every text, of the edge of every control, of the marks and labels of
# maps (on the sea and on land), of bars, and of the outline of what has the focus. A colour is read from a canvas,
# which knows all ways to write one.
MEASURE = """(root) => {
  const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
    .getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(read(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const part = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(colour[0]) + 0.7152 * part(colour[1]) + 0.0722 * part(colour[2]);
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const seen = (element) => element.checkVisibility() && element.getBoundingClientRect().width > 1
    && !element.closest("[aria-disabled=true]");
  const texts = [], edges = [], outlines = [];
  for (const element of root.querySelectorAll("*")) {
    if (!seen(element) || element.closest("svg")) continue;
    const style = getComputedStyle(element), words = [...element.childNodes]
      .filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()).map((node) => node.data.trim()).join(" ");
    const below = behind(element);
    if (words || element.matches("input, select")) {
      texts.push([`${element.tagName} ${element.className} ${words}`, contrast(over(read(style.color), below), below)]);
    }
    if (element.matches("button:not(.pm-plain, [role=tab]), input, select, textarea")) {
      const around = behind(element.parentElement), edge = over(read(style.borderTopColor), around);
      const best = Math.max(contrast(edge, around), contrast(below, around));
      edges.push([`${element.tagName} ${element.className} ${words}`, best]);
    }
    if (element.matches("[role=tab][aria-selected=true]")) {
      edges.push([`tab ${words}`, contrast(over(read(style.borderBottomColor), below), below)]);
    }
    if (element.matches(".pm-bar > div, .pm-knob")) {
      const around = behind(element.parentElement);
      edges.push([element.parentElement.className, contrast(below, around)]);
    }
  }
  for (const map of root.querySelectorAll(".pm-map svg")) {
    if (!seen(map)) continue;
    const sea = behind(map), land = map.querySelector(".pm-land");
    const grounds = [sea, ...(land ? [over(read(getComputedStyle(land).fill), sea)] : [])];
    for (const element of map.querySelectorAll(".pm-label, .pm-leader, .pm-primary, .pm-replica, .pm-free, .pm-here")) {
      const style = getComputedStyle(element), colour = read(style.fill === "none" ? style.stroke : style.fill);
      const list = element.matches(".pm-label") ? texts : edges;
      const drawn = element.matches(".pm-leader") ? read(style.stroke) : colour;
      for (const ground of grounds) {
        const what = `${element.getAttribute("class")} ${element.textContent}`;
        list.push([`map ${what}`, contrast(over(drawn, ground), ground)]);
      }
    }
  }
  const before = document.activeElement;
  for (const element of root.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")) {
    if (!seen(element)) continue;
    element.focus({ focusVisible: true, preventScroll: true });
    const style = getComputedStyle(element), around = behind(element.parentElement);
    const there = style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2;
    const name = `focus at ${element.tagName} ${element.getAttribute("class")} ${element.textContent.slice(0, 30)}`;
    outlines.push([name, there ? contrast(over(read(style.outlineColor), around), around) : 0]);
  }
  before.focus({ focusVisible: true, preventScroll: true });
  return { texts, edges, outlines };
}"""

# What is only seen now and then, in the elements that panels make for it.
SELDOM = """(root) => root.insertAdjacentHTML("beforeend", `<div id="seldom">
  <div class="pm-problem"><p class="pm-error"><span class="pm-code">CODE: </span>An error</p>
    <p class="pm-faint">Hint</p></div>
  <form class="pm-ask"><p>Sure?</p><div class="pm-field"><label>Name</label>
    <input type="text" aria-invalid="true" value="a">
    <small class="pm-error">taken</small></div><button type="button" class="pm-danger">Delete</button></form>
  <button type="button" class="pm-main">Create</button><button type="button" class="pm-copied">Copied</button>
  <button type="button" class="pm-plain">Copy</button><p class="pm-note">A note</p><p class="pm-behind">2 s behind</p>
  <table><tbody><tr class="pm-current"><td>current</td><td class="pm-null">NULL</td></tr>
    <tr class="pm-group"><th>Group</th></tr></tbody></table>
  <div class="pm-magic"><code>%pipedb status</code><button type="button" class="pm-plain">Copy</button></div>
  ${["", "pm-nearly", "pm-over"].map((one) =>
    `<div class="pm-bar ${one}"><div style="width: 50%">&nbsp;</div></div>`).join("")}
  </div>`)"""
CANCELED = "Canceled future for "
"""How the error begins with which JupyterLab rejects its own requests when a kernel ends before it answers them."""


def check_contrast(page: Page, panel: Locator, theme: str, album: Album) -> None:
    """Look at every tab."""
    weak = []
    for tab in panel.get_by_role("tab").all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(panel.locator(".pm-busy")).to_have_count(0)
        title = tab.inner_text()
        album.take(f"{theme.lower()}-{title.lower()}", panel)
        if title == "Databases":
            panel.evaluate(SELDOM)
            album.take(f"{theme.lower()}-seldom", panel)
            border = "(field) => getComputedStyle(field).borderTopColor"
            fields = (panel.locator(one).first for one in ("#seldom [aria-invalid]", "input[name=name]"))
            assert len({field.evaluate(border) for field in fields}) == 2  # a field with an error is seen as one
        page.keyboard.press("Shift+Tab")  # who uses keys sees where the focus is
        found = panel.evaluate(MEASURE)
        page.evaluate("document.querySelector('#seldom')?.remove()")
        assert found["texts"]
        assert found["outlines"]
        assert (title != "Locations") or any(what.startswith("map pm-label") for what, _ in found["texts"])
        for kind, least in (("texts", TEXT), ("edges", CONTROL), ("outlines", CONTROL)):
            weak += [(title, what, round(value, 2)) for what, value in found[kind] if value < least]
    assert not weak, f"{theme}: {weak}"
    print(f"contrast in {theme}", flush=True)


def run_panel(page: Page, notebook: Notebook, *numbers: int) -> Locator:
    for number in numbers:
        notebook.run(number)
    panel = page.locator(LIVE)
    expect(panel).to_have_count(1)
    expect(page.locator(SAVED)).not_to_be_visible()  # it gives way to the live one
    return panel


def turn_dark(page: Page) -> None:
    """Choose the dark theme in the menu."""
    page.locator(".lm-MenuBar-itemLabel").get_by_text("Settings", exact=True).click()
    for item in ("Theme", "JupyterLab Dark"):
        page.locator(".lm-Menu-itemLabel").get_by_text(item, exact=True).click()
    expect(page.locator("body[data-jp-theme-light=false]")).to_have_count(1)


def check_restart(page: Page, panel: Locator, album: Album) -> None:
    """The kernel is started again: the panel knows."""
    page.locator("[data-jp-item-name=restart] jp-button, [data-jp-item-name=restart] button").first.click()
    gone = page.get_by_text("The kernel of this panel is gone: run the cell again.")
    with page.expect_response(re.compile("/restart")):
        page.locator(".jp-Dialog .jp-mod-accept").click()
        expect(gone).to_be_visible()
    album.take("gone")
    print("a kernel that was started again", flush=True)


def check_saved(page: Page, lab: Lab, path: Path, album: Album) -> None:
    """The notebook is opened where it is not trusted, and then beside that where it is."""
    notebook = json.loads(path.read_text("utf-8"))
    html = notebook["cells"][1]["outputs"][1]["data"]["text/html"]
    html.append("<!-- another author's -->")  # its signature is not known here
    strange = path.with_name("strange.ipynb")
    strange.write_text(json.dumps(notebook), "utf-8")
    shown = page.locator(".jp-NotebookPanel").filter(visible=True)
    face = shown.locator(".jp-OutputArea-output").get_by_role("heading", name="Databases")
    cell = shown.locator(".jp-OutputArea-output table td").first

    page.goto(lab.url(strange, "lab/tree"))
    expect(face).to_be_visible()
    album.take("saved-untrusted")
    expect(page.get_by_text("model not found")).not_to_be_visible()
    expect(cell).not_to_have_css("text-align", "left")  # the notebook takes our style away

    page.locator(".jp-DirListing-item").get_by_text(path.name, exact=True).dblclick()
    expect(page.locator(".lm-TabBar-tab.jp-mod-current")).to_have_text(path.name)
    expect(face).to_be_visible()
    album.take("saved-trusted")
    expect(page.get_by_text("model not found")).not_to_be_visible()
    expect(cell).to_have_css("text-align", "left")
    print("the saved face, trusted and not", flush=True)


def check_exported(path: Path) -> None:
    """The page that nbconvert makes has the face."""
    exported, _ = HTMLExporter().from_filename(str(path))
    assert re.search(r'<div class="pipemagic-panel pipemagic-saved">.*<h2>Databases</h2>', exported, re.DOTALL)
    print("the face in an exported page", flush=True)


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        notebook = Notebook(page, lab, CELLS)
        album = Album(page, "look", folder)
        panel = run_panel(page, notebook, 0, 1)
        check_contrast(page, panel, "Light", album)
        turn_dark(page)
        check_contrast(page, panel, "Dark", album)
        check_restart(page, panel, album)
        notebook.save()
        lab.end_kernels()
        check_exported(notebook.path)
        check_saved(page, lab, notebook.path, album)
        ours = [error for error in errors if CANCELED not in error]
        assert not ours, ours


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
