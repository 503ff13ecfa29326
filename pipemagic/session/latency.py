"""The round-trip times of small requests to one database instance at each location in use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from pipemagic.client.address import parse_address
from pipemagic.client.transport import Transport
from pipemagic.errors import NotFound, PipemagicError, UnsupportedError
from pipemagic.session.organization import Organization

TIMES = 5
"""Round trips that are measured at a location, after a first one that opens the connection."""

TIMEOUT = 5.0
"""Seconds to wait for a response."""

PATHS = ("/health", "/v2")
"""Paths to request without a token, in order of preference."""


@dataclass(frozen=True)
class Latency:
    """The result for a location: ``seconds``, or the ``trouble`` that prevented the measurement."""

    code: str
    seconds: float | None
    trouble: str = ""

    def __str__(self) -> str:
        if self.seconds is None:
            return self.trouble
        return f"{1000 * self.seconds:.1f} ms" if self.seconds < 0.01 else f"{1000 * self.seconds:.0f} ms"


def addresses(organization: Organization) -> dict[str, str]:
    """Return the address of one database instance at each location where the organization has one, by code.

    If the service does not list instances, only databases whose group has one location are used.
    """
    groups = {group.name: group.locations for group in organization.groups().items}
    urls: dict[str, str] = {}
    for database in organization.databases().items:
        codes = groups.get(database.group, ())
        if set(codes) <= set(urls):
            continue
        try:
            urls = {
                **{instance.name: instance.url for instance in organization.instances(database.name) if instance.url},
                **urls,
            }
        except (UnsupportedError, NotFound):  # a service without this list, or a database that has just been deleted
            if len(codes) == 1 and database.url:
                urls[codes[0]] = database.url
    return urls


def latencies(places: Mapping[str, str], clock: Callable[[], float] = time.perf_counter) -> Iterator[Latency]:
    """Measure each of the `addresses` in turn: parallel requests would delay each other."""
    for code, address in places.items():
        try:
            yield _measure(code, address, clock)
        except PipemagicError as error:
            yield Latency(code, None, f"unreachable: {error.message}")


def _measure(code: str, address: str, clock: Callable[[], float]) -> Latency:
    """Return the median of some round trips on one connection."""
    with Transport(parse_address(address), timeout=TIMEOUT, connect_timeout=TIMEOUT) as transport:
        for path in PATHS:
            status = transport.get(path).status
            if status < 400 or status >= 500:  # an unhealthy server has the path, too
                break
        if status >= 400:
            return Latency(code, None, f"not ready: HTTP {status}")
        times = []
        for _ in range(TIMES):
            start = clock()
            transport.get(path)
            times.append(clock() - start)
    return Latency(code, median(times))
