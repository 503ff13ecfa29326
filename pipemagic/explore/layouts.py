"""Where the boxes of a diagram go, and the lines between them: layers from left to right, nothing on top of anything.

Each box stands in a layer to the right of all that it points to (where there is a circle, one of its lines is turned
for that). A line that passes a layer has a place of its own there, as if it were a low box, so that it goes round the
boxes. In each layer the order and the heights follow the neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Node = int
Edge = tuple[Node, Node]

GAP, CHANNEL, LANE = 18.0, 72.0, 10.0
"""Pixels between boxes of a layer, between layers, and for a line that passes a layer."""

SWEEPS = 4

MOST_PLACES = 10_000
"""How many places lines may have in the layers that they pass: beyond that the longest ones go straight."""


@dataclass
class Layout:
    """Left upper corners of the boxes, and for each edge the points it passes between the two boxes."""

    corners: dict[Node, tuple[float, float]] = field(default_factory=dict)
    passes: dict[Edge, list[tuple[float, float]]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def arrange(sizes: Mapping[Node, tuple[float, float]], edges: Sequence[Edge]) -> Layout:
    """Lay out boxes of these sizes; an edge leads from a box to the one it points to, which will be at its left.

    Boxes without edges are put into a grid below the others.
    """
    real = list(dict.fromkeys((a, b) for a, b in edges if a != b))
    linked = {node for edge in real for node in edge}
    layout = Layout()
    if linked:
        _Layers({node: sizes[node] for node in sizes if node in linked}, real).place(layout)
    _grid(layout, {node: size for node, size in sizes.items() if node not in linked})
    return layout


def ranks(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[Node, int]:
    """Give each node a number above those of all it points to; an edge that closes a circle does not count."""
    below: dict[Node, list[Node]] = defaultdict(list)
    for a, b in edges:
        below[a].append(b)
    rank: dict[Node, int] = {}
    entered: set[Node] = set()
    for start in nodes:
        stack = [(start, False)]
        while stack:
            node, done = stack.pop()
            if done:
                rank[node] = max((rank[other] + 1 for other in below[node] if other in rank), default=0)
            elif node not in entered:
                entered.add(node)
                stack.append((node, True))
                stack += [(other, False) for other in reversed(below[node]) if other not in entered]
    return rank


class _Layers:
    """The boxes that have edges. Numbers below zero are the places of lines that pass a layer."""

    def __init__(self, sizes: Mapping[Node, tuple[float, float]], edges: Sequence[Edge]) -> None:
        self.sizes, self.edges = dict(sizes), edges
        self.rank = self._split(ranks(list(sizes), edges))
        longest = self._longest()
        self.chains = {edge: self._chain(edge) if self._span(edge) <= longest else list(edge) for edge in edges}
        self.layers: list[list[Node]] = [[] for _ in range(max(self.rank.values()) + 1)]
        for node, rank in self.rank.items():
            self.layers[rank].append(node)
        self.beside: dict[Node, list[Node]] = defaultdict(list)
        for chain in self.chains.values():
            for one, other in pairwise(chain):
                self.beside[one].append(other)
                self.beside[other].append(one)

    def _span(self, edge: Edge) -> int:
        return abs(self.rank[edge[0]] - self.rank[edge[1]])

    def _longest(self) -> int:
        """Give how many layers a line may span so that all up to it need no more places than there may be."""
        longest, places = 0, 0
        for span in sorted(map(self._span, self.edges)):
            places += span
            if places > MOST_PLACES:
                break
            longest = span
        return longest

    def _split(self, rank: dict[Node, int]) -> dict[Node, int]:
        """Make several layers of one that would be much higher than the whole should be."""
        area = sum((width + CHANNEL) * (height + GAP) for width, height in self.sizes.values())
        limit, found, base = max(600.0, area**0.5), {}, 0
        for level in range(max(rank.values()) + 1):
            height, place = 0.0, base
            for node in (one for one in self.sizes if rank[one] == level):
                if height and height + self.sizes[node][1] > limit:
                    height, place = 0.0, place + 1
                height += self.sizes[node][1] + GAP
                found[node] = place
            base = place + 1
        return found

    def _chain(self, edge: Edge) -> list[Node]:
        """Give the nodes that an edge passes, with places for it in the layers between."""
        a, b = edge
        step = 1 if self.rank[b] > self.rank[a] else -1
        between = []
        for rank in range(self.rank[a] + step, self.rank[b], step):
            lane = -len(self.rank) - 1
            self.rank[lane], self.sizes[lane] = rank, (0.0, LANE)
            between.append(lane)
        return [a, *between, b]

    def place(self, layout: Layout) -> None:
        self._order()
        middles = self._heights()
        lefts: dict[Node, float] = {}
        rights: dict[Node, float] = {}
        x = 0.0
        for layer in self.layers:
            width = max((self.sizes[node][0] for node in layer), default=0.0)
            for node in layer:
                layout.corners[node] = (x, middles[node] - self.sizes[node][1] / 2)
                lefts[node], rights[node] = x, x + width
            x += width + CHANNEL
        layout.width = x - CHANNEL
        for edge, chain in self.chains.items():
            leftward = self.rank[edge[1]] < self.rank[edge[0]]
            layout.passes[edge] = [
                (side[node], middles[node])
                for node in chain[1:-1]
                for side in ((rights, lefts) if leftward else (lefts, rights))
            ]
        self._to_zero(layout)

    def _to_zero(self, layout: Layout) -> None:
        top = min(y for _, y in layout.corners.values())
        layout.corners = {node: (x, y - top) for node, (x, y) in layout.corners.items() if node >= 0}
        layout.passes = {edge: [(x, y - top) for x, y in points] for edge, points in layout.passes.items()}
        bottoms = [y + self.sizes[node][1] for node, (_, y) in layout.corners.items()]
        lanes = [y + LANE / 2 for points in layout.passes.values() for _, y in points]
        layout.height = max([*bottoms, *lanes])

    def _order(self) -> None:
        """Order each layer by the mean place of the neighbours in the layer before, there and back."""
        place = {node: float(number) for layer in self.layers for number, node in enumerate(layer)}
        for sweep in range(SWEEPS):
            steps = range(len(self.layers)) if sweep % 2 == 0 else range(len(self.layers) - 1, -1, -1)
            for level in steps:
                behind = level - 1 if sweep % 2 == 0 else level + 1
                layer = self.layers[level]

                def wish(node: Node, behind: int = behind) -> float:
                    near = [place[other] for other in self.beside[node] if self.rank[other] == behind]
                    return sum(near) / len(near) if near else place[node]

                layer.sort(key=wish)
                place.update({node: float(number) for number, node in enumerate(layer)})

    def _heights(self) -> dict[Node, float]:
        """Give the middle of each box: near those of its neighbours, below the box before it."""
        middles: dict[Node, float] = {}
        for layer in self.layers:
            self._stack(layer, {}, middles)
        for sweep in range(SWEEPS):
            for layer in self.layers if sweep % 2 == 0 else reversed(self.layers):
                wishes = {
                    node: sum(middles[other] for other in self.beside[node]) / len(self.beside[node])
                    for node in layer
                    if self.beside[node]
                }
                self._stack(layer, wishes, middles)
        return middles

    def _stack(self, layer: list[Node], wishes: Mapping[Node, float], middles: dict[Node, float]) -> None:
        bottom = float("-inf")
        for node in layer:
            height = self.sizes[node][1]
            top = max(wishes.get(node, 0.0) - height / 2, bottom)
            middles[node], bottom = top + height / 2, top + height + GAP
        if wishes:  # what was pushed down pulls the whole layer up by the mean
            shift = sum(wishes[node] - middles[node] for node in wishes) / len(wishes)
        else:
            shift = -(middles[layer[0]] + middles[layer[-1]]) / 2
        for node in layer:
            middles[node] += shift


def _grid(layout: Layout, sizes: Mapping[Node, tuple[float, float]]) -> None:
    """Put boxes into rows below what is there, about as wide as that, or as wide as high."""
    if not sizes:
        return
    area = sum((width + GAP) * (height + GAP) for width, height in sizes.values())
    limit = max(layout.width, (area * 1.6) ** 0.5)
    x, top, bottom = 0.0, layout.height + (2 * GAP if layout.height else 0.0), 0.0
    for node, (width, height) in sizes.items():
        if x and x + width > limit:
            x, top = 0.0, bottom + GAP
        layout.corners[node] = (x, top)
        bottom = max(bottom, top + height)
        x += width + GAP
        layout.width = max(layout.width, x - GAP)
    layout.height = bottom
