"""Names of groups, databases and locations that were seen, for completion: nothing is asked when they are needed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from pipemagic.session.platform import Platform

_log = logging.getLogger(__name__)


class KnownNames:
    """What the current organization's listings said last; ``platform`` gives it if it was chosen by now."""

    def __init__(self, platform: Callable[[], Platform | None]) -> None:
        self._platform = platform

    def names(self, kind: str) -> list[str]:
        """Give what is known of ``kind``: group, database or location."""
        platform = self._platform()
        return sorted(platform.seen.get(kind, ())) if platform is not None else []

    def refresh(self) -> None:
        """List everything once in the background, if that was not done yet."""
        platform = self._platform()
        if platform is not None and "location" not in platform.seen:
            threading.Thread(target=_list, args=(platform,), name="pipemagic-names", daemon=True).start()


def _list(platform: Platform) -> None:
    try:
        for listing in (platform.groups, platform.databases, platform.locations):
            listing()
    except Exception:  # noqa: BLE001 - completion does without
        _log.debug("the names for completion could not be listed", exc_info=True)
