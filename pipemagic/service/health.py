"""The health check of the service, for `/health`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import apsw

from pipemagic.service.registry.catalog import Catalog

log = logging.getLogger(__name__)

FRESH = 1.0
"""Seconds for which a result is reused, so that frequent requests cost little."""
SLOW = 5.0
"""Seconds after which an unfinished check counts as a failure: a disk may hang."""

_PROBE = "health-probe"
_BLOCK = bytes(4096)


class Health:
    """Reads the catalog and writes durably to the data folder."""

    def __init__(self, folder: Path, catalog: Catalog, clock: Callable[[], float]) -> None:
        self._folder, self._catalog, self._clock = folder, catalog, clock
        self._look = threading.Lock()
        self._trouble = ""
        self._began = self._seen = float("-inf")

    def ok(self) -> bool:
        """Return True if the service is healthy; the reason for a failure is logged once."""
        return not self._find_or_remember()

    def _find_or_remember(self) -> str:
        if self._clock() < self._seen + FRESH:
            return self._trouble
        if not self._look.acquire(blocking=False):
            late = self._clock() >= self._began + SLOW
            return self._trouble or ("the disk takes too long" if late else "")
        try:
            self._began = self._clock()
            self._note(self._find_trouble())
        finally:
            self._look.release()
        return self._trouble

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.error("not healthy: %s", trouble)
        elif self._trouble and not trouble:
            log.info("healthy again")
        self._trouble, self._seen = trouble, self._clock()

    def _find_trouble(self) -> str:
        try:
            self._catalog.check()
        except apsw.Error as error:
            return f"the catalog cannot be read: {error}"
        try:
            self._write()
        except OSError as error:
            return f"the data folder cannot be written: {error}"
        return ""

    def _write(self) -> None:
        """Write a new file: an existing one has its space even on a full disk."""
        path = self._folder / _PROBE
        try:
            with path.open("wb") as file:
                file.write(_BLOCK)
                file.flush()
                os.fsync(file.fileno())
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)
