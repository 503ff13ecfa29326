"""Entity-relationship diagrams of a schema as SVG, text and Mermaid, with a layered layout of boxes and arrows."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pipemagic import svg
from pipemagic.explore.schema import ForeignKey, Relation, Schema
from pipemagic.sql import folded
from pipemagic.text import display_width, escape_controls, literal_html, plural, shorten, text_table

Detail = Literal["all", "keys", "none"]

ROW, HEAD, PAD, LOOP = 18.0, 24.0, 8.0, 14.0
"""Pixels: height of a column and of the head of a box, its padding, width of an arrow from a box to itself."""

NAME, TYPE, COLUMNS = 36, 18, 40
"""The most characters of a name and of a type, and the most columns of a table that are shown."""

_NOT_IN_NAME = r'["\\%]'  # of an entity of Mermaid

MANY_TABLES = 40
"""With more tables only key columns are shown by default."""


@dataclass(frozen=True)
class Box:
    """A table or view as it is drawn.

    ``rows`` are the columns: 'PK', 'FK', 'PK FK' or '', name and type. ``more`` is the number of other columns
    ('… 60 more'), ``remark`` is 'view', 'virtual' or 'missing', '' for a table.
    """

    relation: Relation
    rows: Sequence[tuple[str, str, str]] = ()
    more: str = ""
    remark: str = ""

    @property
    def name(self) -> str:
        """The name in one line, shortened."""
        return _short(self.relation.name)

    @cached_property
    def key_width(self) -> float:
        """The width of the keys in front of the names, in pixels."""
        widest = max((len(keys) for keys, _, _ in self.rows), default=0)
        return widest * svg.CHARACTER + PAD if widest else 0.0

    @cached_property
    def size(self) -> tuple[float, float]:
        """Width and height in pixels."""
        rows = [self.more, *(f"{name}  {type_}" for _, name, type_ in self.rows)]
        head = display_width(f"{self.name}  {self.remark}") * 1.05  # bold
        width = max(head * svg.CHARACTER, max(map(display_width, rows)) * svg.CHARACTER + self.key_width)
        return width + 2 * PAD, HEAD + ROW * (len(self.rows) + bool(self.more))

    def level(self, columns: Sequence[str]) -> float:
        """Return the distance of the first of these columns from the upper edge; of the head if none is shown."""
        names = {folded(_short(name)) for name in columns}
        heights = (HEAD + ROW * (at + 0.5) for at, (_, name, _) in enumerate(self.rows) if folded(name) in names)
        return next(heights, HEAD / 2)


Arrow = tuple[int, int, ForeignKey]
"""The indexes of two boxes and the foreign key from the first one to the second one."""


@dataclass(frozen=True, repr=False)
class Diagram:
    """A diagram of tables, views and foreign keys; ``note`` describes what is left out."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    note: str = ""

    @cached_property
    def layout(self) -> Layout:
        """The positions of boxes and arrows."""
        sizes = {index: box.size for index, box in enumerate(self.boxes)}
        return _arrange(sizes, [(start, end) for start, end, _ in self.arrows])

    def svg(self, *, page: bool = False) -> str:
        """Return the diagram as SVG, for a ``page`` of its own on white."""
        margin = 16.0
        loops = LOOP if any(start == end for start, end, _ in self.arrows) else 0.0
        width, height = self.layout.width + loops + 2 * margin, self.layout.height + 2 * margin
        drawn = [part for arrow in self.arrows for part in self._draw_arrow(*arrow)]
        drawn += [part for index, box in enumerate(self.boxes) for part in _draw_box(box, *self.layout.corners[index])]
        moved = svg.element("g", {"transform": f"translate({margin:g} {margin:g})"}, *drawn)
        title = f"{plural(len(self.boxes), 'table')}, {plural(len(self.arrows), 'foreign key')}"
        return svg.picture(width, height, title, moved, fluid=width < 1000, on_white=page)

    @property
    def mermaid(self) -> str:
        """The diagram as Mermaid text (``erDiagram``), with ``_`` for characters that Mermaid does not allow."""
        names = [f'"{re.sub(_NOT_IN_NAME, "_", box.name)}"' for box in self.boxes]
        lines = ["erDiagram"]
        for name, box in zip(names, self.boxes, strict=True):
            rows = [f"{_word(type_ or 'ANY')} {_word(own)} {keys.replace(' ', ', ')}" for keys, own, type_ in box.rows]
            lines += [f"    {name} {{", *(f"        {row}".rstrip() for row in rows), "    }"]
        for start, end, key in self.arrows:
            columns = re.sub(_NOT_IN_NAME, "_", _short(", ".join(key.columns)))
            lines.append(f'    {names[start]} }}o--|| {names[end]} : "{columns}"')
        return "\n".join(lines)

    def write(self, file: str | Path) -> None:
        """Write the diagram to a file in UTF-8: Mermaid text if its name ends in ``.mmd``, otherwise SVG.

        Raise SessionError if the file cannot be created there.
        """
        from pipemagic.frames.files import check_path

        path = Path(os.path.expanduser(file))
        check_path(path)
        text = self.mermaid if path.suffix.lower() == ".mmd" else self.svg(page=True)
        path.write_text(text + "\n", encoding="utf-8")

    def __str__(self) -> str:
        lines = [line for box in self.boxes for line in _text(box)]
        return "\n".join([*lines, self.note] if self.note else lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        note = f"<div>{svg.escaped(self.note)}</div>" if self.note else ""
        page = f'<div style="overflow: auto; max-height: 90vh">{self.svg()}</div>{note}'
        return {"text/plain": str(self), "text/html": literal_html(page), "text/vnd.mermaid": self.mermaid}

    def _draw_arrow(self, start: int, end: int, key: ForeignKey) -> Iterator[str]:
        """Yield an arrow from the columns of a foreign key to those that they refer to."""
        box, other = self.boxes[start], self.boxes[end]
        (x1, y1), (x2, y2) = self.layout.corners[start], self.layout.corners[end]
        y1, y2 = y1 + box.level(key.columns), y2 + other.level(key.references)
        left, right = x1, x1 + box.size[0]
        if start == end:
            y2 -= 6 if y1 == y2 else 0
            points, draw = [(right, y1), (right + LOOP, y1), (right + LOOP, y2), (right, y2)], svg.line
        else:
            ends = ((left, y1), (x2 + other.size[0], y2)) if x1 > x2 else ((right, y1), (x2, y2))
            points, draw = [ends[0], *self.layout.passes[start, end], ends[1]], svg.curve
        title = svg.element("title", {}, svg.escaped(_named(box.name, key)))
        yield svg.element("g", {}, title, draw(points, stroke=svg.FAINT))
        (x, y), back = points[-1], 8 if points[-1][0] <= points[-2][0] else -8
        yield svg.polygon([(x, y), (x + back, y - 4), (x + back, y + 4)], fill=svg.FAINT)


def diagram(
    schema: Schema, names: Sequence[str] = (), *, columns: Detail | None = None, limit: int | None = None
) -> Diagram:
    """Return a diagram of a schema, or of the tables ``names`` with those that they refer to and that refer to them.

    ``columns`` selects all columns, those of keys, or none; by default all, but only keys if there are many tables.
    ``limit`` is the number of tables to show; those with the fewest foreign keys are left out. Raise UnknownName for a
    wrong name.
    """
    existing = [relation for relation in schema.relations if relation.kind != "shadow"]
    chosen = _neighbours(existing, [schema.relation(name) for name in names]) if names else existing
    notes = [] if chosen else ["The database has no tables."]
    if limit is not None and len(chosen) > limit:
        notes.append(f"The diagram shows {limit} of {len(chosen)} tables, those with the most foreign keys.")
        chosen = _most_linked(chosen, limit)
    detail = columns or ("all" if len(chosen) <= MANY_TABLES else "keys")
    if columns is None and detail == "keys":
        notes.append("The diagram shows only key columns because there are many tables.")
    boxes = [_box(relation, detail) for relation in chosen]
    targets = {folded(key.table): key.table for relation in chosen for key in relation.foreign_keys}
    boxes += [Box(Relation(name), remark="missing") for name in targets.values() if name not in schema]
    index = {folded(box.relation.name): number for number, box in enumerate(boxes)}
    arrows = [
        (number, end, replace(key, references=key.references or boxes[end].relation.primary_key))
        for number, box in enumerate(boxes)
        for key in box.relation.foreign_keys
        if (end := index.get(folded(key.table))) is not None
    ]
    return Diagram(tuple(boxes), tuple(arrows), " ".join(notes))


def _neighbours(existing: Sequence[Relation], named: Sequence[Relation]) -> list[Relation]:
    names = {folded(relation.name) for relation in named}
    near = {folded(key.table) for relation in named for key in relation.foreign_keys}
    near |= {
        folded(relation.name)
        for relation in existing
        if any(folded(key.table) in names for key in relation.foreign_keys)
    }
    return [relation for relation in existing if folded(relation.name) in names | near]


def _most_linked(relations: Sequence[Relation], limit: int) -> list[Relation]:
    links = Counter(
        folded(name) for relation in relations for key in relation.foreign_keys for name in (relation.name, key.table)
    )
    ranked = sorted(relations, key=lambda relation: -links[folded(relation.name)])[:limit]
    return [relation for relation in relations if relation in ranked]


def _box(relation: Relation, detail: Detail) -> Box:
    foreign = {folded(name) for key in relation.foreign_keys for name in key.columns}
    rows = []
    for column in relation.visible:
        keys = "PK " * bool(column.key) + "FK" * (folded(column.name) in foreign)
        if detail == "all" or (detail == "keys" and keys):
            rows.append((keys.strip(), _short(column.name), _short(column.type, TYPE)))
    left_out = len(relation.visible) - len(rows[:COLUMNS])
    more = f"… {left_out} more" if left_out and detail != "none" else ""
    return Box(relation, rows[:COLUMNS], more, "" if relation.kind == "table" else relation.kind)


def _draw_box(box: Box, x: float, y: float) -> Iterator[str]:
    width, height = box.size
    missing, dashes = box.remark == "missing", "5 3" if box.remark else "none"
    edge = svg.WARNING if missing else svg.LINE
    right, baseline = x + width - PAD, y + HEAD + 13
    yield svg.box(x, y, width, height, fill=svg.PAPER, stroke=edge, dashes=dashes)
    yield svg.box(x, y, width, HEAD, fill=svg.SHADE, stroke=edge, dashes=dashes)
    yield svg.text(x + PAD, y + 16, box.name, weight="bold", fill=svg.WARNING if missing else svg.INK)
    yield svg.text(right, y + 16, box.remark, fill=svg.FAINT, anchor="end")
    for keys, name, type_ in box.rows:
        yield svg.text(x + PAD, baseline, keys, fill=svg.ACCENT)
        yield svg.text(x + PAD + box.key_width, baseline, name)
        yield svg.text(right, baseline, type_, fill=svg.FAINT, anchor="end")
        baseline += ROW
    yield svg.text(x + PAD, baseline, box.more, fill=svg.FAINT)


def _text(box: Box) -> Iterator[str]:
    """Yield the lines of a box as text: its name, columns and foreign keys."""
    yield f"{box.name} ({box.remark})" if box.remark else box.name
    for line in text_table([(name, type_, keys) for keys, name, type_ in box.rows]):
        yield f"  {line}"
    if box.more:
        yield f"  {box.more}"
    for key in box.relation.foreign_keys:
        yield f"  {_named('', key)}"


def _named(table: str, key: ForeignKey) -> str:
    own, other = (f"({', '.join(map(_short, names))})" if names else "" for names in (key.columns, key.references))
    return f"{table}{own} → {_short(key.table)}{other}"


def _short(name: str, length: int = NAME) -> str:
    return shorten(escape_controls(name), length)


def _word(text: str) -> str:
    """Return a name or type as Mermaid allows it in an entity: letters, digits, ``_``, ``-``, and parentheses."""
    word = re.sub(r"[^A-Za-z0-9_\u00c0-\uffff()\[\]-]", "_", text)
    is_keyword = re.match(r"(?:[PFU]K)\b", word, re.ASCII | re.IGNORECASE)  # Mermaid ignores case and a suffix: pk-1
    return word if re.match(r"[A-Za-z_\u00c0-\uffff]", word) and not is_keyword else f"_{word}"


# -- the layout: each box stands to the right of those that it points to

_Node = int
_Edge = tuple[_Node, _Node]
_Sizes = Mapping[_Node, tuple[float, float]]

_GAP, _CHANNEL = 18.0, 72.0
"""Pixels between the boxes of a layer, and between layers."""

_SWEEPS = 6
_LONGEST = 10
"""Arrows across more layers run straight, behind the boxes, so that the layout stays small."""


@dataclass
class Layout:
    """The upper left corners of the boxes, and the points of each edge between its two boxes."""

    corners: dict[_Node, tuple[float, float]] = field(default_factory=dict)
    passes: dict[_Edge, list[tuple[float, float]]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def _arrange(sizes: _Sizes, edges: Sequence[_Edge]) -> Layout:
    """Lay out boxes of these sizes. Boxes without edges stand at the right."""
    edges = list(dict.fromkeys((a, b) for a, b in edges if a != b))
    layout, sizes, sides = Layout(), dict(sizes), dict[_Node, tuple[float, float]]()
    layers = _layers(sizes, _ranks(list(sizes), edges))
    chains = _chains(layers, edges)
    sizes.update((lane, (0.0, 0.0)) for layer in layers for lane in layer if lane < 0)
    tops = _order(layers, sizes, [pair for chain in chains.values() for pair in pairwise(chain)])
    for layer in layers:
        right = layout.width + max(sizes[node][0] for node in layer)
        sides.update((node, (layout.width, right)) for node in layer)
        layout.corners.update((node, (layout.width, tops[node])) for node in layer if node >= 0)
        layout.height = max(layout.height, *(tops[node] + sizes[node][1] for node in layer))
        layout.width = right + _CHANNEL
    layout.width = max(layout.width - _CHANNEL, 0.0)
    for edge, lanes in chains.items():
        leftward = sides[edge[1]] < sides[edge[0]]
        layout.passes[edge] = [(x, tops[lane]) for lane in lanes[1:-1] for x in sorted(sides[lane], reverse=leftward)]
    return layout


def _ranks(nodes: Sequence[_Node], edges: Sequence[_Edge]) -> dict[_Node, int]:
    """Return a rank of each node above those that it points to, ignoring edges that close a cycle.

    Nodes without edges have the highest rank.
    """
    below: dict[_Node, list[_Node]] = defaultdict(list)
    for a, b in edges:
        below[a].append(b)
    rank: dict[_Node, int] = {}
    entered: set[_Node] = set()
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        node, done = stack.pop()
        if done:
            rank[node] = max((rank[other] + 1 for other in below[node] if other in rank), default=0)
        elif node not in entered:
            entered.add(node)
            stack += [(node, True), *((other, False) for other in reversed(below[node]))]
    linked = {node for edge in edges for node in edge}
    return {node: rank[node] if node in linked else len(nodes) for node in nodes}


def _layers(sizes: _Sizes, rank: Mapping[_Node, int]) -> list[list[_Node]]:
    """Return the nodes of each rank; several layers for a rank that would be much higher than the diagram is wide."""
    limit = max(600.0, sum((width + _CHANNEL) * (height + _GAP) for width, height in sizes.values()) ** 0.5)
    layers: list[list[_Node]] = []
    height = 0.0
    for node in sorted(sizes, key=lambda member: rank[member]):
        if not layers or rank[node] != rank[layers[-1][0]] or height + sizes[node][1] > limit:
            layers.append([])
            height = 0.0
        layers[-1].append(node)
        height += sizes[node][1] + _GAP
    return layers


def _chains(layers: list[list[_Node]], edges: Sequence[_Edge]) -> dict[_Edge, list[_Node]]:
    """Return the nodes along each edge, with a lane, a new negative node, in each layer that it crosses."""
    level = {node: number for number, layer in enumerate(layers) for node in layer}
    chains, lane = {}, 0
    for a, b in edges:
        chains[a, b] = [a, b]
        crossed = range(level[a] - 1, level[b], -1) if level[b] < level[a] else range(level[a] + 1, level[b])
        for number in crossed if len(crossed) <= _LONGEST else ():
            lane -= 1
            layers[number].append(lane)
            chains[a, b].insert(-1, lane)
    return chains


def _order(layers: list[list[_Node]], sizes: _Sizes, pairs: Sequence[_Edge]) -> dict[_Node, float]:
    """Sort each layer by the mean height of neighbours, several times there and back; return the upper edges."""
    neighbours: dict[_Node, list[_Node]] = defaultdict(list)
    for first, second in pairs:
        neighbours[first].append(second)
        neighbours[second].append(first)
    middles: dict[_Node, float] = {}

    def mean(node: _Node) -> float:
        near = [middles[other] for other in neighbours[node] if other in middles]
        return sum(near) / len(near) if near else 0.0

    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            layer.sort(key=mean)
            y = -sum(sizes[node][1] + _GAP for node in layer) / 2
            for node in layer:
                middles[node] = y + sizes[node][1] / 2
                y += sizes[node][1] + _GAP
    tops = {node: middle - sizes[node][1] / 2 for node, middle in middles.items()}
    highest = min(tops.values(), default=0.0)
    return {node: top - highest for node, top in tops.items()}
