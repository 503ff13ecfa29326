"""Two ways to use a notebook: by mouse, and by keyboard only. Both find elements by visible or accessible text."""

from __future__ import annotations

from typing import Protocol

from lab import Notebook
from playwright.sync_api import Locator, expect

FAR = 120
"""Presses of Tab after which an element counts as unreachable."""

ACTIVE = "(element) => [element.isConnected, element === document.activeElement]"
GRID = "(element) => [element.isConnected, element.closest('[role=grid]') !== null]"
AT_CELLS = "document.activeElement.matches('.jp-Notebook .jp-Cell.jp-mod-active')"
PLACE = "(cells) => cells.indexOf(document.activeElement)"
OPTIONS = "select => [[...select.options].map(option => option.value), select.selectedIndex]"
"""The labels of the options, and the place of the selected one, read at once: the kernel may replace them."""
PASSED = """(element) => [
  element.isConnected, document.activeElement.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING
]"""


def _look(wanted: Locator, expression: str) -> bool:
    """Evaluate whether the element is connected, and a property of it, until it is: the panel may replace it."""
    while True:
        connected, value = wanted.evaluate(expression)
        if connected:
            return bool(value)


class Hands(Protocol):
    """The actions of a user."""

    def run(self, number: int) -> None:
        """Run a cell."""

    def press(self, button: Locator, *, key: str = "", at_once: bool = False) -> None:
        """Press a button or checkbox; by keyboard with Enter, Space or a given ``key``.

        Wait until it can be pressed, except with ``at_once``.
        """

    def write(self, field: Locator, text: str, *, then: str = "") -> None:
        """Type into an empty field, then press the key ``then``."""

    def rewrite(self, field: Locator, text: str, *, then: str = "") -> None:
        """Replace the text of a field, then press the key ``then``."""

    def choose(self, choice: Locator, value: str) -> None:
        """Select an option of a dropdown."""

    def select_tab(self, panel: Locator, title: str) -> None:
        """Select a tab of a panel."""

    def enter(self, number: int) -> None:
        """Move from the cells into the output of one of them."""


class Mouse:
    """Points and clicks; uses keys only for typing."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook, self._page = notebook, notebook.page

    def run(self, number: int) -> None:
        self._notebook.run_by(lambda: self._start(number), number)

    def _start(self, number: int) -> None:
        self._notebook.cells.nth(number).locator(".jp-InputArea-prompt").first.click()
        self._page.get_by_role("button", name="Run this cell").first.click()

    def press(self, button: Locator, *, key: str = "", at_once: bool = False) -> None:
        button.click(force=at_once)

    def write(self, field: Locator, text: str, *, then: str = "") -> None:
        field.click()
        self._page.keyboard.type(text)
        if then:
            self._page.keyboard.press(then)

    def rewrite(self, field: Locator, text: str, *, then: str = "") -> None:
        field.click(click_count=3)
        self._page.keyboard.type(text)
        if then:
            self._page.keyboard.press(then)

    def choose(self, choice: Locator, value: str) -> None:
        choice.select_option(value)

    def select_tab(self, panel: Locator, title: str) -> None:
        panel.get_by_role("tab", name=title, exact=True).click()

    def enter(self, number: int) -> None:
        self._notebook.cells.nth(number).scroll_into_view_if_needed()


class Keyboard:
    """Uses Tab, Shift+Tab, arrows, Enter and Space; the script clicks and focuses nothing."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook, self._page = notebook, notebook.page
        self._keys = self._page.keyboard
        self._last = "Space"

    def run(self, number: int) -> None:
        """Move the focus to the cell, and press Ctrl+Enter."""
        self._notebook.run_by(lambda: self._start(number), number)

    def _start(self, number: int) -> None:
        self.enter(number)
        self._keys.press("Control+Enter")

    def enter(self, number: int) -> None:
        """Return to the active cell and move to another by arrows; from there Tab moves into its output."""
        self._back_to_cells()
        ahead = number - self._notebook.cells.evaluate_all(PLACE)
        for _ in range(abs(ahead)):
            self._keys.press("ArrowDown" if ahead > 0 else "ArrowUp")
        expect(self._notebook.cells.nth(number)).to_be_focused()

    def press(self, button: Locator, *, key: str = "", at_once: bool = False) -> None:
        """Alternate between Enter and Space, which both press buttons."""
        self.reach(button)
        if not at_once:
            expect(button).to_be_enabled()
            expect(button).to_be_focused()  # a button that was disabled for a moment gets the focus back
        self._last = "Enter" if self._last == "Space" else "Space"
        self._keys.press(key or self._last)

    def write(self, field: Locator, text: str, *, then: str = "") -> None:
        self.reach(field)
        self._keys.type(text)
        if then:
            self._keys.press(then)

    def rewrite(self, field: Locator, text: str, *, then: str = "") -> None:
        self.reach(field)
        self._keys.press("Control+a")
        self._keys.type(text)
        if then:
            self._keys.press(then)

    def select_tab(self, panel: Locator, title: str) -> None:
        """Select a tab: the row is one Tab stop; arrows move along it and Enter selects."""
        self._go("Tab", panel.locator("[role=tab][tabindex='0']"))  # through the whole page
        wanted = panel.get_by_role("tab", name=title, exact=True)
        for _ in range(FAR):
            if wanted.evaluate("(tab) => tab === document.activeElement"):
                self._keys.press("Enter")
                expect(wanted).to_have_attribute("aria-selected", "true")
                return
            self._keys.press("ArrowRight")
        raise AssertionError(f"no tab {title}")

    def choose(self, choice: Locator, value: str) -> None:
        """Press arrow keys until the option is selected."""
        expect(choice.locator("option").filter(has_text=value).first).to_be_attached()
        expect(choice).to_be_enabled()
        self.reach(choice)
        self._keys.press("Home")
        for _ in range(FAR):
            values, at = choice.evaluate(OPTIONS)
            if values[at] == value:
                return
            back = value in values and at > values.index(value)
            self._keys.press("ArrowUp" if back else "ArrowDown")
        raise AssertionError(f"{value} cannot be chosen by arrow keys")

    def reach(self, wanted: Locator) -> None:
        """Move the focus forward with Tab, or back with Shift+Tab; to a button in the headings of a grid by arrows."""
        expect(wanted).to_be_visible()
        if not _look(wanted, GRID):
            self._go("Shift+Tab" if _look(wanted, PASSED) else "Tab", wanted)
            return
        self.reach_grid(wanted.locator("xpath=ancestor::table"))
        for key in ("Control+Home", "ArrowUp", "Home"):
            self._keys.press(key)
        self._go("ArrowRight", wanted)

    def reach_grid(self, grid: Locator) -> None:
        """Move the focus to a grid, which is one stop of Tab."""
        stop = grid.locator("[tabindex='0']")
        self._go("Shift+Tab" if _look(stop, PASSED) else "Tab", stop)

    def _go(self, key: str, wanted: Locator) -> None:
        """Press a key until an element has the focus; Tab wraps around at the end of the page."""
        for _ in range(FAR):
            if _look(wanted, ACTIVE):
                return
            self._keys.press(key)
        raise AssertionError(f"{wanted} cannot be reached by {key}")

    def _back_to_cells(self) -> None:
        for _ in range(FAR):
            if self._page.evaluate(AT_CELLS):
                return
            self._keys.press("Shift+Tab")
        raise AssertionError("the cells cannot be reached by Shift+Tab")
