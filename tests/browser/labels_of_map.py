"""Check in chromium that labels of the map are inside the picture and do not overlap.

Arguments: the path of chromium, and optionally a folder for pictures. Prints one line for each map.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab import browser

from pipemagic.geography import whereabouts
from pipemagic.notebook.panels.components import HERE
from pipemagic.notebook.panels.worldmap import Mark, draw
from pipemagic.service.locations import LOCATIONS

WIDTHS = (960, 400)  # px
CROWDED = ("lhr", "ams", "cdg", "fra", "bos", "ewr", "iad", "gdl", "qro", "gig", "gru", "yul", "yyz", "sjc", "lax")
USED = {"all": tuple(LOCATIONS), "crowded": CROWDED, "few": ("ams", "nrt", "syd"), "none": ()}

BOXES = """() => {
  const picture = document.querySelector("svg");
  const box = (one) => {
    const { left, top, right, bottom } = one.getBoundingClientRect();
    return [left, top, right, bottom];
  };
  return [box(picture), [...picture.querySelectorAll("text")].map((one) => [one.textContent, box(one)])];
}"""


def page_of(used: tuple[str, ...]) -> str:
    marks = [
        Mark(code, whereabouts(code), "free" if code not in used else "replica" if used.index(code) % 3 else "primary",
             code == "ams", code)
        for code in LOCATIONS
    ]  # fmt: skip
    style = (HERE / "panels.css").read_text("utf-8")
    return f'<style>{style}</style><div class="pipemagic-panel">{draw(marks, "the world")}</div>'


def overlap(one: list[float], other: list[float]) -> float:
    """Return the smaller side of the intersection of two boxes, in px."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return min(across, down)


def main(chromium: str, folder: Path | None) -> None:
    with browser(chromium, width=1000, height=700) as page:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 700})
            for name, used in USED.items():
                page.set_content(page_of(used))
                picture, texts = page.evaluate(BOXES)
                for number, (words, box) in enumerate(texts):
                    assert overlap(box, picture) >= min(box[2] - box[0], box[3] - box[1]) - 0.5, f"{words} leaves it"
                    for others, other in texts[number + 1 :]:
                        assert overlap(box, other) < 1, f"{words} is over {others} at {width}: {box}, {other}"
                labels = {words.partition(" ")[0] for words, _ in texts}
                assert labels & set(LOCATIONS) <= {*used, "ams"}, "a location that is not in use is labelled"
                assert name in ("all", "crowded") or set(used) <= labels
                if folder is not None:
                    page.screenshot(path=folder / f"map-{name}-{width}.png")
                print(f"{name} at {width} px: {len(texts)} labels", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
