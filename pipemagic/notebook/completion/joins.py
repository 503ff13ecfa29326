"""What tables are joined on: foreign keys first, then columns of the same name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipemagic.explore import words
from pipemagic.explore.scope import Source
from pipemagic.explore.shapes import Shape

Side = list[tuple[Source, str]]


Condition = dict[str, str]
"""A condition under the label of the table that it begins with: ``a.x = b.y`` and ``b.y = a.x`` are one."""


def conditions(sources: Sequence[Source]) -> list[Condition]:
    """Return what the last of some tables can be joined on, each condition once; its own side is the first."""
    if len(sources) < 2:
        return []
    last, found = sources[-1], []
    for other in reversed(sources[:-1]):
        found += [*_by_keys(last, other), *((b, a) for a, b in _by_keys(other, last))]
    for other in [] if found else reversed(sources[:-1]):
        same = {column.lower() for column in other.columns}
        found += [([(last, one)], [(other, one)]) for one in last.columns if one.lower() in same]
    written = [{left[0][0].label: _text(left, right), right[0][0].label: _text(right, left)} for left, right in found]
    return [condition for at, condition in enumerate(written) if condition not in written[:at]]


def _text(left: Side, right: Side) -> str:
    return " AND ".join(f"{_of(a)} = {_of(b)}" for a, b in zip(left, right, strict=True))


def tied(one: Shape, other: Shape) -> bool:
    """Tell whether a foreign key leads from one table to the other, either way."""
    return _refers(one, other) or _refers(other, one)


def shared(sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    """Give the columns of the last of some tables that another one has, too: USING takes these."""
    for name, type_ in sources[-1].typed if sources else ():
        if _in_others(name, sources[:-1]):
            yield name, type_


def _by_keys(holder: Source, target: Source) -> Iterator[tuple[Side, Side]]:
    if holder.shape is None or target.shape is None:
        return
    for reference in holder.shape.references:
        if reference.table.lower() == target.shape.name.lower():
            yield [(holder, one) for one in reference.columns], [(target, one) for one in reference.to]


def _of(side: tuple[Source, str]) -> str:
    return f"{words.written(side[0].label)}.{words.written(side[1])}"


def _refers(holder: Shape, target: Shape) -> bool:
    return any(reference.table.lower() == target.name.lower() for reference in holder.references)


def _in_others(name: str, sources: Iterable[Source]) -> bool:
    return any(name.lower() == column.lower() for source in sources for column in source.columns)
