"""A new location of a group: it is added, then followed until all databases of the group are there."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from traitlets import Int, List, Unicode

from pipemagic.client.resources import Instance
from pipemagic.errors import NotFound, PipemagicError, UnsupportedError
from pipemagic.notebook.panels.ground.parts import button, state
from pipemagic.notebook.panels.ground.tree import Action, Node, h
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.holdings import Holdings
from pipemagic.session.platform import Platform
from pipemagic.session.profiles import word
from pipemagic.session.reports import plural

AT_ONCE = 4
"""How many databases are asked about at the same time."""

QUICK, SLOW = 0.3, 5.0
"""Seconds between two rounds of questions: at first, and when nothing has happened for long."""

TRIES = 3
"""After so many rounds in which nothing could be waited for, only errors came, the following ends with the first."""

SMALL_LAG = 1.0
"""Seconds that a replica may be behind and count as caught up: a primary that is written to is always ahead."""

THERE = "caught up"
GONE = "deleted meanwhile"

T = TypeVar("T")


def each(names: Iterable[str], ask: Callable[[str], T], stop: threading.Event) -> Mapping[str, T | Exception]:
    """Ask about several things, some at the same time, in daemon threads; an error is an answer too.

    After ``stop`` nothing more is asked; what was not asked is missing.
    """
    found: dict[str, T | Exception] = {}
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        left.put(name)

    def work() -> None:
        while not stop.is_set():
            try:
                name = left.get_nowait()
            except queue.Empty:
                return
            try:
                found[name] = ask(name)
            except Exception as failure:  # noqa: BLE001 - told to the caller, by name
                found[name] = failure

    workers = [threading.Thread(target=work, name="pipemagic: asking", daemon=True) for _ in range(AT_ONCE)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def state_of(instance: Instance | None) -> str:
    """Say how an instance is, None being one that the service does not list yet: `THERE`, or what it does instead."""
    if instance is None:
        return "not there yet"
    if instance.state not in ("", "ok", "lagging"):
        return instance.state
    if instance.lag is not None and instance.lag > SMALL_LAG:
        return f"{instance.lag:.1f} s behind"
    return "lagging" if instance.state == "lagging" and instance.lag is None else THERE


class CatchingUp(WorkingModel):
    """Adds a location to a group and follows its replicas; one location at a time."""

    group = Unicode()
    place = Unicode(help="the code of the new location")
    total = Int(help="how many databases the group has; 0 while that is not known")
    there = Int(help="how many of them have caught up at the new location")
    late: List[tuple[str, str]] = List(help="(database, state or error in words) of those that have not")

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings
        self._stop = threading.Event()

    def add(self, group: str, code: str) -> bool:
        """Add a location to a group; False if another is being followed."""
        platform = self.holdings.platform

        def work() -> str:
            places = platform.add_location(group, code).locations
            try:
                return f"Group {group} is in {', '.join(places)}. {self._follow(platform)}"
            except PipemagicError as error:
                error.message = f"{code} was added to {group}, but its replicas cannot be asked about: {error.message}"
                raise

        if self.busy:
            return False
        self._stop.clear()
        self.group, self.place, self.total, self.there, self.late = group, code, 0, 0, []
        line = f"%pipedb add-location {word(group)} {word(code)}"
        return self.start(f"Adding {code} to group {group} ...", work, line)

    def stop(self) -> None:
        """Follow no more; the service goes on."""
        self._stop.set()

    def _follow(self, platform: Platform) -> str:
        """Ask for the replicas until all have caught up; says how that ended."""
        listing = platform.databases()
        waiting = [one.name for one in listing.items if one.group == self.group]
        if not waiting and not listing.complete:
            return self._wait(platform)
        self.total, pause, stuck = len(waiting), QUICK, 0
        self.busy = f"Copying group {self.group} to {self.place} ..."
        while waiting and not self._stop.is_set():
            try:
                found = self._look(platform, waiting)
            except UnsupportedError:
                return self._wait(platform)
            failures = [one for one in found.values() if isinstance(one, PipemagicError)]
            moves = any(isinstance(one, str) and one != "paused" for one in found.values())
            stuck = 0 if moves else stuck + 1
            if failures and stuck == TRIES:
                raise failures[0]
            left = [name for name in waiting if found.get(name) not in (THERE, GONE)]
            self._show(left, found)
            if left and all(found.get(name) == "paused" for name in left):
                return f"{self.place} is paused: its replicas follow when it is resumed."
            pause = QUICK if len(left) < len(waiting) else min(SLOW, 1.3 * pause)
            waiting = left
            if waiting:
                self._stop.wait(pause)
        if waiting:
            return f"The service goes on copying to {self.place}; {self.there} of {self.total} databases were there."
        return _all_there(self.total)

    def _look(self, platform: Platform, names: list[str]) -> Mapping[str, str | Exception]:
        """Give the state of each database at the new location, or its error; raises what is the same for all."""

        def ask(name: str) -> str:
            try:
                instances = {one.name: one for one in platform.instances(name)}
            except NotFound:
                return GONE
            return state_of(instances.get(self.place))

        found = each(names, ask, self._stop)
        for one in found.values():
            if isinstance(one, UnsupportedError) or (
                isinstance(one, Exception) and not isinstance(one, PipemagicError)
            ):
                raise one
        return found

    def _show(self, left: list[str], found: Mapping[str, str | Exception]) -> None:
        gone = sum(one == GONE for one in found.values())
        words = {name: one.message if isinstance(one, PipemagicError) else str(one) for name, one in found.items()}
        self.total -= gone
        self.late = [(name, words[name]) for name in left if name in words]
        self.there = self.total - len(left)

    def _wait(self, platform: Platform) -> str:
        """Let the service say when it is done, if it tells that but no states."""
        try:
            platform.wait_for_location(self.group, self.place)
        except UnsupportedError:
            return "This service does not tell how far its replicas are."
        self.there = self.total
        return _all_there(self.total) if self.total else "Its databases are there."


def progress(model: CatchingUp, stop: Action) -> Node:
    """Show how far a new location is while it is followed; then how that ended."""
    if not model.busy or not model.total:
        return h("div", state(model), class_="pm-watching", key="catching up")
    words = f"{model.there} of {plural(model.total, 'database')} {'is' if model.there == 1 else 'are'} there"
    bar = h(
        "div", h("div", style=f"width: {100 * model.there / model.total:.0f}%"), class_="pm-bar", role="progressbar",
        aria_label=f"{model.group} at {model.place}", aria_valuemin=0, aria_valuenow=model.there,
        aria_valuemax=model.total, aria_valuetext=words,
    )  # fmt: skip
    shown = [h("li", f"{name}: {words}", key=name) for name, words in model.late[:3]]
    more = h("li", f"and {len(model.late) - 3} more", key="more") if len(model.late) > 3 else None
    return h(
        "div", state(model), bar,
        h("div", h("span", f"{words}."), button("Stop watching", stop, kind="plain"), class_="pm-watch"),
        h("ul", shown, more, class_="pm-late") if shown else None,
        class_="pm-watching", live=True, key="catching up",
    )  # fmt: skip


def _all_there(total: int) -> str:
    if total == 0:
        return "It has no databases yet."
    return "Its database is there." if total == 1 else f"Its {total} databases are there."
