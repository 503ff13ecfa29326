"""What tables are joined on: foreign keys first, then columns of the same name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipemagic.explore import words
from pipemagic.explore.shapes import Shape
from pipemagic.notebook.completion.scope import Source

Side = list[tuple[Source, str]]


def conditions(sources: Sequence[Source]) -> Iterator[tuple[str, str]]:
    """Give what the last of some tables can be joined on, each with the label that it begins with."""
    if len(sources) < 2:
        return
    last, found = sources[-1], []
    for other in reversed(sources[:-1]):
        found += [*_by_keys(last, other), *((b, a) for a, b in _by_keys(other, last))]
    for other in [] if found else reversed(sources[:-1]):
        same = {column.lower() for column in other.columns}
        found += [([(last, one)], [(other, one)]) for one in last.columns if one.lower() in same]
    for left, right in found:
        for one, two in ((left, right), (right, left)):
            yield one[0][0].label, " AND ".join(f"{_of(a)} = {_of(b)}" for a, b in zip(one, two, strict=True))


def tied(one: Shape, other: Shape) -> bool:
    """Tell whether a foreign key leads from one table to the other, either way."""
    return _refers(one, other) or _refers(other, one)


def shared(sources: Sequence[Source]) -> Iterator[str]:
    """Give the columns of the last of some tables that another one has, too: USING takes these."""
    for name in sources[-1].columns if sources else ():
        if _in_others(name, sources[:-1]):
            yield name


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
