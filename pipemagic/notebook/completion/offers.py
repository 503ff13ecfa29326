"""One entry of the list that Tab shows, and which of them fit what is typed, the likely ones first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import shorten

from pipemagic.explore.words import can_be_shown

MOST = 200
"""So many entries are shown: nobody reads more, and front ends get slow."""

WIDTH = 64
"""So many characters of a description are shown beside an entry; Shift+Tab shows all of it."""


@dataclass(frozen=True)
class Offer:
    """``text`` replaces what is typed; ``kind`` is shown beside it; ``name`` is what the typed letters begin.

    ``detail`` is shown after the kind: the type of a column, the description of a subcommand or option.
    """

    text: str
    kind: str
    name: str = ""
    detail: str = ""

    @property
    def description(self) -> str:
        """What is shown beside the entry, in one line."""
        if not can_be_shown(self.detail):
            return self.kind
        between = " " if self.kind == "column" else ": "
        return shorten(f"{self.kind}{between}{self.detail}", WIDTH, placeholder=" ...")


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
