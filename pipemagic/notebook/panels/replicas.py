"""Replica states of groups, and of new locations until they have caught up, read in the background."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pipemagic.errors import NotFound, PipemagicError, UnsupportedError
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

SMALL_LAG = 1.0
"""Lag in seconds that counts as caught up: a primary under writes is always ahead."""

CAUGHT_UP, NOT_THERE = "caught up", "not there yet"


def describe(instance: Instance | None) -> str:
    """Return the state of an instance as text; None stands for one that is not listed yet."""
    if instance is None:
        return NOT_THERE
    if instance.state not in ("", "ok", "lagging"):
        return instance.state
    if instance.lag is not None and instance.lag > SMALL_LAG:
        return f"{instance.lag:.1f} s behind"
    return "lagging" if instance.state == "lagging" and instance.lag is None else CAUGHT_UP


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


class ReplicaStates:
    """Summaries of all groups, read again while some are behind or when the service reports a change."""

    def __init__(self, state: OrganizationState) -> None:
        self.state = state
        self.summaries: dict[str, Mapping[str, ReplicaSummary]] = {}
        self.supported = True
        self.outdated = ""
        """Why the summaries may be out of date; '' if they are not."""
        self.task = LatestTask("replicas", state.notify)
        self._stop = threading.Event()
        self._revision = 0
        self._read_at = 0.0

    def stop(self) -> None:
        """Stop reading and discard the summaries; `update` reads them again."""
        self._stop.set()
        self._stop = threading.Event()
        self.summaries, self.supported, self.outdated, self._revision = {}, True, "", 0

    def update(self) -> None:
        """Read again if groups and databases have been read again."""
        if self._revision != self.state.revision and self._groups():
            self._revision = self.state.revision
            self.task.start("Reading the replicas ...", self._read)

    def _groups(self) -> list[Group]:
        """Return the groups that have replicas."""
        return [group for group in self.state.groups if len(group.locations) > 1]

    def poll(self) -> None:
        """Read again what has changed, is behind, or could not be read."""
        if not self.state.known or not self._groups():
            return
        try:
            changed = self._have_states_changed()
        except PipemagicError as error:
            self.outdated = error.message
            return
        places = [summary for group in self.summaries.values() for summary in group.values()]
        behind = any(summary.ready < summary.total for summary in places)
        if changed:
            self.state.refresh()  # this also reads the replicas
        elif (behind or self.outdated) and time.monotonic() - self._read_at >= POLL:
            self.task.start("", self._read)

    def _have_states_changed(self) -> bool:
        """Return True if the service reports other location states; send one request and start no service."""
        statuses = {group.name: group.status for group in self._groups() if group.status}
        if not statuses:
            return False
        states = self.state.organization.states()
        return any(states.get(name, status) != status for name, status in statuses.items())

    def _read(self) -> str:
        # Before the groups, so that they belong to this organization.
        organization, stop, self._read_at = self.state.organization, self._stop, time.monotonic()
        summaries: dict[str, Mapping[str, ReplicaSummary]] = {}
        supported, outdated = True, ""
        for group in self._groups():
            try:
                summaries[group.name] = read_summaries(
                    self.state, organization, group.locations[1:], self.state.databases_in(group.name)[:MEASURED], stop
                )
            except UnsupportedError:
                supported = False
                break
            except PipemagicError as error:  # does not affect other groups
                outdated = outdated or error.message
        if self.state.shows(organization) and not stop.is_set():
            self.summaries, self.supported, self.outdated = summaries, supported, outdated
        return ""


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


@dataclass(eq=False)
class NewLocation:
    """A location that was added to a group, and in ``words`` how many of the group's databases have caught up there."""

    group: str
    code: str
    words: str
    unfinished: bool = True


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


class NewLocations:
    """The locations that were added here. While a panel is displayed, one task watches those of its organization."""

    def __init__(self, state: OrganizationState) -> None:
        self.state = state
        self.task = LatestTask("new locations", state.notify)
        self._locations: defaultdict[tuple[str, str], list[NewLocation]] = defaultdict(list)
        self._stop = threading.Event()

    @property
    def line(self) -> str:
        """The states of the new locations of the organization that is shown; '' without any."""
        return " ".join(location.words for location in self._locations[self.state.identity])

    def add(self, part: PanelPart, group: str, code: str) -> None:
        """Add a location to a group, and watch it from then on."""
        organization = self.state.organization

        def work() -> str:
            described = outcomes.describe_group(organization.add_location(group, code))
            self.drop(organization, group, code)
            new = NewLocation(group, code, f"Copying {group} to {code}.")
            self._locations[organization.slug, organization.where].append(new)
            self.watch()
            return described

        part.run(f"Adding {code} to group {group} ...", f"add-location {word(group)} {word(code)}", work)

    def drop(self, organization: Organization, group: str, code: str = "") -> None:
        """Show one or all new locations of a group no longer."""
        self._keep(
            (organization.slug, organization.where), lambda new: new.group != group or code not in ("", new.code)
        )

    def drop_finished(self) -> None:
        """Show the locations that have caught up no longer."""
        self._keep(self.state.identity, lambda new: new.unfinished)

    def _keep(self, identity: tuple[str, str], keeps: Callable[[NewLocation], bool]) -> None:
        if not all(map(keeps, self._locations[identity])):
            self._locations[identity] = list(filter(keeps, self._locations[identity]))
            self.watch()

    def watch(self) -> None:
        """Watch the locations of the organization that is shown, if a panel shows it."""
        self.stop()
        if self.state.displayed and (self.line or self.task.busy or self.task.message):
            self._stop = stop = threading.Event()
            self.task.start(self.line, lambda: self._follow(stop))

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()

    def _follow(self, stop: threading.Event) -> str:
        pause = 0.0
        while (left := self._unfinished()) and not stop.wait(pause):
            before, organization = self.line, self.state.organization
            for location in left:
                self._read(organization, location, stop)
            self.task.report(self.line)
            pause = FIRST if self.line != before else min(LAST, max(FIRST, 1.3 * pause))
        return self.line

    def _unfinished(self) -> list[NewLocation]:
        return [location for location in self._locations[self.state.identity] if location.unfinished]

    def _read(self, organization: Organization, location: NewLocation, stop: threading.Event) -> None:
        group, code = location.group, location.code
        try:
            words, unfinished = self._progress(organization, group, code, stop)
        except PipemagicError as error:
            words, unfinished = f"The replicas of {group} at {code} cannot be read: {error.message}.", True
        if not stop.is_set():  # else some responses are missing, or are those of another organization
            location.words, location.unfinished = words, unfinished

    def _progress(self, organization: Organization, group: str, code: str, stop: threading.Event) -> tuple[str, bool]:
        """Return a sentence about a group's databases at a new location, and whether some have not caught up."""
        databases = organization.databases()
        names = [database.name for database in databases.items if database.group == group]
        if not names and not databases.complete:
            return self._wait_for_service(organization, group, code), False
        try:
            summary = read_summaries(self.state, organization, [code], names, stop)[code]
        except UnsupportedError:
            return self._wait_for_service(organization, group, code), False
        if summary.is_missing and not _has_location(organization, group, code):
            return f"{code} was removed from {group}.", False
        return _describe_progress(group, code, summary)

    def _wait_for_service(self, organization: Organization, group: str, code: str) -> str:
        try:
            organization.wait_for_location(group, code)
        except UnsupportedError:
            return "This service does not report replica lag."
        return f"The databases of {group} are ready at {code}."
