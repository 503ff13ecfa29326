"""End the services that a test started over its own data folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pipemagic import local
from pipemagic.errors import ServiceError

WAIT = 20.0  # seconds


def end_services(folder: Path) -> None:
    """Stop the service over the folder and wait for its process; those of other tests go on."""
    with suppress(ServiceError):
        local.stop(folder)
    for child in local._started:
        if str(folder) in child.args:
            child.wait(WAIT)
    local._reap()


def crash(folder: Path) -> None:
    """End the service over the folder with SIGKILL."""
    for child in local._started:
        if str(folder) in child.args:
            child.kill()
            child.wait(WAIT)
