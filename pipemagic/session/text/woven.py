"""A statement as it is sent, piece by piece, with the place that each piece was written at.

What is sent may differ from what was written: lists are expanded, names quoted, saved statements put in front. The
servers' errors point into what was sent; people want to see the place in what they wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipemagic import sql


@dataclass(frozen=True, slots=True)
class Source:
    """A text that people wrote: ``name`` says which one, '' for the cell itself."""

    text: str
    name: str = ""

    def where(self, offset: int) -> str:
        """Name the line of an offset for a message."""
        line = f"line {sql.position(self.text, offset)[0]}"
        return f"{self.name}, {line}" if self.name else line


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text and where it comes from; ``copied`` tells that it stands there just so."""

    text: str
    source: Source
    start: int
    copied: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    """An offset in characters in a text that somebody wrote."""

    source: Source
    offset: int

    @property
    def where(self) -> str:
        """The place's line, in words."""
        return self.source.where(self.offset)


@dataclass(frozen=True, slots=True)
class Edit:
    """Put ``text`` in the place of what stands from ``start`` to ``end``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Woven:
    """A text made of pieces."""

    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The text as it is sent."""
        return self.pieces[0].text if len(self.pieces) == 1 else "".join(piece.text for piece in self.pieces)

    def place(self, offset: int) -> Place:
        """Find where a character of the text was written; one that was not, at what it stands for."""
        before = 0
        for piece in self.pieces:
            if offset < before + len(piece.text):
                return Place(piece.source, piece.start + (offset - before if piece.copied else 0))
            before += len(piece.text)
        last = self.pieces[-1]
        return Place(last.source, last.start + (len(last.text) if last.copied else 0))

    def edited(self, edits: Iterable[Edit]) -> Woven:
        """Give the text with the edits made, which are in order and do not overlap."""
        pieces: list[Piece] = []
        end = 0
        for edit in edits:
            pieces += self._between(end, edit.start)
            place = self.place(edit.start)
            pieces.append(Piece(edit.text, place.source, place.offset, copied=False))
            end = edit.end
        pieces += self._between(end, len(self.text))
        return Woven(tuple(pieces)) if pieces else self

    def inserted(self, offset: int, pieces: Iterable[Piece]) -> Woven:
        """Give the text with more pieces at an offset."""
        rest = self._between(offset, len(self.text))
        return Woven((*self._between(0, offset), *pieces, *rest))

    def _between(self, start: int, end: int) -> Iterator[Piece]:
        """Give what stands between two offsets."""
        before = 0
        for piece in self.pieces:
            first, last = max(start - before, 0), min(end - before, len(piece.text))
            if first < last:
                moved = piece.start + (first if piece.copied else 0)
                yield Piece(piece.text[first:last], piece.source, moved, piece.copied)
            before += len(piece.text)


def whole(source: Source, start: int, text: str) -> Woven:
    """Give a part of a source as it is."""
    return Woven((Piece(text, source, start),))
