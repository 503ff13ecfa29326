"""Check panels in JupyterLab: contrast in both themes, dates, and static HTML in an exported page.

Arguments: the path of chromium, a folder to work in. Leaves pictures there, and prints one line for each thing checked.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from lab import Album, Notebook, browser, jupyterlab
from nbconvert import HTMLExporter
from playwright.sync_api import Locator, Page, expect

CELLS = [
    "%load_ext pipemagic\n%pipedb connect\n%sql CREATE TABLE airport (code TEXT PRIMARY KEY, name TEXT)",
    "%pipedb panel",
]
LIVE = ".pipemagic-tabs"
SAVED = ".pipemagic-saved"
TEXT, CONTROL = 4.5, 3.0  # WCAG 2, 1.4.3 and 1.4.11

# Returns [element, contrast] for every text, the edges of controls, the marks and labels of maps (on sea and land),
# bars, and the outline of the focused element. Colours are read from a canvas, which parses all notations.
MEASURE = r"""(root) => {
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
    && !element.closest("[aria-disabled=true], :disabled");
  const texts = [], edges = [], outlines = [];
  for (const element of root.querySelectorAll("*")) {
    if (!seen(element) || element.closest("svg")) continue;
    const style = getComputedStyle(element), words = [...element.childNodes]
      .filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()).map((node) => node.data.trim()).join(" ");
    const below = behind(element);
    if (words || element.matches("input, select")) {
      texts.push([`${element.tagName} ${element.className} ${words}`, contrast(over(read(style.color), below), below)]);
    }
    if (element.matches("button:not(.pm-plain, .pm-link, [role=tab]), input, select, textarea")) {
      const around = behind(element.parentElement), edge = over(read(style.borderTopColor), around);
      const best = Math.max(contrast(edge, around), contrast(below, around));
      edges.push([`${element.tagName} ${element.className} ${words}`, best]);
    }
    if (element.matches("[role=tab][aria-selected=true]")) {
      const [shadow] = style.boxShadow.match(/^[a-z-]+\(.*?\)/);
      edges.push([`tab ${words}`, contrast(over(read(shadow), below), below)]);
    }
    if (element.matches(".pm-bar > div")) {
      const around = behind(element.parentElement);
      edges.push([element.parentElement.className, contrast(below, around)]);
    }
  }
  for (const map of root.querySelectorAll("svg.pm-map")) {
    if (!seen(map)) continue;
    const sea = behind(map), grounds = [sea, over(read(getComputedStyle(map.querySelector("path")).fill), sea)];
    for (const element of map.querySelectorAll("text, polygon, circle")) {
      const style = getComputedStyle(element), drawn = read(style.fill === "none" ? style.stroke : style.fill);
      for (const ground of grounds) {
        const what = `map ${element.tagName} ${element.textContent || element.parentElement.textContent}`;
        (element.matches("text") ? texts : edges).push([what, contrast(over(drawn, ground), ground)]);
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


def open_forms(panel: Locator) -> None:
    """Open parts that are usually hidden: a field error, details, a token, a form that deletes, the usage."""
    panel.get_by_label("Database name").fill("main")
    expect(panel.get_by_text("main already exists")).to_be_visible()
    if panel.get_by_role("button", name="Close details").is_visible():
        return
    panel.get_by_role("button", name="Usage", exact=True).filter(visible=True).click()
    expect(panel.get_by_role("button", name="Switch overages on")).to_be_visible()
    panel.get_by_role("button", name="Details of main").click()
    panel.get_by_role("button", name="New token ...").click()
    panel.get_by_role("button", name="Create token").click()
    expect(panel.get_by_role("button", name="Copy token")).to_be_visible()
    panel.get_by_role("button", name="Delete database ...").click()
    expect(panel.get_by_label("Type main to delete")).to_be_visible()


def check_contrast(page: Page, panel: Locator, theme: str, album: Album) -> None:
    """Check the contrast in every tab."""
    weak = []
    for tab in panel.get_by_role("tab").all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        title = tab.inner_text()
        expect(panel.get_by_role("heading", name=title, level=2)).to_be_visible()
        expect(panel.locator("svg.pm-map").filter(visible=True)).to_have_count(int(title == "Locations"))
        expect(panel.locator(".pm-busy").filter(visible=True)).to_have_count(0)
        album.take(f"{theme.lower()}-{title.lower()}", panel)
        if title == "Databases":
            open_forms(panel)
            album.take(f"{theme.lower()}-forms", panel)
        page.keyboard.press("Shift+Tab")  # keyboard users see the focus
        found = panel.evaluate(MEASURE)
        assert found["texts"]
        assert found["outlines"]
        assert (title != "Locations") or any(what.startswith("map text") for what, _ in found["texts"])
        for kind, least in (("texts", TEXT), ("edges", CONTROL), ("outlines", CONTROL)):
            weak += [(title, what, round(value, 2)) for what, value in found[kind] if value < least]
    assert not weak, f"{theme}: {weak}"
    print(f"contrast in {theme}", flush=True)


def run_panel(page: Page, notebook: Notebook, *numbers: int) -> Locator:
    for number in numbers:
        notebook.run(number)
    panel = page.locator(LIVE)
    expect(panel).to_have_count(1)
    expect(page.locator(SAVED)).not_to_be_visible()  # hidden by the live panel
    return panel


def select_dark_theme(page: Page) -> None:
    """Select the dark theme in the menu."""
    page.locator(".lm-MenuBar-itemLabel").get_by_text("Settings", exact=True).click()
    for item in ("Theme", "JupyterLab Dark"):
        page.locator(".lm-Menu-itemLabel").get_by_text(item, exact=True).click()
    expect(page.locator("body[data-jp-theme-light=false]")).to_have_count(1)


def check_saved_tab(page: Page, panel: Locator) -> None:
    """Check that the form to be saved follows the selected tab."""
    for title in ("Groups", "Databases"):
        panel.get_by_role("tab", name=title).click()
        expect(page.locator(SAVED).locator("h2")).to_have_text(title)
    print("the form to be saved", flush=True)


def check_dates(panel: Locator) -> None:
    """Check that dates are not broken at their hyphens where other columns need the room."""
    expect(panel.locator("td.pm-date").filter(visible=True).first).to_have_css("white-space", "nowrap")
    print("dates on one line", flush=True)


def check_exported(path: Path) -> None:
    """Check that the output of nbconvert contains the static HTML."""
    exported, _ = HTMLExporter().from_filename(str(path))
    assert re.search(r'<div class="pipemagic-saved">.*<h2>Databases</h2>', exported, re.DOTALL)
    print("static HTML in an exported page", flush=True)


def main(chromium: str, folder: Path) -> None:
    with jupyterlab(folder) as lab, browser(chromium) as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        notebook = Notebook(page, lab, CELLS)
        album = Album(page, "look", folder)
        panel = run_panel(page, notebook, 0, 1)
        check_contrast(page, panel, "Light", album)
        select_dark_theme(page)
        check_contrast(page, panel, "Dark", album)
        check_saved_tab(page, panel)
        check_dates(panel)
        notebook.save()
        check_exported(notebook.path)
        assert not errors, errors


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
