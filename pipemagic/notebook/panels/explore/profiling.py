"""Profiles of columns, on demand: what `%pipedb profile` tells, in the panel Explore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from traitlets import Any as AnyTrait
from traitlets import Bool, Unicode

from pipemagic.explore import values
from pipemagic.explore.profile import ColumnProfile, Profile, profile
from pipemagic.explore.schema import Relation
from pipemagic.notebook.panels.explore.questions import AskingModel
from pipemagic.notebook.panels.ground.lines import listed
from pipemagic.notebook.panels.ground.parts import button, row, state, table
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.session.profiles import word

if TYPE_CHECKING:
    from pipemagic.session import Connection, Session

_TALL, _WIDE = 24, 8  # pixels of a bar
_ENOUGH = 5  # different values beyond which their spread says more than the most frequent ones


class ProfilingModel(AskingModel):
    """The profiles that were asked for, of one table."""

    profiles = AnyTrait((), help="ColumnProfile of each column that was asked for")

    where = Unicode(help="which rows they are of, in SQL; '' for all")
    outdated = Bool(help="whether cells wrote since one of them was made")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._of = ("", "")
        session.written.connect(self._written)

    def _written(self, connection: Connection) -> None:
        if self.profiles and connection.name == self._of[0]:
            self.outdated = True

    def look_at(self, connection: str, relation: Relation, columns: Sequence[str], where: str) -> None:
        """Ask what some columns hold, in the rows for which ``where`` holds ('' for all).

        Those that were asked for before of the same rows stay.
        """

        def take(found: Profile) -> str:
            self.outdated = self.outdated and len(found.columns) < len(self.profiles)
            known = {one.name: one for one in self.profiles} | {one.name: one for one in found.columns}
            self.profiles = tuple(known[one.name] for one in relation.columns if one.name in known)
            return "It was written to meanwhile: the figures may be of different moments." if found.moved else ""

        self.keep_to(connection, relation.name)
        if where != self.where:
            self.clear()
            self.where = where
        only = f" --where {word(where)}" if where else ""
        # It stays on the page, so it names its connection: another one may be the current one by then.
        self.line = f"%pipedb profile {word(relation.name)} --columns {listed(columns)}{only} --on {word(connection)}"
        what = columns[0] if len(columns) == 1 else f"{len(columns)} columns"
        self.ask(
            f"Profiling {what} ...", connection,
            lambda database: profile(database, relation, columns, where=where), take,
        )  # fmt: skip

    def keep_to(self, connection: str, table: str) -> None:
        """Forget all profiles but those of one table."""
        if self._of != (connection, table):
            self._of = (connection, table)
            self.clear()

    def clear(self) -> None:
        """Forget all profiles, and what is under way."""
        self.stop()
        with self.hold_trait_notifications():
            self.profiles, self.outdated, self.line, self.message = (), False, "", ""
            self.error = self.code = self.hint = ""


def drawn(model: ProfilingModel) -> Node | None:
    """Draw the profiles as a table; None if there is nothing to tell."""
    if not (model.profiles or model.busy or model.error):
        return None
    close = button("Close the profiles", ("close_profiles",), kind="plain")
    rows = [_row(one) for one in model.profiles]
    since = h("p", "Cells wrote since these profiles were made.", class_="pm-note", role="note")
    headings = ["Column", "Values", "NULL", "Distinct", "Spread or most frequent", "Min", "Median", "Max"]
    return h(
        "div", h("div", h("h3", f"Profiles of {'the filtered' if model.where else 'all'} rows"),
                 button("Stop", ("stop_profile",)) if model.busy else close, class_="pm-head"),
        h("p", values.one_line(model.where), class_="pm-faint") if model.where else None,
        h("div", table(headings, rows, label="Profiles"), class_="pm-cells") if rows else None,
        since if model.outdated else None, state(model),
        key="profiles", on={"escape": ["close_profiles"]},
    )  # fmt: skip


def _row(one: ColumnProfile) -> Node:
    numbers = [h("td", f"{number:,}", class_="pm-number") for number in (one.count, one.nulls, one.distinct)]
    shown = [_figure(one, figure) for figure in (one.minimum, one.quartiles[1], one.maximum)]
    return row(one.name, h("th", values.one_line(one.name), scope="row"), *numbers, _spread(one), *shown)


def _figure(one: ColumnProfile, given: object) -> str:
    mixed = len(one.stored) > 1
    return "" if given is None else values.value(given, 24, quotes=mixed)  # type: ignore[arg-type]


def _spread(one: ColumnProfile) -> Node:
    if any(one.bins) and one.distinct > _ENOUGH:
        return h("td", _bars(one.bins))
    many = one.common[:3] if one.common and one.common[0].count > 1 else ()
    words = [f"{_figure(one, each.value)}{'' if each.whole else '…'} ×{each.count:,}" for each in many]
    return h("td", ", ".join(words))


def _bars(bins: Sequence[int]) -> Node:
    """Draw how the values are spread; those who do not see it hear the counts."""
    most, words = max(bins), f"counts from min to max: {', '.join(map(str, bins))}"
    bars = [
        h("rect", x=place * _WIDE, y=_TALL - tall, width=_WIDE - 1, height=tall)
        for place, size in enumerate(bins)
        if (tall := max(1, round(_TALL * size / most)) if size else 0)
    ]
    wide = _WIDE * len(bins)
    box = f"0 0 {wide} {_TALL}"
    return h("svg", h("title", words), bars, viewBox=box, width=wide, height=_TALL, role="img", class_="pm-spread")
