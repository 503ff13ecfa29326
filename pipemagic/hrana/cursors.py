"""Messages of cursors: a batch that sends its rows as they are read.

The response is lines of JSON: `Head`, then entries. For a step these are `StepBegin`, its rows, then `StepEnd` or
`StepError`; a skipped step has none. `CursorError`, always the last one, means that the whole batch failed.
Source: the public Hrana 3 over HTTP specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from pipemagic.errors import ProtocolError
from pipemagic.hrana.columns import RowsEntry
from pipemagic.hrana.messages import Batch, Col, Error, decode_with
from pipemagic.hrana.values import Value


class CursorRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a cursor request."""

    batch: Batch
    baton: str | None = None


class Head(msgspec.Struct, frozen=True):
    """The first line: the baton is valid after the end of the cursor, for ``stream_ttl_ms`` if the server says it."""

    baton: str | None = None
    base_url: str | None = None
    stream_ttl_ms: float | None = None


class StepBegin(msgspec.Struct, frozen=True, tag_field="type", tag="step_begin"):
    """A step begins; its rows follow."""

    step: int
    cols: list[Col]


class RowEntry(msgspec.Struct, frozen=True, tag_field="type", tag="row"):
    """One row of the current step."""

    row: list[Value]


class StepEnd(msgspec.Struct, frozen=True, tag_field="type", tag="step_end"):
    """The step succeeded."""

    affected_row_count: int | None = 0
    last_insert_rowid: str | int | None = None


class StepError(msgspec.Struct, frozen=True, tag_field="type", tag="step_error"):
    """The step failed, before its first row or after some; later steps run by their conditions."""

    step: int
    error: Error


class CursorError(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """The whole batch failed: nothing follows."""

    error: Error


CursorEntry: TypeAlias = StepBegin | RowEntry | RowsEntry | StepEnd | StepError | CursorError

_KNOWN = frozenset({"step_begin", "row", "rows", "step_end", "step_error", "error"})


class _Kind(msgspec.Struct, frozen=True):
    type: str


_REQUEST = msgspec.json.Decoder(CursorRequest)
_HEAD = msgspec.json.Decoder(Head)
_ENTRY = msgspec.json.Decoder(CursorEntry)
_KIND = msgspec.json.Decoder(_Kind)


def decode_request(data: bytes) -> CursorRequest:
    """Decode the body of a cursor request; raise ProtocolError with the position of an error."""
    return decode_with(_REQUEST, data, "the cursor request")


def decode_head(line: bytes) -> Head:
    """Decode the first line of a response; raise ProtocolError if it is malformed."""
    return decode_with(_HEAD, line, "the first line of the cursor")


def decode_entries(lines: Iterable[bytes]) -> Iterator[CursorEntry]:
    """Decode the lines after the first, one by one; skip entries of unknown types.

    Raise ProtocolError for a malformed line. The transport detects incomplete responses.
    """
    for line in lines:
        if line.strip() and (entry := _entry(line)) is not None:
            yield entry


def _entry(line: bytes) -> CursorEntry | None:
    try:
        entry: CursorEntry = decode_with(_ENTRY, line, "an entry of the cursor")
    except ProtocolError:
        if decode_with(_KIND, line, "an entry of the cursor").type in _KNOWN:
            raise
        return None  # servers add their own entries
    return entry
