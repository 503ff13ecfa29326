"""What ``/metrics`` shows: the traffic so far, and how things stand with streams, databases and the process now."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from pipemagic import __version__
from pipemagic.service.web.exposition import Page
from pipemagic.service.web.traffic import BUCKETS, Traffic

if TYPE_CHECKING:
    from pipemagic.service.core import Service
    from pipemagic.service.sqld.service import SqldService
    from pipemagic.service.web.control import Leases


class Gauges:
    """Makes the page of metrics. ``connections`` gives the open ones; ``started`` is in Unix seconds."""

    def __init__(
        self,
        service: Service | SqldService,
        traffic: Traffic,
        leases: Leases,
        connections: Callable[[], int],
        started: float,
    ) -> None:
        self._service, self._traffic, self._leases = service, traffic, leases
        self._connections, self._started = connections, started

    def page(self) -> bytes:
        """Give the page as it is now."""
        page = Page()
        versions = {"version": __version__, "sqlite": apsw.sqlite_lib_version()}
        page.family("pipemagic_build_info", "gauge", "The versions that run.", [(versions, 1)])
        self._requests(page)
        self._state(page)
        _process(page, self._started)
        return page.encode()

    def _requests(self, page: Page) -> None:
        traffic = self._traffic
        page.family(
            "pipemagic_http_requests_total", "counter", "Requests answered; 499: the client hung up before.",
            [(key._asdict(), count) for key, count in sorted(dict(traffic.requests).items())],
        )  # fmt: skip
        page.histogram(
            "pipemagic_http_request_duration_seconds", "From a request's head to its answer's last byte.", BUCKETS,
            [({"route": route}, durations.counts, durations.total)
             for route, durations in sorted(dict(traffic.durations).items())],
        )  # fmt: skip
        page.counter("pipemagic_http_received_bytes_total", "Bytes of request bodies.", traffic.received)
        page.counter("pipemagic_http_sent_bytes_total", "Bytes of answer bodies.", traffic.sent)
        page.gauge("pipemagic_http_requests_in_flight", "Requests that are being answered.", traffic.in_flight)
        page.gauge("pipemagic_http_connections", "Open connections, idle ones too.", self._connections())

    def _state(self, page: Page) -> None:
        self._service.measure(page)
        page.gauge("pipemagic_leases", "Programs of this machine that hold the service.", self._leases.open)
        page.gauge("pipemagic_sqlite_memory_bytes", "Memory that SQLite holds.", apsw.memory_used())
        page.gauge("pipemagic_sqlite_memory_limit_bytes", "Memory that it may take.", apsw.hard_heap_limit(-1))
        page.gauge("pipemagic_data_free_bytes", "Free space where the data folder is.", _free(self._service.folder))


def _free(folder: Path) -> int | None:
    with suppress(OSError):
        return shutil.disk_usage(folder).free
    return None


def _process(page: Page, started: float) -> None:
    """Add what all exporters have about their process, under the usual names."""
    times = os.times()
    page.gauge("process_start_time_seconds", "Start of the process, in Unix seconds.", started)
    page.counter("process_cpu_seconds_total", "CPU time, user and system.", times.user + times.system)
    page.gauge("process_resident_memory_bytes", "Resident memory.", _resident())
    page.gauge("process_open_fds", "Open file descriptors.", _descriptors())


def _resident() -> int | None:
    """Give the resident memory in bytes; None where the system has no cheap way to tell."""
    if sys.platform != "linux":
        return None
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _descriptors() -> int | None:
    return len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else None
