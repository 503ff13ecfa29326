"""Source maps: for each character of a statement as it is sent, its position in the written text.

The two may differ: lists are expanded, names quoted, saved statements prepended. The
server's errors have positions in the sent text; messages show the position in the written text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pipemagic import sql
from pipemagic.sql.statement import QUERIES, ROW_CHANGES

_TAKES_WITH = QUERIES | ROW_CHANGES


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text that a user wrote, with its ``name``, '' for the cell itself."""

    text: str
    name: str = ""

    def where(self, offset: int) -> str:
        """Return the line of an offset as text."""
        line = f"line {sql.position(self.text, offset)[0]}"
        return f"{self.name}, {line}" if self.name else line


class SourcePosition(NamedTuple):
    """An offset in characters in a text of the user."""

    source: SourceText
    offset: int

    @property
    def where(self) -> str:
        """Its line as text."""
        return self.source.where(self.offset)


class Segment(NamedTuple):
    """A text and its origin; ``copied`` is True if it is identical there."""

    text: str
    source: SourceText
    start: int
    copied: bool = True

    def part(self, start: int, end: int) -> Segment:
        """Return the segment between two of its offsets, which may lie outside of it."""
        start = max(start, 0)
        return self._replace(text=self.text[start : max(end, 0)], start=self.start + start * self.copied)


class Edit(NamedTuple):
    """A replacement of the text from ``start`` to ``end``: by a text, or by segments of other sources."""

    start: int
    end: int
    new: str | tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class SourceMap:
    """A text that consists of segments."""

    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        """The text as it is sent."""
        return "".join(segment.text for segment in self.segments)

    def position(self, offset: int) -> SourcePosition:
        """Return where a character of the text was written, or where the text that it replaces was written."""
        for segment in self.segments:
            if offset < len(segment.text):
                break
            offset -= len(segment.text)
        else:
            offset = len(segment.text)
        return SourcePosition(segment.source, segment.start + offset * segment.copied)

    def edited(self, edits: Iterable[Edit]) -> SourceMap:
        """Return the text with edits applied, which are in order and do not overlap."""
        segments: list[Segment] = []
        end = 0
        for edit in edits:
            segments += self._between(end, edit.start)
            if isinstance(edit.new, str):
                segments.append(Segment(edit.new, *self.position(edit.start), copied=False))
            else:
                segments += edit.new
            end = edit.end
        segments += self._between(end, len(self.text))
        return SourceMap(tuple(segments)) if segments else self

    def _between(self, start: int, end: int) -> Iterator[Segment]:
        for segment in self.segments:
            if (part := segment.part(start, end)).text:
                yield part
            start, end = start - len(segment.text), end - len(segment.text)


class WithPlace(NamedTuple):
    """Where a WITH begins or would begin, the offset of further tables, and the text ``before`` and ``after`` them."""

    start: int
    offset: int
    before: str = ""
    after: str = ", "


def place_of_with(text: str) -> WithPlace | None:
    """Return the place of the WITH of a statement; None for one that takes none."""
    tokens = sql.parse(text).tokens
    words = [token.word for token in tokens]
    at = 0
    if words[:1] == ["EXPLAIN"]:
        at = 3 if words[1:3] == ["QUERY", "PLAN"] else 1
    elif words[:1] == ["CREATE"] and {"TABLE", "VIEW"} & {*words[1:3]} and "AS" in words:
        at = words.index("AS") + 1
    if words[at : at + 1] == ["WITH"]:
        first = at + 2 if words[at + 1 : at + 2] == ["RECURSIVE"] else at + 1
        return WithPlace(tokens[at].start, tokens[first].start if first < len(tokens) else len(text))
    if not _TAKES_WITH.intersection(words[at : at + 1]):
        return None
    return WithPlace(tokens[at].start, tokens[at].start, "WITH ", " ")
