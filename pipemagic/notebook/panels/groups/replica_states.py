"""How far the replicas of each group are, asked in the background."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traitlets import Bool, Dict, Unicode

from pipemagic.errors import NotFound, PipemagicError, UnsupportedError
from pipemagic.management_api.models import DatabaseInfo, Group, Instance
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.groups.asking import asking_of
from pipemagic.notebook.panels.groups.catching_up import THERE, state_of
from pipemagic.notebook.panels.holdings import Holdings
from pipemagic.session.organization import Platform

LIMIT = 20
"""How many databases of a group are asked about."""

EVERY = 5.0
"""Seconds between two rounds while something is catching up."""

GLANCE = 2.0
"""Seconds between two glances, where the service tells how locations are: one request, whatever there is."""

STILL = (THERE, "paused", "down", "no answer")
"""States that do not change by waiting."""


@dataclass(frozen=True)
class AtLocation:
    """The replicas of a group at one location: how many databases were asked about, how many have caught up.

    ``lag`` is the largest, in seconds (None where the service does not say), ``states`` what the others do instead.
    """

    asked: int
    there: int
    lag: float | None = None
    states: tuple[str, ...] = ()

    def __str__(self) -> str:
        lag = "" if self.lag is None else f", lag {self.lag:.1f} s"
        if self.there == self.asked:
            return f"{THERE}{lag}"
        some = f" ({self.there} of {self.asked} caught up)" if self.asked > 1 else ""
        return f"{', '.join(self.states)}{some}{lag}"

    @property
    def moves(self) -> bool:
        """Whether waiting changes something."""
        return any(one not in STILL for one in self.states)


class ReplicaStates(WorkingModel):
    """Asks for the replicas when groups or databases have changed, and again while some are catching up.

    Where the service tells how locations are, that is looked at all the time: a node may end, or be paused elsewhere.
    """

    found: Dict[str, Mapping[str, AtLocation]] = Dict(help="by group, then by code")
    told = Bool(True, help="whether the service tells of replicas")
    unseen = Unicode(help="why what is known may be out of date, '' if it is not")

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings
        self._asking = asking_of(holdings.session)
        self._stop = threading.Event()
        self._wake = threading.Event()

    def follow(self) -> None:
        """Look now, and after every change of groups and databases."""
        self._stop = threading.Event()
        self.found = {}  # nothing was followed since it was read
        self.holdings.observe(self._changed, ["groups", "databases"])
        self.holdings.observe(self._moved, ["organization", "where"])
        glances = threading.Thread(
            target=self._glance, args=(self._stop,), name="pipemagic: glances at groups", daemon=True
        )
        glances.start()
        self.look()

    def stop(self) -> None:
        """Look no more."""
        self.holdings.unobserve(self._changed, ["groups", "databases"])
        self.holdings.unobserve(self._moved, ["organization", "where"])
        self._stop.set()
        self._wake.set()

    def look(self) -> None:
        """Ask now; while that is under way already, once more after it."""
        self._wake.set()
        if any(len(group.locations) > 1 for group in self.holdings.groups):
            self.start("Asking for replicas ...", self._ask)

    def ended(self) -> None:
        """Ask once more if that was wished when the last answer was there already."""
        if self._wake.is_set() and not self._stop.is_set():
            self.look()

    def _changed(self, _change: Any) -> None:
        self.look()

    def _moved(self, _change: Any) -> None:
        self.found = {}  # a group of the same name is another one elsewhere

    def _glance(self, stop: threading.Event) -> None:
        while not stop.wait(GLANCE):
            known = {one.name: one.status for one in self.holdings.groups if len(one.locations) > 1 and one.status}
            platform = self.holdings.session.organization_in_use
            if not known or platform is None:
                continue
            try:
                states = platform.states()
            except PipemagicError as error:
                self.unseen = error.message
                continue
            missed, self.unseen = self.unseen, ""
            if missed or any(states.get(name, told) != told for name, told in known.items()):
                self.holdings.refresh()
            if missed or self._is_behind(states):
                self.look()

    def _is_behind(self, states: Mapping[str, Mapping[str, str]]) -> bool:
        """Tell whether replicas were found paused, down or mute at a location that is told to be otherwise by now."""
        return any(
            one.states and not one.moves and states.get(name, {}).get(code) not in one.states
            for name, places in self.found.items()
            for code, one in places.items()
        )

    def _ask(self) -> str:
        while not self._stop.is_set():
            self._wake.clear()
            platform = self.holdings.platform  # before the lists: then these are no older ones of another
            try:
                found, failure = self._round(platform)
            except UnsupportedError:
                self.found, self.told = {}, False
                return ""
            with self.hold_trait_notifications():
                self.found, self.told = found, True
                if not self.holdings.shows(platform):  # asked after they are set: else they could come after the move
                    self.found = {}
            if failure is not None:
                raise failure
            moves = any(one.moves for places in self.found.values() for one in places.values())
            if not self._wake.wait(EVERY if moves else 0) and not moves:
                return ""
        return ""

    def _round(self, platform: Platform) -> tuple[dict[str, Mapping[str, AtLocation]], PipemagicError | None]:
        """Ask about every group once; gives also the first error of one, which hides no other."""
        has, failure = self.holdings, None
        found: dict[str, Mapping[str, AtLocation]] = {}
        for group in has.groups:
            if len(group.locations) > 1:
                databases = [one for one in has.databases if one.group == group.name]
                try:
                    found[group.name] = self._of_group(platform, group, databases)
                except UnsupportedError:
                    raise
                except PipemagicError as error:
                    failure = failure or error
        return found, failure

    def _of_group(
        self, platform: Platform, group: Group, databases: Sequence[DatabaseInfo]
    ) -> Mapping[str, AtLocation]:
        names = [one.name for one in databases[:LIMIT]]
        found = self._asking.each(names, platform.instances, self._stop)
        answers = [one for one in found.values() if not isinstance(one, NotFound)]  # what was deleted just now is gone
        told = [None if isinstance(one, Exception) else one for one in answers]
        for one in answers:
            if isinstance(one, Exception) and (not any(told) or not isinstance(one, PipemagicError)):
                raise one
        return {code: _at(code, told) for code in group.locations[1:]} if told else {}


def _at(code: str, told: Sequence[Sequence[Instance] | None]) -> AtLocation:
    """Sum up the instances at a location; None is a database of which the service told nothing."""
    here = [next((one for one in instances if one.name == code), None) for instances in told if instances is not None]
    states = [state_of(one) for one in here] + ["no answer"] * told.count(None)
    lags = [one.lag for one in here if one is not None and one.lag is not None]
    others = {"behind" if one.endswith("behind") else one for one in states if one != THERE}
    return AtLocation(len(states), states.count(THERE), max(lags, default=None), tuple(sorted(others)))
