"""Replica states of groups and progress of new locations, read in the background."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from pipemagic.errors import AuthError, NotFound, PipemagicError, UnsupportedError
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.tasks import LatestTask
from pipemagic.text import plural, word

if TYPE_CHECKING:
    from pipemagic.management_api.models import Group, Instance
    from pipemagic.session.organization import Organization

T = TypeVar("T")

REQUESTS = 4
"""Maximum number of concurrent requests about databases."""

MEASURED = 20
"""Maximum number of databases per group whose replicas are read."""

POLL, POLL_STATES = 5.0, 2.0
"""Seconds between reads of replicas that are behind or unreadable, and between reads of location states."""

FIRST, LAST = 0.3, 5.0
"""Seconds between reads of a new location: at first, and after a long time without changes."""

ATTEMPTS = 8
"""Consecutive failed reads after which the first error is reported."""

SMALL_LAG = 1.0
"""Lag in seconds that counts as caught up: a primary under writes is always ahead."""

CAUGHT_UP, DELETED = "caught up", "deleted meanwhile"


class _State(Protocol):
    """What this module uses of `OrganizationState`, which imports it."""

    groups: list[Group]
    known: bool
    revision: int
    requests: threading.BoundedSemaphore

    @property
    def organization(self) -> Organization: ...

    def shows(self, organization: Organization) -> bool: ...

    def databases_in(self, group: str) -> list[str]: ...

    def notify(self) -> None: ...

    def refresh(self) -> None: ...


def describe(instance: Instance | None) -> str:
    """Return the state of an instance as text; None stands for one that is not listed yet."""
    if instance is None:
        return "not there yet"
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

    def __str__(self) -> str:
        lag = "" if self.lag is None else f", lag {self.lag:.1f} s"
        if self.ready == self.total:
            return f"{CAUGHT_UP}{lag}"
        some = f" ({self.ready} of {self.total} caught up)" if self.total > 1 else ""
        return f"{', '.join(self.states)}{some}{lag}"


class ReplicaStates:
    """Summaries of all groups, read again while some are behind or when the service reports a change."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.summaries: dict[str, Mapping[str, ReplicaSummary]] = {}
        self.supported = True
        self.outdated = ""
        """Why the summaries may be out of date; '' if they are not."""
        self.task = LatestTask("replicas", state.notify)
        self._stop = threading.Event()
        self._revision = 0

    def start(self) -> None:
        """Start reading."""
        self.forget()
        self._stop = threading.Event()
        threading.Thread(target=self._poll, args=(self._stop,), name="pipemagic: replicas", daemon=True).start()

    def stop(self) -> None:
        """Stop reading."""
        self._stop.set()

    def forget(self) -> None:
        """Discard all summaries."""
        self.summaries, self.supported, self.outdated, self._revision = {}, True, "", 0

    def update(self) -> None:
        """Read again if groups and databases have been read again."""
        if self._revision != self.state.revision and self._groups():
            self._revision = self.state.revision
            self.task.start("Reading the replicas ...", self._read)

    def _groups(self) -> list[Group]:
        """Return the groups that have replicas."""
        return [group for group in self.state.groups if len(group.locations) > 1]

    def _poll(self, stop: threading.Event) -> None:
        waited = 0.0
        while not stop.wait(POLL_STATES):
            waited += POLL_STATES
            if not self.state.known or not self._groups():
                continue
            try:
                changed = self._have_states_changed()
            except PipemagicError as error:
                self.outdated = error.message
                self.state.notify()
                continue
            behind = any(
                summary.ready < summary.total for places in self.summaries.values() for summary in places.values()
            )
            if changed:
                self.state.refresh()  # this also reads the replicas
            elif waited >= POLL and (behind or self.outdated):
                waited = 0.0
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
        organization, stop = self.state.organization, self._stop
        summaries: dict[str, Mapping[str, ReplicaSummary]] = {}
        supported, outdated = True, ""
        for group in self._groups():
            try:
                summaries[group.name] = self._read_group(organization, group, stop)
            except UnsupportedError:
                supported = False
                break
            except PipemagicError as error:  # does not affect other groups
                outdated = outdated or error.message
        if self.state.shows(organization) and not stop.is_set():
            self.summaries, self.supported, self.outdated = summaries, supported, outdated
        return ""

    def _read_group(
        self, organization: Organization, group: Group, stop: threading.Event
    ) -> Mapping[str, ReplicaSummary]:
        names = self.state.databases_in(group.name)[:MEASURED]
        read = request_each(self.state.requests, names, organization.instances, stop)
        answers = [answer for answer in read.values() if not isinstance(answer, NotFound)]  # deleted meanwhile
        listed = [None if isinstance(answer, PipemagicError) else answer for answer in answers]
        for answer in answers:
            if isinstance(answer, PipemagicError) and not any(listed):
                raise answer
        return {code: _summary(code, listed) for code in group.locations[1:]} if listed else {}


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
    """A location that is being added to a group, watched until all replicas have caught up."""

    state: _State
    group: str
    code: str
    total: int = 0
    ready: int = 0
    behind: list[tuple[str, str]] = field(default_factory=list)
    unfinished: bool = False
    """Whether it was added but not all of its databases are known to be ready."""

    def __post_init__(self) -> None:
        self.organization = self.state.organization
        self.task = LatestTask(f"location {self.code}", self.state.notify)
        self._stop = threading.Event()

    def add(self) -> None:
        """Add the location, and watch its replicas."""

        def work() -> str:
            group = self.organization.add_location(self.group, self.code)
            self.unfinished = True
            return f"{outcomes.describe_group(group)} {self._watch(self._stop)}"

        line = f"%pipedb add-location {word(self.group)} {word(self.code)}"
        self.task.start(f"Adding {self.code} to group {self.group} ...", work, line=line)

    def watch(self) -> None:
        """Watch the replicas again."""
        if self.state.shows(self.organization):  # its token may have changed
            self.organization = self.state.organization
        self._stop.set()
        self._stop = stop = threading.Event()
        self.task.start(self._copying, lambda: f"Group {self.group} is in {self.code}. {self._watch(stop)}")

    def resume(self) -> None:
        """Continue watching after a stop, even while the location is still being added."""
        if self.unfinished:
            self.watch()
        else:
            self._stop = threading.Event()

    def stop(self) -> None:
        """Stop watching; the service continues."""
        self._stop.set()

    @property
    def _copying(self) -> str:
        return f"Copying group {self.group} to {self.code} ..."

    def _watch(self, stop: threading.Event) -> str:
        try:
            return self._follow(stop)
        except PipemagicError as error:
            added = f"{self.code} was added to {self.group}, but its replicas cannot be read: "
            raise error.replace(message=added + error.message) from None

    def _follow(self, stop: threading.Event) -> str:
        listing = self.organization.databases()
        waiting = [database.name for database in listing.items if database.group == self.group]
        if not waiting and not listing.complete:
            return self._wait_for_service()
        self.total, self.ready, self.behind = len(waiting), 0, []
        self.task.report(self._copying)
        pause, failed = FIRST, 0
        while waiting and not stop.is_set():
            try:
                answers = self._read(waiting, stop)
            except UnsupportedError:
                return self._wait_for_service()
            errors = [answer for answer in answers.values() if isinstance(answer, PipemagicError)]
            responds = any(isinstance(answer, str) and answer != "paused" for answer in answers.values())
            failed = 0 if responds else failed + 1
            if errors and failed == ATTEMPTS:
                raise errors[0]
            left = [name for name in waiting if answers.get(name) not in (CAUGHT_UP, DELETED)]
            self._show(left, answers)
            if left and all(answers.get(name) == "paused" for name in left):
                return f"{self.code} is paused: replication continues when it is resumed."
            pause = FIRST if len(left) < len(waiting) else min(LAST, 1.3 * pause)
            waiting = left
            if waiting:
                stop.wait(pause)
        if waiting:
            return f"The service continues copying to {self.code}; {self.ready} of {self.total} databases were ready."
        self.unfinished = False
        return _all_ready(self.total)

    def _read(self, names: Sequence[str], stop: threading.Event) -> dict[str, str | PipemagicError]:
        def state_of(name: str) -> str:
            try:
                instances = self.organization.instances(name)
                return describe(next((instance for instance in instances if instance.name == self.code), None))
            except NotFound:
                return DELETED

        answers = request_each(self.state.requests, names, state_of, stop)
        for answer in answers.values():
            if isinstance(answer, UnsupportedError | AuthError):
                raise answer
        return answers

    def _show(self, left: Sequence[str], answers: Mapping[str, str | PipemagicError]) -> None:
        self.total -= sum(answer == DELETED for answer in answers.values())
        self.behind = [
            (name, getattr(answers[name], "message", str(answers[name]))) for name in left if name in answers
        ]
        self.ready = self.total - len(left)
        self.state.notify()

    def _wait_for_service(self) -> str:
        try:
            self.organization.wait_for_location(self.group, self.code)
        except UnsupportedError:
            self.unfinished = False
            return "This service does not report replica lag."
        self.ready, self.unfinished = self.total, False
        return _all_ready(self.total) if self.total else "Its databases are ready."


def _all_ready(total: int) -> str:
    if total == 0:
        return "It has no databases yet."
    return "Its database is ready." if total == 1 else f"Its {plural(total, 'database')} are ready."
