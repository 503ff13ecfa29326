"""Two ways to use a notebook: by mouse, and by keyboard alone. Both find things by what people see or hear."""

from __future__ import annotations

from typing import Protocol

from lab import Notebook
from playwright.sync_api import Locator, expect

FAR = 120
"""Presses of Tab after which something counts as out of reach."""

ACTIVE = "(element) => [element === document.activeElement, element.isConnected]"
AT_CELLS = "document.activeElement.matches('.jp-Notebook .jp-Cell.jp-mod-active')"
PLACE = "(cells) => cells.indexOf(document.activeElement)"
PASSED = "(element) => document.activeElement.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_PRECEDING"


class Hands(Protocol):
    """How a visitor acts."""

    def run(self, number: int) -> None:
        """Run a cell."""

    def press(self, button: Locator, *, key: str = "", at_once: bool = False) -> None:
        """Press a button or a box, by the keyboard with Enter or Space, or with the one ``key`` that does it.

        Waits until it can be pressed, but for ``at_once``.
        """

    def point_at(self, panel: Locator, code: str) -> None:
        """Choose a location."""

    def write(self, field: Locator, text: str, *, then: str = "") -> None:
        """Write into an empty field, and press a key ``then``."""

    def rewrite(self, field: Locator, text: str) -> None:
        """Write over what is in a field."""

    def choose(self, choice: Locator, value: str) -> None:
        """Choose from a list."""

    def turn_to(self, panel: Locator, title: str) -> None:
        """Bring a tab of a panel to the front."""

    def enter(self, number: int) -> None:
        """Go from the cells to what one of them shows."""


class Mouse:
    """Points and clicks; the keys are for writing only."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook, self._page = notebook, notebook.page

    def run(self, number: int) -> None:
        cell = self._notebook.cells.nth(number)
        cell.locator(".jp-InputArea-prompt").first.click()
        self._page.get_by_role("button", name="Run this cell").first.click()
        self._notebook.done(number)

    def press(self, button: Locator, *, key: str = "", at_once: bool = False) -> None:
        button.click(force=at_once)

    def point_at(self, panel: Locator, code: str) -> None:
        """Click its mark on the map: the one of the two that is as large as the page lets it be."""
        marks = panel.get_by_label(f"{code} on the map").or_(panel.get_by_label(f"{code} on the small map"))
        marks.filter(visible=True).click()

    def write(self, field: Locator, text: str, *, then: str = "") -> None:
        field.click()
        self._page.keyboard.type(text)
        if then:
            self._page.keyboard.press(then)

    def rewrite(self, field: Locator, text: str) -> None:
        field.click(click_count=3)
        self._page.keyboard.type(text)

    def choose(self, choice: Locator, value: str) -> None:
        choice.select_option(value)

    def turn_to(self, panel: Locator, title: str) -> None:
        panel.get_by_role("tab", name=title, exact=True).click()

    def enter(self, number: int) -> None:
        self._notebook.cells.nth(number).scroll_into_view_if_needed()


class Keyboard:
    """Tab and Shift+Tab, arrows, Enter, Space; nothing is clicked or focused by the script."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook, self._page = notebook, notebook.page
        self._keys = self._page.keyboard
        self._last = "Space"

    def run(self, number: int) -> None:
        """From wherever the focus is back to the cells, along them, and Ctrl+Enter."""
        self.enter(number)
        self._keys.press("Control+Enter")
        self._notebook.done(number)

    def enter(self, number: int) -> None:
        """Back to the active cell, and by arrows to another: Tab goes on from there into what it shows."""
        self._back_to_cells()
        ahead = number - self._notebook.cells.evaluate_all(PLACE)
        for _ in range(abs(ahead)):
            self._keys.press("ArrowDown" if ahead > 0 else "ArrowUp")
        expect(self._notebook.cells.nth(number)).to_be_focused()

    def press(self, button: Locator, *, key: str = "", at_once: bool = False) -> None:
        """Enter and Space in turn: both press buttons."""
        self.reach(button)
        if not at_once:
            expect(button).to_be_enabled()
        self._last = "Enter" if self._last == "Space" else "Space"
        self._keys.press(key or self._last)

    def point_at(self, panel: Locator, code: str) -> None:
        """The table has what the map has."""
        self.press(panel.get_by_role("button", name=f"Add {code} to a group"))

    def write(self, field: Locator, text: str, *, then: str = "") -> None:
        self.reach(field)
        self._keys.type(text)
        if then:
            self._keys.press(then)

    def rewrite(self, field: Locator, text: str) -> None:
        self.reach(field)
        self._keys.press("Control+a")
        self._keys.type(text)

    def turn_to(self, panel: Locator, title: str) -> None:
        """The row of tabs is one stop of Tab; arrows go along it."""
        self._go("Tab", panel.locator("[role=tab][aria-selected=true]"))  # around the whole page
        wanted = panel.get_by_role("tab", name=title, exact=True)
        for _ in range(FAR):
            if wanted.get_attribute("aria-selected") == "true":
                return
            selected = panel.locator("[role=tab][aria-selected=true]").inner_text()
            self._keys.press("ArrowRight")
            expect(panel.locator("[role=tab][aria-selected=true]")).not_to_have_text(selected)
        raise AssertionError(f"there is no tab {title}")

    def choose(self, choice: Locator, value: str) -> None:
        """Press arrow keys until it is chosen; the panel may be drawn again after each, with the value before it."""
        self.reach(choice)
        self._keys.press("Home")
        for _ in range(FAR):
            values = choice.locator("option").evaluate_all("options => options.map(option => option.value)")
            present = choice.input_value()
            if present == value:
                return
            back = value in values and values.index(present) > values.index(value)
            self._keys.press("ArrowUp" if back else "ArrowDown")
        raise AssertionError(f"{value} cannot be chosen by arrow keys")

    def reach(self, wanted: Locator) -> None:
        """Go to what is further on with Tab, to what was passed with Shift+Tab."""
        expect(wanted).to_be_visible()
        self._go("Shift+Tab" if wanted.evaluate(PASSED) else "Tab", wanted)

    def _go(self, key: str, wanted: Locator) -> None:
        """Press a key until something has the focus; from the page's end, Tab leads to its start and on."""
        element = None
        for _ in range(FAR):
            active, there = element.evaluate(ACTIVE) if element else (False, False)
            if not there:  # not yet, or another one was drawn for it
                element = wanted.element_handle()
                active, _ = element.evaluate(ACTIVE)
            if active:
                return
            self._keys.press(key)
        raise AssertionError(f"{wanted} cannot be reached by {key}")

    def _back_to_cells(self) -> None:
        for _ in range(FAR):
            if self._page.evaluate(AT_CELLS):
                return
            self._keys.press("Shift+Tab")
        raise AssertionError("the cells cannot be reached by Shift+Tab")
