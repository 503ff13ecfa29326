"""The log of a service: a file of its data folder, without secrets."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOG_LIMIT = 1_000_000  # bytes, checked when the service starts

_SECRETS = re.compile(r"pmp_[\w-]{8,}|eyJ[\w-]+\.[\w-]+\.[\w-]*")


def without_secrets(text: str) -> str:
    """Replace what looks like a token."""
    return _SECRETS.sub("[token]", text)


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Log to a file within the block; a large existing file is renamed to ``.1`` first."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_name(path.name + ".1"))
    handler = logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(Redacting("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        handler.close()


class Redacting(logging.Formatter):
    """Formats a record without what looks like a token."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return without_secrets(super().format(record))
