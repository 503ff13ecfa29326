"""Lines of a cursor that come in pieces: what is read together, and when it is given."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from pipemagic.client import cursor_response
from pipemagic.client.cursor_response import read_entries
from pipemagic.errors import ProtocolError
from pipemagic.frames.typed_json import LARGE
from pipemagic.hrana.cursors import RowEntry, StepBegin, StepEnd
from pipemagic.hrana.messages import Col, encode
from pipemagic.hrana.values import Text

BEGIN = encode(StepBegin(0, [Col("a")])) + b"\n"
ROW = encode(RowEntry([Text("x" * 1000)])) + b"\n"


class Sender:
    """Sends pieces at given times, and knows how many were asked for."""

    def __init__(self, *pieces: tuple[float, bytes]) -> None:
        self.pieces, self.now, self.sent = pieces, 0.0, 0

    def __iter__(self) -> Iterator[bytes]:
        for seconds, piece in self.pieces:
            self.now, self.sent = self.now + seconds, self.sent + 1
            yield piece

    def clock(self) -> float:
        return self.now


def test_the_first_rows_are_given_as_they_come() -> None:
    sender = Sender((0, BEGIN), (0, ROW), (0, ROW))
    entries = iter(read_entries(sender, sender.clock))
    assert isinstance(next(entries)[0], StepBegin)
    assert sender.sent == 1
    assert len(next(entries)) == 1
    assert sender.sent == 2


def test_many_small_pieces_are_read_together() -> None:
    count = 2000
    sender = Sender((0, BEGIN), *[(0.0, ROW)] * count, (0, encode(StepEnd(0, None)) + b"\n"))
    batches = [batch for batch in read_entries(sender, sender.clock) if batch]
    first = LARGE // len(ROW)
    assert len(batches) < first + 3 + count * len(ROW) // cursor_response.CHUNK_SIZE
    rows = [entry for batch in batches for entry in batch][1:-1]
    assert sum(1 if isinstance(entry, RowEntry) else len(entry) for entry in rows) == count  # type: ignore[arg-type]


def test_rows_that_come_slowly_are_not_kept_back() -> None:
    sender = Sender((0, BEGIN + ROW * 100), *[(cursor_response.MAX_DELAY, ROW)] * 3)
    entries = iter(read_entries(sender, sender.clock))
    next(entries)
    for number in range(2, 5):
        assert len(next(entries)) == 1
        assert sender.sent == number


def test_the_garbage_collector_is_only_paused_while_lines_are_read() -> None:
    many = ROW * 300  # so many that it is worth a pause
    assert gc.isenabled()
    collecting = [gc.isenabled() for _ in read_entries([BEGIN, many, many])]
    assert collecting == [True] * len(collecting)
    assert len(collecting) >= 3


def test_an_entry_over_several_lines_is_damage() -> None:
    begin = encode(StepBegin(0, [Col("a")]))
    for damaged in (begin.replace(b'"name"', b'"\name"'), begin.replace(b":", b":\n", 1)):
        for end in (b"\n", b""):
            with pytest.raises(ProtocolError):
                list(read_entries([damaged + end + ROW]))
