"""The health check of the service, for `/health`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw

from pipemagic.service.catalog.catalog import Catalog

_log = logging.getLogger(__name__)

CACHE_TIME = 1.0
"""Seconds for which a result is reused, so that frequent requests cost little."""
CHECK_TIMEOUT = 5.0
"""Seconds after which an unfinished check counts as a failure: a disk may hang."""

_BLOCK = bytes(4096)


class Health:
    """Reads the catalog and writes durably to the data folder."""

    def __init__(self, folder: Path, catalog: Catalog, clock: Callable[[], float]) -> None:
        self._folder, self._catalog, self._clock = folder, catalog, clock
        self._checking = threading.Lock()
        self._problem = ""
        self._began = self._checked = float("-inf")

    def ok(self) -> bool:
        """Return True if the service is healthy; the reason for a failure is logged once."""
        now = self._clock()
        if now >= self._checked + CACHE_TIME:
            if not self._checking.acquire(blocking=False):
                return not self._problem and now < self._began + CHECK_TIMEOUT
            try:
                self._began = now
                self._check()
            finally:
                self._checking.release()
        return not self._problem

    def _check(self) -> None:
        problem = ""
        try:
            self._catalog.check()
            self._write()
        except apsw.Error as error:
            problem = f"the catalog cannot be read: {error}"
        except OSError as error:
            problem = f"the data folder cannot be written: {error.strerror}"  # no path: it varies
        if problem and problem != self._problem:
            _log.error("not healthy: %s", problem)
        elif self._problem and not problem:
            _log.info("healthy again")
        self._problem, self._checked = problem, self._clock()

    def _write(self) -> None:
        """Write a new file: an existing one has its space even on a full disk."""
        probe = self._folder / "health-probe"
        try:
            with probe.open("wb") as file:
                file.write(_BLOCK)
                file.flush()
                os.fsync(file.fileno())
        finally:
            with suppress(OSError):
                probe.unlink(missing_ok=True)
