"""The settings of a service process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipemagic.errors import ServiceError
from pipemagic.service.hosting import Hosting
from pipemagic.service.limits import Limits

if TYPE_CHECKING:
    from pipemagic.service.service import Service

IDLE_TIMEOUT = 20.0
"""Seconds after its last use at which a service stops that was started by `pipemagic.launcher`."""
UNICODE = "PIPEMAGIC_UNICODE"
"""The environment variable that sets ``unicode``, also for the services that notebooks start."""


def read_switch(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether an environment variable is on, by the words that `pipemagic serve` accepts; unset is off.

    Raise `ServiceError` for another word.
    """
    word = environ.get(name, "").strip().lower()
    if word in ("1", "true", "t", "yes", "y", "on"):
        return True
    if word in ("", "0", "false", "f", "no", "n", "off"):
        return False
    raise ServiceError(f"the environment variable {name} is {word!r}", hint="write 1 or 0")


@dataclass(frozen=True)
class Settings:
    """Settings of the process.

    ``port``: None takes the one of the last start if it is free, else any; 0 takes any; for a shared service None is
    `Hosting.default_port`. ``idle_timeout``: seconds without use (a lease, or a request with a token) after which the
    service ends; None if it stays.
    ``temporary``: it ends when its standard input does, and removes its folder, which must be new. ``signup``: whether
    anyone who can connect may create an account. ``connections``: how many may be open at once, None for any number.
    ``access_log``: whether standard output has a line for each request.
    ``cors``: the origins whose pages may use the service in a browser. ``here``: the code of the location of the
    service, from which requests go to the nearest instance; ``simulate_latency``: delay responses as the distance to
    an instance implies. ``unicode``: whether ``lower``, ``upper`` and ``LIKE`` know the letters of all alphabets.
    ``backups``: how many backups of each database are kept, for branches at an earlier time.
    ``proxies``: addresses or networks of trusted proxies, whose ``X-Forwarded-For`` names the client. ``base_path``:
    the path below which a proxy offers the service, such as ``/services/sql``.
    ``open`` creates the service or raises `ServiceError`; None creates the embedded one.
    """

    folder: Path
    port: int | None = None
    idle_timeout: float | None = None
    temporary: bool = False
    hosting: Hosting = field(default_factory=Hosting)
    limits: Limits = field(default_factory=Limits)
    signup: bool = False
    here: str | None = None
    simulate_latency: bool = False
    unicode: bool = False
    backups: int = 0
    connections: int | None = None
    access_log: bool = False
    cors: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    base_path: str = ""
    open: Callable[[Settings], Service] | None = None
