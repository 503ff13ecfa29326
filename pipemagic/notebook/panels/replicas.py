"""Replica states of groups, and of new locations until they have caught up, read by one task in the background."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pipemagic.errors import NotFound, PipemagicError, UnsupportedError, with_hint
from pipemagic.management_api.models import CAUGHT_UP
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.tasks import LatestTask
from pipemagic.text import plural, word

if TYPE_CHECKING:
    from pipemagic.management_api.models import Group, Instance
    from pipemagic.notebook.panels.forms import PanelPart
    from pipemagic.notebook.panels.organization_state import OrganizationState
    from pipemagic.session.organization import Organization

T = TypeVar("T")

REQUESTS = 4
"""Maximum number of concurrent requests about databases."""

MEASURED = 20
"""Maximum number of databases per group whose replicas are read."""

POLL = 5.0
"""Seconds between reads of replicas that are behind or unreadable."""

FIRST, LAST = 0.3, 5.0
"""Seconds between reads of new locations: at first, and after a long time without changes."""

NO_LAG = "This service does not report replica lag."
NOT_THERE = "not there yet"


def describe(instance: Instance | None) -> str:
    """Return the state of an instance as text; None stands for one that is not listed yet."""
    return NOT_THERE if instance is None else instance.status


@dataclass(frozen=True)
class ReplicaSummary:
    """The replicas of a group at one location: ``total`` databases were read, ``ready`` of them have caught up."""

    total: int
    ready: int
    lag: float | None = None
    states: tuple[str, ...] = ()

    @property
    def is_missing(self) -> bool:
        """Whether no database has a replica there yet, or any more."""
        return self.ready == 0 and set(self.states) <= {NOT_THERE}

    def __str__(self) -> str:
        lag = "" if self.lag is None else f", lag {self.lag:.1f} s"
        if self.ready == self.total:
            return f"{CAUGHT_UP}{lag}"
        some = f" ({self.ready} of {self.total} caught up)" if self.total > 1 else ""
        return f"{', '.join(self.states)}{some}{lag}"


@dataclass(eq=False)
class NewLocation:
    """A location that was added to a group, and in ``words`` how many of the group's databases have caught up there."""

    group: str
    code: str
    words: str
    unfinished: bool = True


class ReplicaStates:
    """The replicas of groups, read by one task for all panels of a session.

    While a panel watches them, those of all groups are read, and again while some are behind or unreadable. While any
    panel is displayed, locations that were added here are read until their databases have caught up.
    """

    def __init__(self, state: OrganizationState) -> None:
        self.state = state
        self.task = LatestTask("replicas", state.notify)
        self._watchers: set[object] = set()
        self._new: defaultdict[tuple[str, str], list[NewLocation]] = defaultdict(list)
        self._stop = threading.Event()
        self.reset()

    def reset(self) -> None:
        """Discard what was read."""
        self.summaries: dict[str, Mapping[str, ReplicaSummary]] = {}
        self.supported = True
        self.error: PipemagicError | None = None
        """Why the summaries may be out of date."""

    @property
    def line(self) -> str:
        """The states of the locations that were added here, of the organization that is shown; '' without any."""
        return " ".join(location.words for location in self._new[self.state.identity]).strip()

    @property
    def unfinished(self) -> list[NewLocation]:
        """The locations that were added here and where some databases have not caught up."""
        return [location for location in self._new[self.state.identity] if location.unfinished]

    def watch(self, panel: object) -> None:
        """Read the replicas of all groups from now on."""
        self._watchers.add(panel)
        self.follow()

    def unwatch(self, panel: object) -> None:
        """Read only those of locations that were added here, unless another panel watches all."""
        self._watchers.discard(panel)
        if not self._watchers:
            self.reset()
            if not self.unfinished:
                self.stop()

    def check(self) -> None:
        """Read again if the last read failed or the service reports other states of locations; send one request."""
        statuses = {group.name: group.status for group in self._groups() if group.status}
        if not statuses:
            return
        try:
            states = self.state.organization.states()
        except PipemagicError as error:
            self.error = error
            return
        if any(states.get(name, status) != status for name, status in statuses.items()):
            self.state.refresh()  # this also reads the replicas
        elif self.error is not None and self.task.wait(0):
            self.follow()

    def add(self, part: PanelPart, group: str, code: str) -> None:
        """Add a location to a group."""
        organization = self.state.organization

        def work() -> str:
            described = outcomes.describe_group(organization.add_location(group, code))
            self.drop(organization, group, code)
            new = NewLocation(group, code, f"Copying {group} to {code}.")
            self._new[organization.slug, organization.where].append(new)
            self.follow()
            return described

        part.run(f"Adding {code} to group {group} ...", f"add-location {word(group)} {word(code)}", work)

    def drop(self, organization: Organization, group: str, code: str = "") -> None:
        """Show one or all new locations of a group no longer."""
        new = self._new[organization.slug, organization.where]
        new[:] = [location for location in new if location.group != group or code not in ("", location.code)]

    def drop_finished(self) -> None:
        """Show the locations that have caught up no longer."""
        self._new[self.state.identity][:] = self.unfinished

    def follow(self) -> None:
        """Read now what panels show, and again while it may change."""
        self.stop()
        if self.state.known and self.state.displayed and (self._watchers or self.unfinished):
            self._stop = stop = threading.Event()
            self.task.start("", lambda: self._follow(stop))

    def stop(self) -> None:
        """Stop reading."""
        self._stop.set()

    def _follow(self, stop: threading.Event) -> str:
        groups, pause = self._groups() if self._watchers else [], 0.0
        while not stop.wait(pause):
            before = self.line
            self._read([group.name for group in groups], stop)
            self.state.notify()
            groups = [group for group in groups if not self._is_settled(group)]
            if self.unfinished:
                pause = FIRST if self.line != before else min(LAST, max(FIRST, 1.3 * pause))
            elif groups and self.supported:
                pause = POLL
            else:
                break
        return ""

    def _groups(self) -> list[Group]:
        """Return the groups that have replicas."""
        return [group for group in self.state.groups if len(group.locations) > 1]

    def _is_settled(self, group: Group) -> bool:
        places = self.summaries.get(group.name)
        return places is not None and all(summary.ready == summary.total for summary in places.values())

    def _read(self, groups: Sequence[str], stop: threading.Event) -> None:
        """Read some groups, and those of new locations."""
        organization, new = self.state.organization, self.unfinished  # before the groups, which belong to it
        copied = {location.group for location in new}
        answers: dict[str, Mapping[str, ReplicaSummary] | PipemagicError] = {}
        for group in {*groups, *copied}:
            codes = {location.code for location in new if location.group == group}
            codes.update(*(listed.locations[1:] for listed in self.state.groups if listed.name == group))
            try:
                answers[group] = self._summaries(organization, group, sorted(codes), stop, all_=group in copied)
            except PipemagicError as error:  # does not affect other groups
                answers[group] = error
        progress = [_progress(organization, location, answers[location.group]) for location in new]
        if stop.is_set() or not self.state.shows(organization):  # some are missing, or are those of another one
            return
        for location, (words, unfinished) in zip(new, progress, strict=True):
            location.words, location.unfinished = words, unfinished
        errors = [answer for answer in answers.values() if isinstance(answer, PipemagicError)]
        self.supported &= not any(isinstance(error, UnsupportedError) for error in errors)
        self.error = next((error for error in errors if not isinstance(error, UnsupportedError)), None)
        read = {group: answer for group, answer in answers.items() if not isinstance(answer, PipemagicError)}
        others = {group: places for group, places in self.summaries.items() if group not in answers}
        self.summaries = {**others, **read}

    def _summaries(
        self, organization: Organization, group: str, codes: Sequence[str], stop: threading.Event, *, all_: bool
    ) -> dict[str, ReplicaSummary]:
        """Return the summaries of a group, of ``all_`` its databases as they are listed now, or of some."""
        databases, complete = self.state.databases, self.state.complete
        if all_:
            listing = organization.databases()
            databases, complete = list(listing.items), listing.complete
        names = [database.name for database in databases if database.group == group]
        if not self.supported or not (names or complete):
            raise UnsupportedError("this service does not report replica lag")
        return read_summaries(self.state, organization, codes, names if all_ else names[:MEASURED], stop)


def _progress(
    organization: Organization, location: NewLocation, answer: Mapping[str, ReplicaSummary] | PipemagicError
) -> tuple[str, bool]:
    """Return a sentence about a group's databases at a new location, and whether some have not caught up."""
    group, code = location.group, location.code
    try:
        if isinstance(answer, UnsupportedError):
            return _wait_for_service(organization, group, code), False
        if isinstance(answer, PipemagicError):
            raise answer
        if answer[code].is_missing and not _has_location(organization, group, code):
            return f"{code} was removed from {group}.", False
    except PipemagicError as error:
        return f"Cannot read the replicas of {group} at {code}.\n{explain(error)}\n", True
    return _describe_progress(group, code, answer[code])


def _wait_for_service(organization: Organization, group: str, code: str) -> str:
    try:
        organization.wait_for_location(group, code)
    except UnsupportedError:
        return NO_LAG
    return f"The databases of {group} are ready at {code}."


def explain(error: PipemagicError) -> str:
    """Return code, message and hint of an error, in lines."""
    return with_hint(f"{error.code}: {error.message}", error.hint)


def read_summaries(
    state: OrganizationState, organization: Organization, codes: Sequence[str], databases: Sequence[str],
    stop: threading.Event,
) -> dict[str, ReplicaSummary]:  # fmt: skip
    """Return the summaries of databases at locations, by code; raise an error if no database can be read."""
    read = request_each(state.requests, databases, organization.instances, stop)
    answers = [answer for answer in read.values() if not isinstance(answer, NotFound)]  # deleted meanwhile
    listed = [None if isinstance(answer, PipemagicError) else answer for answer in answers]
    for answer in answers:
        if isinstance(answer, PipemagicError) and not any(listed):
            raise answer
    return {code: _summary(code, listed) for code in codes}


def _summary(code: str, listed: Sequence[Sequence[Instance] | None]) -> ReplicaSummary:
    here = [
        next((instance for instance in instances if instance.name == code), None)
        for instances in listed
        if instances is not None
    ]
    states = [describe(instance) for instance in here] + ["no response"] * listed.count(None)
    lags = [instance.lag for instance in here if instance is not None and instance.lag is not None]
    others = {"behind" if state.endswith("behind") else state for state in states if state != CAUGHT_UP}
    return ReplicaSummary(len(states), states.count(CAUGHT_UP), max(lags, default=None), tuple(sorted(others)))


def request_each(
    limit: threading.Semaphore, names: Iterable[str], request: Callable[[str], T], stop: threading.Event
) -> dict[str, T | PipemagicError]:
    """Return the responses or errors by name; after ``stop``, only those that have arrived.

    This does not use an executor, which at exit waits for servers that do not respond.
    """
    left, responses = queue.SimpleQueue[str](), dict[str, "T | Exception"]()
    for name in names:
        left.put(name)

    def work() -> None:
        while True:
            try:
                name = left.get_nowait()
            except queue.Empty:
                return
            with limit:
                if stop.is_set():
                    return
                try:
                    responses[name] = request(name)
                except Exception as error:  # noqa: BLE001 - raised below, or returned
                    responses[name] = error

    workers = [
        threading.Thread(target=work, name="pipemagic: request", daemon=True)
        for _ in range(min(REQUESTS, left.qsize()))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        while worker.is_alive() and not stop.is_set():
            worker.join(0.05)
    answers: dict[str, T | PipemagicError] = {}
    for name, answer in dict(responses).items():  # a copy, since more may arrive after a stop
        if isinstance(answer, Exception) and not isinstance(answer, PipemagicError):
            raise answer
        answers[name] = answer
    return answers


def _describe_progress(group: str, code: str, summary: ReplicaSummary) -> tuple[str, bool]:
    """Return a sentence about a group's databases at a new location, and whether some have not caught up."""
    total, ready = summary.total, summary.ready
    if not total:
        return f"{group} has no databases yet.", False
    if ready == total:
        databases = "database of {} is" if total == 1 else f"{total} databases of {{}} are"
        return f"The {databases.format(group)} ready at {code}.", False
    if summary.states == ("paused",):
        return f"{code} is paused: replication continues when it is resumed.", True
    return (
        f"Copying {group} to {code}, {ready} of {plural(total, 'database')} {'is' if ready == 1 else 'are'} ready.",
        True,
    )


def _has_location(organization: Organization, group: str, code: str) -> bool:
    """Return True unless the service lists its groups, and none with this name is at the location."""
    groups = organization.groups()
    return not groups.complete or any(code in listed.locations for listed in groups.items if listed.name == group)
