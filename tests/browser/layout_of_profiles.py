"""Check the layout of a wide table's profile in chromium: one row per column, on wide and narrow pages.

Arguments: the path of chromium, a file with the HTML of the profile, and optionally a folder for pictures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lab import browser

WIDTHS = (900, 400)  # px
CHART = 120  # px at least

# Of each row: its parts from left to right, and its figures as they are written, without wrapping.
ROWS = """() => [...document.querySelectorAll(".pipemagic-profile .row")].map((row) => ({
  parts: [...row.children].map((part) => {
    const { left, top, width } = part.getBoundingClientRect();
    return { name: part.className, left, top, width, overflow: part.scrollWidth - part.clientWidth };
  }),
  cut: [...row.querySelectorAll(".figures > div")].some((figure) => figure.scrollWidth > figure.clientWidth),
  lines: [...row.querySelectorAll(".figures > div > :first-child")].map((name) => {
    const box = name.parentElement.getBoundingClientRect();
    return Math.round((box.height - name.offsetHeight) / name.offsetHeight);
  }),
  align: row.querySelector(".figures") && getComputedStyle(row.querySelector(".figures")).textAlign,
  font: parseFloat(getComputedStyle(row).fontSize),
}))"""


def check(rows: list[dict[str, Any]], width: int, overflow: int) -> None:
    assert rows
    assert overflow == 0, f"the page scrolls sideways at {width} px"
    for row in rows:
        by_name = {part["name"]: part for part in row["parts"]}
        assert list(by_name) == ["name", "values", "spread", "figures"]
        assert by_name["spread"]["width"] >= CHART
        assert all(part["overflow"] <= 0 for part in row["parts"]), by_name
        assert row["align"] == "right"
        assert row["font"] >= 12
        assert not row["cut"], f"a figure is wider than its place at {width} px"
        assert set(row["lines"]) <= {1}, f"a figure is broken into lines at {width} px"
        if width >= 900:
            assert len({part["top"] for part in row["parts"]}) == 1, "the parts are not side by side"
    if width >= 900:
        assert len({tuple(part["left"] for part in row["parts"]) for row in rows}) == 1, "the columns are not aligned"


def main(chromium: str, file: Path, folder: Path | None) -> None:
    with browser(chromium, width=900, height=900) as page:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.set_content(file.read_text(encoding="utf-8"))
            overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            check(page.evaluate(ROWS), width, overflow)
            if folder is not None:
                page.screenshot(path=folder / f"profile-{width}.png", full_page=True)
            print(f"{width} px", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
