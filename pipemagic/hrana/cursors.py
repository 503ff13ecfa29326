"""A cursor: a batch whose rows come as they are read. Request and entries as typed messages, for both sides.

The response is lines of JSON: first `Head`, then entries. Of a step: `StepBegin`, its rows, then `StepEnd` or
`StepError`; a skipped step leaves none. `Failure`, always the last one, says that the batch as a whole failed.
Source: the public Hrana 3 over HTTP specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from pipemagic.errors import ProtocolError
from pipemagic.hrana.columns import Rows
from pipemagic.hrana.messages import Batch, Col, Error, decode_with, encode
from pipemagic.hrana.values import Value


class CursorRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a cursor request."""

    batch: Batch
    baton: str | None = None


class Head(msgspec.Struct, frozen=True):
    """The first line: the baton is good for the stream once the cursor is over."""

    baton: str | None = None
    base_url: str | None = None


class StepBegin(msgspec.Struct, frozen=True, tag_field="type", tag="step_begin"):
    """A step runs; its rows follow."""

    step: int
    cols: list[Col]


class Row(msgspec.Struct, frozen=True, tag_field="type", tag="row"):
    """One row of the step that began last."""

    row: list[Value]


class StepEnd(msgspec.Struct, frozen=True, tag_field="type", tag="step_end"):
    """The step succeeded."""

    affected_row_count: int | None = 0
    last_insert_rowid: str | int | None = None


class StepError(msgspec.Struct, frozen=True, tag_field="type", tag="step_error"):
    """The step failed, before its first row or after some; later steps go by their conditions."""

    step: int
    error: Error


class Failure(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """The batch failed as a whole: nothing follows."""

    error: Error


Entry: TypeAlias = StepBegin | Row | Rows | StepEnd | StepError | Failure

_KNOWN = frozenset({"step_begin", "row", "rows", "step_end", "step_error", "error"})


class _Kind(msgspec.Struct, frozen=True):
    type: str


_REQUEST = msgspec.json.Decoder(CursorRequest)
_HEAD = msgspec.json.Decoder(Head)
_ENTRY = msgspec.json.Decoder(Entry)
_KIND = msgspec.json.Decoder(_Kind)


def decode_request(data: bytes) -> CursorRequest:
    """Decode the body of a cursor request; ProtocolError says where it is wrong."""
    return decode_with(_REQUEST, data, "the cursor request")


def decode_head(line: bytes) -> Head:
    """Decode the first line of a response; ProtocolError if it is none."""
    return decode_with(_HEAD, line, "the first line of the cursor")


def decode_entries(lines: Iterable[bytes]) -> Iterator[Entry]:
    """Decode the lines after the first, each when it comes; entries of unknown types are skipped.

    Raises ProtocolError for a line that is no entry. Whether the response was cut, the transport knows.
    """
    for line in lines:
        if line.strip() and (entry := _entry(line)) is not None:
            yield entry


def _entry(line: bytes) -> Entry | None:
    try:
        entry: Entry = decode_with(_ENTRY, line, "an entry of the cursor")
    except ProtocolError:
        if decode_with(_KIND, line, "an entry of the cursor").type in _KNOWN:
            raise
        return None  # servers add entries of their own
    return entry


def cursor(batch: Batch, baton: str | None = None) -> bytes:
    """Encode the body of a cursor request."""
    return encode(CursorRequest(batch, baton))
