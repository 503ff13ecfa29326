"""The new locations of groups, as many as there are at a time: each followed by itself, shown by several panels."""

from __future__ import annotations

import threading
from typing import Any

from traitlets import Int, List

from pipemagic.counts import plural
from pipemagic.notebook.panels.ground.parts import button, state
from pipemagic.notebook.panels.ground.shared import OneForASession
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.ground.widget import Values, View
from pipemagic.notebook.panels.ground.work import Model
from pipemagic.notebook.panels.groups.catching_up import CatchingUp
from pipemagic.notebook.panels.holdings import Holdings, holdings_of


class NewLocations(Model):
    """The locations that are being added, and those of which the end is still shown; one for a session.

    They are followed while a panel shows them.
    """

    all: List[CatchingUp] = List(help="in the order in which they were begun")
    changes = Int(help="how often something about one of them has changed")

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings
        self._lock = threading.Lock()
        self._panels = 0
        self._left: list[CatchingUp] = []

    @property
    def shown(self) -> list[CatchingUp]:
        """Those of the organization that the panels show."""
        return [one for one in self.all if one.is_of_shown]

    def find(self, group: str, code: str) -> CatchingUp | None:
        """Give the one of a group at a location."""
        return next((one for one in self.shown if (one.group, one.place) == (group, code)), None)

    def add(self, group: str, code: str) -> bool:
        """Add a location to a group, and follow it; False if just that is under way."""
        before = self.find(group, code)
        if before is not None and before.busy:
            return False
        new = CatchingUp(self.holdings, group, code)
        new.begin()  # before anybody hears of it
        self._replace(before, new)
        return True

    def stop(self, group: str, code: str) -> None:
        """Follow one no more; the service goes on."""
        if (one := self.find(group, code)) is not None:
            one.stop()

    def again(self, group: str, code: str) -> None:
        """Follow one on."""
        if (one := self.find(group, code)) is not None:
            one.again()

    def drop(self, group: str, code: str = "") -> None:
        """Show one no more, or all of a group: it was removed, or was looked at."""
        for one in self.shown:
            if one.group == group and code in ("", one.place):
                one.stop()
                self._replace(one, None)

    def forget(self) -> None:
        """Show no more of what has ended, but for those that have not caught up: other work of a panel begins."""
        for one in self.shown:
            if not one.busy and not one.unfinished:
                self._replace(one, None)

    def follow(self) -> None:
        """Follow from now on, also what was left when the last panel was closed."""
        with self._lock:
            self._panels += 1
            left, self._left = self._left, []
        for one in left:
            if one in self.all:
                one.again()

    def leave(self) -> None:
        """Follow no more for the sake of a panel that had called `follow`."""
        with self._lock:
            self._panels -= 1
            if self._panels > 0:
                return
            self._left = [one for one in self.all if one.busy]
        for one in self._left:
            one.stop()

    def _replace(self, old: CatchingUp | None, new: CatchingUp | None) -> None:
        if old is not None:
            old.unobserve(self._changed)
        if new is not None:
            new.observe(self._changed)
        with self.hold_trait_notifications(), self._lock:  # told when the lock is free: hearers may take it
            self.all = [*(one for one in self.all if one is not old), *([] if new is None else [new])]

    def _changed(self, _change: Any) -> None:
        self.changes += 1


new_locations_of = OneForASession(lambda session: NewLocations(holdings_of(session)))
"""Gives the new locations of a session: the same for all of its panels, which show the same progress."""


class ShowsNewLocations(View):
    """A view with `progress` in it: does what its buttons ask for."""

    new_locations: NewLocations

    def on_stop_watching(self, _values: Values, group: str, code: str) -> None:
        """Follow a new location no more."""
        self.new_locations.stop(group, code)

    def on_watch_again(self, _values: Values, group: str, code: str) -> None:
        """Follow it on."""
        self.new_locations.again(group, code)

    def on_dismiss(self, _values: Values, group: str, code: str) -> None:
        """Show it no more."""
        self.new_locations.drop(group, code)


def progress(model: NewLocations) -> Node | None:
    """Show how far the new locations are, and how the following of those that ended did."""
    shown = [_one(one) for one in model.shown]
    return h("div", shown, key="new locations") if shown else None


def _one(one: CatchingUp) -> Node:
    key, which = f"{one.group} {one.place}", f"{one.group} at {one.place}"
    if one.busy and one.total:
        stop = button(
            "Stop watching", ("stop-watching", one.group, one.place), kind="plain", label=f"Stop watching {which}"
        )
        return h("div", state(one), _bar(one, which, stop), _late(one), class_="pm-watching", live=True, key=key)
    more = None
    if one.unfinished and not one.busy:
        more = h(
            "div",
            button("Watch again", ("watch-again", one.group, one.place), label=f"Watch again {which}"),
            button("Dismiss", ("dismiss", one.group, one.place), kind="plain", label=f"Dismiss {which}"),
            class_="pm-watch", live=True,
        )  # fmt: skip
    return h("div", state(one), more, class_="pm-watching", key=key)


def _bar(one: CatchingUp, which: str, stop: Node) -> list[Node]:
    words = f"{one.there} of {plural(one.total, 'database')} {'is' if one.there == 1 else 'are'} there"
    bar = h(
        "div", h("div", style=f"width: {100 * one.there / one.total:.0f}%"), class_="pm-bar", role="progressbar",
        aria_label=which, aria_valuemin=0, aria_valuenow=one.there, aria_valuemax=one.total, aria_valuetext=words,
    )  # fmt: skip
    return [bar, h("div", h("span", f"{words}."), stop, class_="pm-watch")]


def _late(one: CatchingUp) -> Node | None:
    shown = [h("li", f"{name}: {words}", key=name) for name, words in one.late[:3]]
    more = h("li", f"and {len(one.late) - 3} more", key="more") if len(one.late) > 3 else None
    return h("ul", shown, more, class_="pm-late") if shown else None
