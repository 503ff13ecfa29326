"""A new location of a group: it is added, then followed until all databases of the group are there."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from traitlets import Bool, Int, List

from pipemagic.errors import AuthError, NotFound, PipemagicError, UnsupportedError
from pipemagic.management_api.models import Instance
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.groups.asking import asking_of
from pipemagic.notebook.panels.holdings import Holdings
from pipemagic.session.organization import Platform
from pipemagic.session.profiles import word

QUICK, SLOW = 0.3, 5.0
"""Seconds between two rounds of questions: at first, and when nothing has happened for long."""

TRIES = 8
"""After so many rounds in which nothing could be waited for, only errors came, the following ends with the first.

That is about ten seconds: a service that was ended may be started again meanwhile.
"""

SMALL_LAG = 1.0
"""Seconds that a replica may be behind and count as caught up: a primary that is written to is always ahead."""

THERE = "caught up"
GONE = "deleted meanwhile"


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
    """Adds a location to a group and follows its replicas there."""

    total = Int(help="how many databases the group has; 0 while that is not known")
    there = Int(help="how many of them have caught up at the new location")
    late: List[tuple[str, str]] = List(help="(database, state or error in words) of those that have not")
    unfinished = Bool(help="whether it was added, and not all is known to be there")

    def __init__(self, holdings: Holdings, group: str, place: str) -> None:
        super().__init__()
        self.holdings, self.group, self.place = holdings, group, place
        self._organization = (holdings.organization, holdings.where)
        self._platform = holdings.platform
        self._asking = asking_of(holdings.session)
        self._stop = threading.Event()
        self._wanted = False

    @property
    def is_of_shown(self) -> bool:
        """Whether it is about the organization that the panels show."""
        return self._organization == (self.holdings.organization, self.holdings.where)

    def begin(self) -> None:
        """Add the location, and follow it."""

        def work() -> str:
            places = self._platform.add_location(self.group, self.place).locations
            self.unfinished = True
            return f"Group {self.group} is in {', '.join(places)}. {self._watch(self._platform)}"

        line = f"%pipedb add-location {word(self.group)} {word(self.place)}"
        self.start(f"Adding {self.place} to group {self.group} ...", work, line)

    def again(self) -> None:
        """Follow what was added, until it is there; the organization may have another token by now."""
        platform = self.holdings.platform if self.is_of_shown else self._platform

        def work() -> str:
            self._wanted = False
            return f"Group {self.group} is in {self.place}. {self._watch(platform)}"

        self._stop.clear()
        self._wanted = True  # before start(): if other work is running, ended() starts this one after it
        self.start(f"Copying group {self.group} to {self.place} ...", work)

    def ended(self) -> None:
        """Go on, if that was wished while a stop was under way."""
        if self._wanted and self.unfinished:
            self.again()

    def stop(self) -> None:
        """Follow no more; the service goes on."""
        self._wanted = False
        self._stop.set()

    def _watch(self, platform: Platform) -> str:
        try:
            return self._follow(platform)
        except PipemagicError as error:
            added = f"{self.place} was added to {self.group}"
            message = f"{added}, but its replicas cannot be asked about: {error.message}"
            raise error.replace(message=message) from None

    def _follow(self, platform: Platform) -> str:
        """Ask for the replicas until all have caught up; says how that ended."""
        listing = platform.databases()
        waiting = [one.name for one in listing.items if one.group == self.group]
        if not waiting and not listing.complete:
            return self._wait(platform)
        with self.hold_trait_notifications():
            self.total, self.there, self.late = len(waiting), 0, []
            self.busy = f"Copying group {self.group} to {self.place} ..."
        pause, stuck = QUICK, 0
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
        self.unfinished = False
        return _all_there(self.total)

    def _look(self, platform: Platform, names: list[str]) -> Mapping[str, str | Exception]:
        """Give the state of each database at the new location, or its error; raises what is the same for all."""

        def ask(name: str) -> str:
            try:
                instances = {one.name: one for one in platform.instances(name)}
            except NotFound:
                return GONE
            return state_of(instances.get(self.place))

        found = self._asking.each(names, ask, self._stop)
        for one in found.values():
            lasts = isinstance(one, UnsupportedError | AuthError) or not isinstance(one, PipemagicError)
            if isinstance(one, Exception) and lasts:
                raise one
        return found

    def _show(self, left: list[str], found: Mapping[str, str | Exception]) -> None:
        gone = sum(one == GONE for one in found.values())
        words = {name: one.message if isinstance(one, PipemagicError) else str(one) for name, one in found.items()}
        with self.hold_trait_notifications():
            self.total -= gone
            self.late = [(name, words[name]) for name in left if name in words]
            self.there = self.total - len(left)

    def _wait(self, platform: Platform) -> str:
        """Let the service say when it is done, if it tells that but no states."""
        try:
            platform.wait_for_location(self.group, self.place)
        except UnsupportedError:
            self.unfinished = False  # nobody can tell more
            return "This service does not tell how far its replicas are."
        self.there, self.unfinished = self.total, False
        return _all_there(self.total) if self.total else "Its databases are there."


def _all_there(total: int) -> str:
    if total == 0:
        return "It has no databases yet."
    return "Its database is there." if total == 1 else f"Its {total} databases are there."
