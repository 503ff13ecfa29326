"""One entry of the list that Tab shows, and which of them fit what is typed, the likely ones first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST = 200
"""So many entries are shown: nobody reads more, and front ends get slow."""


@dataclass(frozen=True)
class Offer:
    """``text`` replaces what is typed; ``kind`` is shown beside it; ``name`` is what the typed letters begin."""

    text: str
    kind: str
    name: str = ""


def fitting(offers: Iterable[Offer], typed: str) -> list[Offer]:
    """Give the offers that fit, in their order: first those that begin so, then names with it in the middle."""
    wanted = typed.lower()
    begin: dict[str, Offer] = {}
    middle: dict[str, Offer] = {}
    for offer in offers:
        name = (offer.name or offer.text).lower()
        if name.startswith(wanted):
            begin.setdefault(offer.text, offer)
        elif len(wanted) > 1 and offer.kind in ("table", "view", "column") and wanted in name:
            middle.setdefault(offer.text, offer)
    return [*begin.values(), *(offer for text, offer in middle.items() if text not in begin)][:MOST]
