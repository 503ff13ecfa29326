"""Check the layout of a wide table's profile in chromium: one line per column, on wide and narrow pages.

Arguments: the path of chromium, a file with the HTML of the profile, and optionally a folder for pictures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lab import browser

WIDTHS = (1280, 860, 400)  # px
HEIGHT = 640  # px of an output of JupyterLab in a window of 1280 x 800
CHART = 90  # px at least

# Of each row: its cells, and how many lines each has, without its label.
ROWS = """() => [...document.querySelectorAll(".pipemagic-profile tbody tr")].map((row) => ({
  top: row.getBoundingClientRect().top, bottom: row.getBoundingClientRect().bottom,
  cells: [...row.children].filter((cell) => getComputedStyle(cell).display !== "none").map((cell) => {
    const { left, top, width, height } = cell.getBoundingClientRect(), range = document.createRange();
    range.selectNodeContents(cell);
    const label = getComputedStyle(cell, "::before").content;
    return { name: cell.className, text: cell.textContent, left, top, width, height, label,
      cut: cell.scrollWidth - cell.clientWidth,
      lines: new Set([...range.getClientRects()].map((box) => box.top)).size };
  }),
  font: parseFloat(getComputedStyle(row).fontSize),
}))"""


def check(rows: list[dict[str, Any]], width: int, overflow: int) -> None:
    assert rows
    assert overflow == 0, f"the page scrolls sideways at {width} px"
    for row in rows:
        assert row["font"] >= (12 if width != 860 else 11)
        for cell in row["cells"]:
            if cell["name"] == "figure":
                assert cell["lines"] <= 1, f"{cell} is broken into lines at {width} px"
            if cell["name"] == "distribution":
                assert cell["width"] >= CHART
            else:
                assert cell["cut"] <= 0 or cell["text"].endswith("\u2026"), f"{cell} is cut at {width} px"
            if cell["name"] in ("figure", "moment", "type"):
                assert (cell["label"] != "none") is (width == 400), f"{cell} at {width} px"
    if width >= 860:
        assert len({tuple(cell["left"] for cell in row["cells"]) for row in rows}) == 1, "the columns are not aligned"
        assert len({len(row["cells"]) for row in rows}) == 1
    if width == 1280:
        assert rows[-1]["bottom"] <= HEIGHT, f"not all columns of the table are visible: {rows[-1]}"


def main(chromium: str, file: Path, folder: Path | None) -> None:
    with browser(chromium, width=860, height=860) as page:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 860})
            page.set_content(file.read_text(encoding="utf-8"))
            overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            check(page.evaluate(ROWS), width, overflow)
            if folder is not None:
                page.screenshot(path=folder / f"profile-{width}.png", full_page=True)
            print(f"{width} px", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
