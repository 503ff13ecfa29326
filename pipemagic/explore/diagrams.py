"""The schema of a database as a diagram: a box for each table, an arrow for each foreign key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from pipemagic import svg
from pipemagic.counts import plural
from pipemagic.explore.layouts import Layout, arrange
from pipemagic.explore.schema import Column, ForeignKey, Relation, Schema, folded
from pipemagic.sql import display_width

Detail = Literal["all", "keys", "none"]

ROW, HEAD, PAD = 18.0, 24.0, 8.0
NAME, TYPE = 36, 18
"""Characters of a name and of a type that are shown."""

COLUMNS = 40
"""Columns of a table that are shown."""

EASY = 40
"""With more tables than these only the columns of keys are shown, unless all are asked for."""


@dataclass(frozen=True)
class Box:
    """A table or view as it is drawn. ``missing`` stands for one that is referred to and not there."""

    relation: Relation
    columns: tuple[Column, ...]
    left_out: int = 0
    missing: bool = False

    @property
    def name(self) -> str:
        """The name as it is shown: short, on one line."""
        return shown(self.relation.name, NAME)

    @property
    def remark(self) -> str:
        """What it is, if it is no plain table."""
        if self.missing:
            return "missing"
        return "" if self.relation.kind == "table" else self.relation.kind

    @cached_property
    def foreign(self) -> frozenset[str]:
        """The columns that refer to another table."""
        return frozenset(folded(name) for key in self.relation.foreign_keys for name in key.columns)

    def marks(self, column: Column) -> str:
        """Say whether a column is part of the primary key, of a foreign key, or both."""
        foreign = folded(column.name) in self.foreign
        return "PK FK" if column.key and foreign else "PK" if column.key else "FK" if foreign else ""

    @cached_property
    def mark_width(self) -> float:
        """Pixels for the marks before the columns."""
        marks = [self.marks(column) for column in self.columns]
        return max((len(mark) for mark in marks), default=0) * svg.CHARACTER + (PAD if any(marks) else 0)

    @cached_property
    def size(self) -> tuple[float, float]:
        """Width and height in pixels."""
        head = _width(self.name) * 1.05 + (_width(self.remark) + 2 * svg.CHARACTER if self.remark else 0)
        rows = [
            self.mark_width + _width(shown(column.name, NAME)) + 2 * svg.CHARACTER + _width(shown(column.type, TYPE))
            for column in self.columns
        ]
        more = _width(self.more)
        return max([head, more, *rows]) + 2 * PAD, HEAD + ROW * (len(self.columns) + bool(self.more))

    @property
    def more(self) -> str:
        """Say how many columns are not shown; '' if all are."""
        return f"… {self.left_out} more" if self.left_out else ""

    def level(self, columns: Sequence[str]) -> float:
        """Give how far below the upper edge an arrow of these columns begins or ends: the head if none is shown."""
        wanted = {folded(name) for name in columns}
        for place, column in enumerate(self.columns):
            if folded(column.name) in wanted:
                return HEAD + ROW * (place + 0.5)
        return HEAD / 2


@dataclass(frozen=True)
class Arrow:
    """A foreign key between two boxes, by their places."""

    start: int
    end: int
    key: ForeignKey
    references: tuple[str, ...]


@dataclass(frozen=True)
class Diagram:
    """A drawing of tables, views and foreign keys. ``note`` says what was left out.

    Shows itself in a notebook; ``str()`` lists the same as text; `svg` and `write` give the picture.
    """

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    note: str = ""
    _layout: list[Layout] = field(default_factory=list, repr=False, compare=False)

    @property
    def layout(self) -> Layout:
        """Where everything is."""
        if not self._layout:
            sizes = {place: box.size for place, box in enumerate(self.boxes)}
            self._layout.append(arrange(sizes, [(arrow.start, arrow.end) for arrow in self.arrows]))
        return self._layout[0]

    def svg(self, *, page: bool = False) -> str:
        """Give the picture; for a ``page`` of its own with a background."""
        layout, margin = self.layout, 16.0
        loops = 40.0 if any(arrow.start == arrow.end for arrow in self.arrows) else 0.0
        width, height = layout.width + 2 * margin + loops, layout.height + 2 * margin
        inside = [*self._arrows(), *(part for place in range(len(self.boxes)) for part in self._box(place))]
        look = {"style": svg.ON_WHITE} if page else {}
        moved = svg.element("g", {"transform": f"translate({margin:g} {margin:g})", **look}, *inside)
        paper = [svg.element("rect", {"width": "100%", "height": "100%", "fill": "#fff"})] if page else []
        return svg.picture(width, height, self._title(), *paper, moved, fluid=width < 1000)

    def write(self, file: str | Path) -> None:
        """Write the picture to a file of its own (UTF-8), over what is there."""
        Path(file).expanduser().write_text(self.svg(page=True) + "\n", encoding="utf-8")

    def _title(self) -> str:
        tables, keys = len(self.boxes), len(self.arrows)
        return f"{plural(tables, 'table')}, {plural(keys, 'foreign key')}"

    def __str__(self) -> str:
        if not self.boxes:
            return "There are no tables."
        return "\n".join([*(line for box in self.boxes for line in _listed(box)), *([self.note] if self.note else [])])

    __repr__ = __str__

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        note = f"<div>{svg.escaped(self.note)}</div>" if self.note else ""
        drawn = self.svg() if self.boxes else svg.escaped(str(self))
        page = f'<div style="overflow: auto; max-height: 90vh">{drawn}</div>{note}'
        return {"text/plain": str(self), "text/html": page}

    def _box(self, place: int) -> Iterator[str]:
        box, (x, y) = self.boxes[place], self.layout.corners[place]
        (width, height), kind = box.size, box.remark
        dashes = "none" if not kind else "5 3"
        edge = svg.WARNING if box.missing else svg.LINE
        yield svg.box(x, y, width, height, fill=svg.PAPER, stroke=edge, dashes=dashes)
        yield svg.box(x, y, width, HEAD, fill=svg.SHADE, stroke=edge, dashes=dashes)
        yield svg.text(x + PAD, y + 16, box.name, weight="bold", fill=svg.WARNING if box.missing else svg.INK)
        if kind:
            yield svg.text(x + width - PAD, y + 16, kind, fill=svg.FAINT, anchor="end")
        level = y + HEAD + 13
        for column in box.columns:
            if mark := box.marks(column):
                yield svg.text(x + PAD, level, mark, fill=svg.ACCENT)
            yield svg.text(x + PAD + box.mark_width, level, shown(column.name, NAME))
            if column.type:
                yield svg.text(x + width - PAD, level, shown(column.type, TYPE), fill=svg.FAINT, anchor="end")
            level += ROW
        if box.more:
            yield svg.text(x + PAD, level, box.more, fill=svg.FAINT)

    def _arrows(self) -> Iterator[str]:
        for arrow in self.arrows:
            points = self._points(arrow)
            hint = _named(self.boxes[arrow.start].relation.name, arrow.key, arrow.references)
            draw = svg.line if arrow.start == arrow.end else svg.curve
            yield svg.element("g", {}, svg.element("title", {}, svg.escaped(hint)), draw(points, stroke=svg.FAINT))
            (x, y), from_right = points[-1], points[-1][0] <= points[-2][0]
            back = 8 if from_right else -8
            yield svg.polygon([(x, y), (x + back, y - 4), (x + back, y + 4)], fill=svg.FAINT)

    def _points(self, arrow: Arrow) -> list[tuple[float, float]]:
        """Give the way of an arrow, from the column that refers to the one that is referred to."""
        corners, boxes = self.layout.corners, self.boxes
        (x1, y1), (x2, y2) = corners[arrow.start], corners[arrow.end]
        start_y = y1 + boxes[arrow.start].level(arrow.key.columns)
        end_y = y2 + boxes[arrow.end].level(arrow.references)
        width1, width2 = boxes[arrow.start].size[0], boxes[arrow.end].size[0]
        if arrow.start == arrow.end:
            out = x1 + width1
            end_y = end_y if end_y != start_y else end_y - 6
            return [(out, start_y), (out + 22, start_y), (out + 22, end_y), (out, end_y)]
        passes = self.layout.passes.get((arrow.start, arrow.end), [])
        if x1 > x2:
            return [(x1, start_y), *passes, (x2 + width2, end_y)]
        return [(x1 + width1, start_y), *passes, (x2, end_y)]


def diagram(
    schema: Schema, names: Sequence[str] = (), *, columns: Detail | None = None, limit: int | None = None
) -> Diagram:
    """Draw a schema, or the tables ``names`` with those that they refer to and that refer to them.

    ``columns`` says which are shown: all, those of keys, or none; by default all, of keys only if there are many
    tables. ``limit`` leaves out the tables that are linked least. UnknownName with the nearest name.
    """
    there = [relation for relation in schema.relations if relation.kind != "shadow"]
    chosen = _neighbours(there, [schema.relation(name) for name in names]) if names else there
    chosen, note = _limited(chosen, limit)
    detail = columns or ("all" if len(chosen) <= EASY else "keys")
    if columns is None and detail == "keys":
        note = f"{note} With so many tables only the columns of keys are shown.".strip()
    boxes = [_box_of(relation, detail) for relation in chosen]
    boxes += _missing(chosen, {folded(relation.name) for relation in there})
    places = {folded(box.relation.name): place for place, box in enumerate(boxes)}
    arrows = [
        Arrow(place, places[folded(key.table)], key, _references(key, boxes[places[folded(key.table)]].relation))
        for place, box in enumerate(boxes)
        for key in box.relation.foreign_keys
        if folded(key.table) in places
    ]
    return Diagram(tuple(boxes), tuple(arrows), note)


def _neighbours(there: Sequence[Relation], wanted: Sequence[Relation]) -> list[Relation]:
    names = {folded(relation.name) for relation in wanted}
    near = {folded(key.table) for relation in wanted for key in relation.foreign_keys}
    near |= {folded(one.name) for one in there if any(folded(key.table) in names for key in one.foreign_keys)}
    return [relation for relation in there if folded(relation.name) in names | near]


def _limited(there: Sequence[Relation], limit: int | None) -> tuple[list[Relation], str]:
    """Leave out those with the fewest foreign keys to and from them."""
    if limit is None or len(there) <= limit:
        return list(there), ""
    links: dict[str, int] = {}
    for relation in there:
        for key in relation.foreign_keys:
            for name in (relation.name, key.table):
                links[folded(name)] = links.get(folded(name), 0) + 1
    ranked = sorted(there, key=lambda one: -links.get(folded(one.name), 0))
    kept = {id(one) for one in ranked[:limit]}
    return [one for one in there if id(one) in kept], f"{limit} of {len(there)} tables are shown, the most linked ones."


def _box_of(relation: Relation, detail: Detail) -> Box:
    keys = {folded(name) for key in relation.foreign_keys for name in key.columns}
    columns = relation.visible
    if detail == "keys":
        columns = tuple(column for column in columns if column.key or folded(column.name) in keys)
    shown_ones = columns[: COLUMNS if detail != "none" else 0]
    return Box(relation, shown_ones, len(relation.visible) - len(shown_ones) if detail != "none" else 0)


def _missing(chosen: Iterable[Relation], there: set[str]) -> list[Box]:
    """Give boxes for tables that are referred to and not there."""
    names = {folded(key.table): key.table for relation in chosen for key in relation.foreign_keys}
    return [Box(Relation(name), (), missing=True) for key, name in names.items() if key not in there]


def _references(key: ForeignKey, table: Relation) -> tuple[str, ...]:
    return key.references or table.primary_key


def _listed(box: Box) -> Iterator[str]:
    """Give the lines of a table as text."""
    yield f"{box.name} ({box.remark})" if box.remark else box.name
    names = [shown(column.name, NAME) for column in box.columns]
    types = [shown(column.type, TYPE) for column in box.columns]
    wide, typed = (max(map(display_width, words), default=0) for words in (names, types))
    for column, name, kind in zip(box.columns, names, types, strict=True):
        padded = f"  {name}{' ' * (wide - display_width(name))}  {kind}{' ' * (typed - display_width(kind))}"
        yield f"{padded}  {box.marks(column)}".rstrip()
    if box.more:
        yield f"  {box.more}"
    for key in box.relation.foreign_keys:
        yield f"  {_named('', key, key.references)}"


def _named(table: str, key: ForeignKey, references: Sequence[str]) -> str:
    def words(names: Sequence[str]) -> str:
        return f"({', '.join(shown(name, NAME) for name in names)})" if names else ""

    return f"{shown(table, NAME)}{words(key.columns)} → {shown(key.table, NAME)}{words(references)}"


def shown(name: str, length: int) -> str:
    """Give a name on one line, short enough; what cannot be seen is written as a sign for it."""
    return svg.shortened(svg.printable(name), length)


def _width(words: str) -> float:
    return display_width(words) * svg.CHARACTER
