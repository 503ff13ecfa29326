"""The peak memory of the service during each attack, printed at the end of a run and compared with its limit."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from promises import Promise, promise_of
from served import services

from pipemagic.service.limits import MB

PEAK = "peak memory of the service"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure the services that a test uses. The test fails if it is about memory and one took more than it may."""
    services[:] = [service for service in services if service.process.poll() is None]
    for service in services:
        service.reset_peak()
    try:
        result = yield
    finally:
        for service in services:
            service.measure_peak()
        peaks = [(service.peak, service.max_memory) for service in services if service.peak]
        item.user_properties += [(PEAK, peak) for peak in peaks if peak == max(peaks)]
    if promise_of(item) is Promise.MEMORY:
        for service in services:
            grown = service.peak - service.memory_at_start
            assert grown <= service.max_memory, f"{grown / MB:.0f} MB, --max-memory is {service.max_memory / MB:.0f} MB"
    return result


def print_peaks(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each test: the service that took most."""
    peaks = {
        report.nodeid: value
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == PEAK
    }
    if peaks:
        terminalreporter.section(PEAK)
    for test, (peak, limit) in sorted(peaks.items()):
        terminalreporter.write_line(f"{peak / MB:6.0f} MB of {limit / MB:.0f} MB (--max-memory): {test}")
