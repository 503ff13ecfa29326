"""The round-trip times of small requests to one database instance at each location in use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from pipemagic.client.address import parse_address
from pipemagic.client.transport import Transport
from pipemagic.errors import NotFound, PipemagicError, UnsupportedError
from pipemagic.management_api.models import CAUGHT_UP, Instance
from pipemagic.session.organization import Organization

TIMES = 5
"""Round trips that are measured at a location, after a first one that opens the connection."""

TIMEOUT = 5.0
"""Seconds to wait for a response."""

PATHS = ("/health", "/v2")
"""Paths to request without a token, in order of preference."""


@dataclass(frozen=True)
class Latency:
    """The result for a location: ``seconds``, None if they could not be measured.

    ``trouble`` is why, or how far behind the instance is; '' without any.
    """

    code: str
    seconds: float | None
    trouble: str = ""

    def __str__(self) -> str:
        if self.seconds is None:
            return self.trouble
        digits = 1 if self.seconds < 0.01 else 0
        return f"{1000 * self.seconds:.{digits}f} ms{self.trouble and f', {self.trouble}'}"


def instances_in_use(organization: Organization) -> dict[str, Instance]:
    """Return one database instance at each location where the organization has one, by code.

    If the service does not list instances, only databases whose group has one location are used.
    """
    groups = {group.name: group.locations for group in organization.groups().items}
    instances: dict[str, Instance] = {}
    for database in organization.databases().items:
        codes = groups.get(database.group, ())
        if set(codes) <= set(instances):
            continue
        try:
            own = {instance.name: instance for instance in organization.instances(database.name) if instance.url}
            instances = {**own, **instances}
        except (UnsupportedError, NotFound):  # a service without this list, or a database that has just been deleted
            if len(codes) == 1 and database.url:
                instances[codes[0]] = Instance(codes[0], url=database.url)
    return instances


def latencies(instances: Mapping[str, Instance], clock: Callable[[], float] = time.perf_counter) -> Iterator[Latency]:
    """Measure each of the `instances_in_use` in turn: parallel requests would delay each other."""
    for code, instance in instances.items():
        try:
            yield _measure(code, instance, clock) if instance.answers else Latency(code, None, instance.status)
        except PipemagicError as error:
            yield Latency(code, None, f"unreachable: {error.message}")


def _measure(code: str, instance: Instance, clock: Callable[[], float]) -> Latency:
    """Return the median of some round trips on one connection."""
    behind = "" if instance.status == CAUGHT_UP else instance.status
    with Transport(parse_address(instance.url), timeout=TIMEOUT, connect_timeout=TIMEOUT) as transport:
        for path in PATHS:
            status = transport.get(path).status
            if status < 400 or status >= 500:  # an unhealthy server has the path, too
                break
        if status >= 400 and instance.state != "lagging":  # a server with old data is unhealthy, but answers
            return Latency(code, None, f"not ready: HTTP {status}")
        times = []
        for _ in range(TIMES):
            start = clock()
            transport.get(path)
            times.append(clock() - start)
    return Latency(code, median(times), behind)
