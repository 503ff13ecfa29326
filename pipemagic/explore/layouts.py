"""A layered layout of boxes and arrows: each box stands to the right of those that it points to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Node = int
Edge = tuple[Node, Node]
Sizes = Mapping[Node, tuple[float, float]]

GAP, CHANNEL = 18.0, 72.0
"""Pixels between the boxes of a layer, and between layers."""

SWEEPS = 6
LONGEST = 10
"""Arrows across more layers run straight, behind the boxes, so that the layout stays small."""


@dataclass
class Layout:
    """The upper left corners of the boxes, and the points of each edge between its two boxes."""

    corners: dict[Node, tuple[float, float]] = field(default_factory=dict)
    passes: dict[Edge, list[tuple[float, float]]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def arrange(sizes: Sizes, edges: Sequence[Edge]) -> Layout:
    """Lay out boxes of these sizes. Boxes without edges stand at the right."""
    edges = list(dict.fromkeys((a, b) for a, b in edges if a != b))
    layout, sizes, sides = Layout(), dict(sizes), dict[Node, tuple[float, float]]()
    layers = _layers(sizes, ranks(list(sizes), edges))
    chains = _chains(layers, edges)
    sizes.update((lane, (0.0, 0.0)) for layer in layers for lane in layer if lane < 0)
    tops = _order(layers, sizes, [pair for chain in chains.values() for pair in pairwise(chain)])
    for layer in layers:
        right = layout.width + max(sizes[node][0] for node in layer)
        sides.update((node, (layout.width, right)) for node in layer)
        layout.corners.update((node, (layout.width, tops[node])) for node in layer if node >= 0)
        layout.height = max(layout.height, *(tops[node] + sizes[node][1] for node in layer))
        layout.width = right + CHANNEL
    layout.width = max(layout.width - CHANNEL, 0.0)
    for edge, lanes in chains.items():
        leftward = sides[edge[1]] < sides[edge[0]]
        layout.passes[edge] = [(x, tops[lane]) for lane in lanes[1:-1] for x in sorted(sides[lane], reverse=leftward)]
    return layout


def ranks(nodes: Sequence[Node], edges: Sequence[Edge]) -> dict[Node, int]:
    """Return a rank of each node above those that it points to, ignoring edges that close a cycle.

    Nodes without edges have the highest rank.
    """
    below: dict[Node, list[Node]] = defaultdict(list)
    for a, b in edges:
        below[a].append(b)
    rank: dict[Node, int] = {}
    entered: set[Node] = set()
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


def _layers(sizes: Sizes, rank: Mapping[Node, int]) -> list[list[Node]]:
    """Return the nodes of each rank; several layers for a rank that would be much higher than the diagram is wide."""
    limit = max(600.0, sum((width + CHANNEL) * (height + GAP) for width, height in sizes.values()) ** 0.5)
    layers: list[list[Node]] = []
    height = 0.0
    for node in sorted(sizes, key=lambda member: rank[member]):
        if not layers or rank[node] != rank[layers[-1][0]] or height + sizes[node][1] > limit:
            layers.append([])
            height = 0.0
        layers[-1].append(node)
        height += sizes[node][1] + GAP
    return layers


def _chains(layers: list[list[Node]], edges: Sequence[Edge]) -> dict[Edge, list[Node]]:
    """Return the nodes along each edge, with a lane, a new negative node, in each layer that it crosses."""
    level = {node: number for number, layer in enumerate(layers) for node in layer}
    chains, lane = {}, 0
    for a, b in edges:
        chains[a, b] = [a, b]
        crossed = range(level[a] - 1, level[b], -1) if level[b] < level[a] else range(level[a] + 1, level[b])
        for number in crossed if len(crossed) <= LONGEST else ():
            lane -= 1
            layers[number].append(lane)
            chains[a, b].insert(-1, lane)
    return chains


def _order(layers: list[list[Node]], sizes: Sizes, pairs: Sequence[Edge]) -> dict[Node, float]:
    """Sort each layer by the mean height of neighbours, several times there and back; return the upper edges."""
    neighbours: dict[Node, list[Node]] = defaultdict(list)
    for first, second in pairs:
        neighbours[first].append(second)
        neighbours[second].append(first)
    middles: dict[Node, float] = {}

    def mean(node: Node) -> float:
        near = [middles[other] for other in neighbours[node] if other in middles]
        return sum(near) / len(near) if near else 0.0

    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            layer.sort(key=mean)
            y = -sum(sizes[node][1] + GAP for node in layer) / 2
            for node in layer:
                middles[node] = y + sizes[node][1] / 2
                y += sizes[node][1] + GAP
    tops = {node: middle - sizes[node][1] / 2 for node, middle in middles.items()}
    highest = min(tops.values(), default=0.0)
    return {node: top - highest for node, top in tops.items()}
