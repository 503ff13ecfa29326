"""Check the pages of the documentation in chromium: their width, the contrast of tables and outputs, dark pictures.

Arguments: the path of chromium, the folder of the site. Prints the number of pages.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from lab import browser
from PIL import Image
from playwright.sync_api import Page

WIDTHS = (1200, 800, 390)  # px
LEAST = 4.5  # contrast of text, by WCAG 2 AA
DARK = 64  # of 255, the lightest background of a picture in dark mode
DRAWN = {"analysts/results.html": ".cell_output img", "analysts/transactions.html": "img[src$='.svg']"}

# Texts of tables and outputs with their contrast. A canvas converts colours of any notation.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const parts = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const blend = (above, below) => [0, 1, 2].map((i) => below[i] + (above[i] - below[i]) * above[3] / 255);
  const luminance = (colour) => {
    const [red, green, blue] = colour.map((one) => one / 255).map((one) =>
      one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    const own = element ? parts(getComputedStyle(element).backgroundColor) : [255, 255, 255, 255];
    return own[3] === 255 ? [...own].slice(0, 3) : blend(own, behind(element.parentElement));
  };
  return [...document.querySelectorAll("article :is(table, .cell_output) *")].flatMap((element) => {
    const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join("").trim();
    if (!text || element.tagName === "STYLE" || !element.checkVisibility()) return [];
    const style = getComputedStyle(element);
    const back = behind(element);
    const colour = element instanceof SVGElement ? style.fill : style.color;
    const [light, dark] = [back, blend(parts(colour), back)].map(luminance).sort((a, b) => b - a);
    return [[text.slice(0, 40), (light + 0.05) / (dark + 0.05)]];
  });
}"""

OVERFLOW = "document.documentElement.scrollWidth - innerWidth"


def problems(page: Page, name: str) -> list[str]:
    """Return what is wrong with the page that is open."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        if (overflow := page.evaluate(OVERFLOW)) > 0:
            found.append(f"{name} is {overflow} px wider than {width} px")
    for theme in ("light", "dark"):
        set_theme(page, theme)
        weak = [(text, contrast) for text, contrast in page.evaluate(CONTRASTS) if contrast < LEAST]
        found += [f"{name}, {theme}: the contrast of {text!r} is {contrast:.2f}" for text, contrast in weak]
        if name in DRAWN and (theme == "dark") != (brightness(page, DRAWN[name]) <= DARK):
            found.append(f"{name}: the background of a picture is wrong in {theme} mode")
    return found


def set_theme(page: Page, name: str) -> None:
    """Do what the page's button for dark mode does; the system prefers the light mode."""
    page.evaluate("name => { document.body.dataset.theme = name }", name)


def brightness(page: Page, selector: str) -> int:
    """Return the brightness of the background of the first picture, from 0 to 255."""
    corner = Image.open(io.BytesIO(page.locator(selector).first.screenshot())).convert("L").getpixel((20, 10))
    assert isinstance(corner, int)
    return corner


def main(chromium: str, site: Path) -> None:
    found, pages = [], sorted(site.rglob("*.html"))
    with browser(chromium) as page:
        for path in pages:
            page.goto(path.as_uri())
            found += problems(page, path.relative_to(site).as_posix())
    assert not found, "\n".join(found)
    print(len(pages))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
