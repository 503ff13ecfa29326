"""What was used of quotas, as bars with words."""

from __future__ import annotations

from collections.abc import Mapping

from pipemagic.counts import plural
from pipemagic.notebook.panels.ground.tree import Node, h

FIGURES = {
    "rows_read": ("row read", "rows read"),
    "rows_written": ("row written", "rows written"),
    "storage_bytes": ("stored", "stored"),
    "bytes_synced": ("synced", "synced"),
    "databases": ("database", "databases"),
    "groups": ("group", "groups"),
    "locations": ("location of a group", "locations of groups"),
}
"""The figures of `management_api.models.Usage` that are shown, in this order, and what they count: one, several."""

NEARLY = 0.8
"""From this part of a quota on its bar warns."""


def bars(used: Mapping[str, int], quotas: Mapping[str, int], *, told: bool) -> Node:
    """Draw a line for each figure; ``told`` is whether the service tells quotas, where 0 or a missing one is none."""
    lines = [_line(name, used[name], quotas.get(name, 0), told=told) for name in FIGURES if name in used]
    return h("ul", lines, class_="pm-plain-list pm-quotas")


def amount(name: str, value: int) -> str:
    """Write a figure: bytes in decimal units, as quotas of storage are given, others with all their digits."""
    if not name.endswith("bytes") and not name.startswith("bytes"):
        return f"{value:,}"
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if value >= 0.99995 * size:  # what would be rounded to 1,000.0 of the smaller unit
            return f"{value / size:,.1f} {unit}"
    return plural(value, "byte")


def words(name: str, used: int, quota: int, *, told: bool = True) -> str:
    """Say what was used of a quota: ``12,345 of 1,000,000,000 rows read (0.0 %)``."""
    one, several = FIGURES[name]
    if not quota:
        return f"{amount(name, used)} {one if used == 1 else several}{', no limit' if told else ''}"
    state = ", over the quota" if used > quota else ", used up" if used == quota else ""
    what = one if quota == 1 else several
    return f"{amount(name, used)} of {amount(name, quota)} {what} ({_percent(used, quota)} %{state})"


def _percent(used: int, quota: int) -> str:
    """Write a part in percent; what is neither nothing nor all of it is not rounded to that."""
    tenths = 1000 * used // quota if used < quota else round(1000 * used / quota)
    return "<0.1" if used and not tenths else f"{tenths / 10:,.1f}"


def _line(name: str, used: int, quota: int, *, told: bool) -> Node:
    said = words(name, used, quota, told=told)
    if not quota:
        return h("li", said, key=name)
    part = min(1.0, used / quota)
    kind = "pm-over" if used >= quota else "pm-nearly" if used >= NEARLY * quota else ""
    bar = h(
        "div", h("div", style=f"width: {100 * part:.1f}%"), class_=f"pm-bar {kind}".strip(), role="meter",
        aria_label=FIGURES[name][1], aria_valuemin=0, aria_valuemax=quota, aria_valuenow=min(used, quota),
        aria_valuetext=said,
    )  # fmt: skip
    return h("li", h("span", said, class_="pm-error" if used >= quota else None), bar, key=name)
