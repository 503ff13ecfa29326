"""The lines of a cursor's answer -> its entries; many rows that come together are read by columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec

from pipemagic.frames.answers import LARGE, read_columns
from pipemagic.frames.collector import collector_paused
from pipemagic.frames.grid import read_rows
from pipemagic.frames.stored import StoredRows
from pipemagic.hrana import cursors
from pipemagic.hrana.columns import Rows
from pipemagic.hrana.messages import Col

Entry: TypeAlias = cursors.Entry | StoredRows
"""What a line says; rows may come as one for many lines."""

ENOUGH = 2**18
"""Bytes that are read together: in smaller pieces each costs more, in larger ones progress shows later."""

PATIENCE = 0.1
"""Seconds for which pieces are collected until there is enough."""

_ROW, _CELLS, _END = b'{"type":"row","row":[', b'{"type":"row","row":[{"t', b"]}"
_BETWEEN = _END + b"\n" + _ROW
_ENTRY: msgspec.json.Decoder[cursors.Entry] = msgspec.json.Decoder(cursors.Entry)


class Lines:
    """Reads the entries out of pieces, which begin and end anywhere; iterate once, for batches of them.

    Pieces that come in quick succession are read together: some servers send each row as one of its own.
    """

    def __init__(self, pieces: Iterable[bytes], clock: Callable[[], float] = time.monotonic) -> None:
        self._pieces, self._clock = pieces, clock
        self._cols: Sequence[Col] = ()

    def __iter__(self) -> Iterator[Sequence[Entry]]:
        for lines in _whole_lines(self._together()):
            with collector_paused(len(lines)):
                entries = self._entries(lines)
            yield entries

    def _together(self) -> Iterator[bytes]:
        """Join pieces. The first ones are given as they come: what takes long to run shows its first rows soon."""
        waiting: list[bytes] = []
        size, total, given = 0, 0, self._clock()
        for piece in self._pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= ENOUGH or total < LARGE or self._clock() - given >= PATIENCE:
                yield b"".join(waiting)
                waiting, size, given = [], 0, self._clock()
            total += len(piece)
        yield b"".join(waiting)

    def _entries(self, lines: bytes) -> Sequence[Entry]:
        entries = self._read_apart(lines) if len(lines) >= LARGE else None
        return self._read(lines) if entries is None else entries

    def _read_apart(self, lines: bytes) -> Sequence[Entry] | None:
        """Read rows that follow each other by columns, and what stands before and after them; None if that fails."""
        start, last = lines.find(_CELLS), lines.rfind(_CELLS)
        stop = lines.find(b"\n", last)
        stop = len(lines) if stop == -1 else stop
        if start == -1 or not lines.endswith(_END, start, stop):
            return None
        before = self._read(lines[:start])
        rows = read_rows(lines, start + len(_ROW), stop - len(_END), cols=self._cols, between=_BETWEEN)
        return None if rows is None else [*before, *rows, *self._read(lines[stop:])]

    def _read(self, lines: bytes) -> Sequence[Entry]:
        """Read some lines at once, which is quicker than one by one; that is for lines that are not ours.

        The decoder also accepts one object on several lines and several objects on one line, which only a damaged
        response contains.
        """
        text = lines.strip(b"\n")
        entries: list[cursors.Entry] = []
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            entries = _ENTRY.decode_lines(text)
        if not len(entries) - 1 == text.count(b"\n") == text.count(b"}\n{"):
            entries = list(cursors.decode_entries(lines.split(b"\n")))
        return [self._understood(entry) for entry in entries]

    def _understood(self, entry: cursors.Entry) -> Entry:
        if isinstance(entry, cursors.StepBegin):
            self._cols = entry.cols
        return read_columns(entry.part, self._cols) if isinstance(entry, Rows) else entry


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut pieces behind their last line; a line may go over several of them."""
    begun: list[bytes] = []
    for piece in pieces:
        head, found, rest = piece.rpartition(b"\n")
        if not found:
            begun.append(piece)
            continue
        yield b"".join([*begun, head])
        begun = [rest]
    if last := b"".join(begun):
        yield last
