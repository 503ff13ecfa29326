"""Branches: the moments that people type, and what a new branch contains."""

from __future__ import annotations

from datetime import UTC, datetime

from pipemagic.errors import ParameterError
from pipemagic.management_api.models import DatabaseInfo


def parse_moment(text: str) -> datetime:
    """Convert ``2026-11-29 14:00`` (local time), or a time with an offset such as ``2026-11-29T13:00:00Z``."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        raise ParameterError(
            f"{text!r} is not a time",
            hint='write it as "2026-11-29 14:00", which is local time, or with an offset, as 2026-11-29T14:00:00Z',
        ) from None


def timestamp(moment: datetime) -> str:
    """Convert a moment to RFC 3339; one without an offset is local time."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def describe_branch(branch: DatabaseInfo, moment: datetime | None = None) -> str:
    """Return what a branch contains, in local time; '' if it is none. ``moment`` is what was asked for."""
    if not branch.parent:
        return ""
    content = f"{branch.name} has the content of {branch.parent}"
    actual = branch.branched
    if actual is None:
        return f"{content}." if moment is None else f"{content} as of {local_time(moment.timestamp())}."
    if moment is None or moment.timestamp() - actual < 0.001:
        return f"{content} as of {local_time(actual)}."
    return (
        f"{content} as of {local_time(actual)}, the last backup before {local_time(moment.timestamp())}: "
        "changes after the backup are not in it."
    )


def local_time(seconds: float) -> str:
    """Return a time in local time with its offset, rounded down."""
    moment = datetime.fromtimestamp(seconds).astimezone()
    return moment.isoformat(sep=" ", timespec="milliseconds" if moment.microsecond >= 1000 else "seconds")
