"""Decode the bodies of requests and check them before anything runs, so that their stream stays unchanged.

Large bodies are decoded part by part: the decoder holds the interpreter lock until it returns. The memory for their
values is counted before: the decoder ends the process if there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Union, get_args

import msgspec

from pipemagic.errors import ProtocolError
from pipemagic.hrana import batches, cursors, messages
from pipemagic.hrana.cursors import CursorRequest
from pipemagic.hrana.messages import Batch, PipelineRequest, Request, RunBatch, Step, Stmt
from pipemagic.service.limits import MB
from pipemagic.service.responses import Refused

LARGE = MB // 4
"""Bytes from which a body is decoded part by part."""
OBJECT = 64
"""Bytes of memory that an object of a body needs beside its text: a value, a statement, a step or a request."""


class _Batch(msgspec.Struct):
    steps: list[msgspec.Raw]
    replication_index: str | int | None = None


class _RunBatch(msgspec.Struct, tag_field="type", tag="batch"):
    batch: _Batch


class _Pipeline(msgspec.Struct):
    requests: list[msgspec.Raw]
    baton: str | None = None


class _Cursor(msgspec.Struct):
    batch: _Batch
    baton: str | None = None


_PIPELINE = msgspec.json.Decoder(_Pipeline)
_CURSOR = msgspec.json.Decoder(_Cursor)
_REQUEST = msgspec.json.Decoder(Union[_RunBatch, *(kind for kind in get_args(Request) if kind is not RunBatch)])
_STEP = msgspec.json.Decoder(Step)
_AFTER_CLOSE = (messages.Close, messages.StoreSql, messages.CloseSql)
"""Requests that may follow a `close`, as on libSQL servers: they need no connection."""
_INVALID = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_pipeline(body: bytes, version: int) -> PipelineRequest:
    """Return the requests of a pipeline; raise ProtocolError, or `Refused` (400) for what a version does not allow."""
    request = messages.decode_request(body) if len(body) <= LARGE else _decode_large_pipeline(body)
    _check(request.requests, version)
    return request


def decode_single(decode: Callable[[bytes], Request], body: bytes, version: int) -> PipelineRequest:
    """Return the request of version 1, which is one of a pipeline; raise errors as `decode_pipeline` does."""
    request = PipelineRequest([decode(body)])
    _check(request.requests, version)
    return request


def decode_cursor(body: bytes) -> CursorRequest:
    """Return the batch of a cursor; raise errors as `decode_pipeline` does."""
    request = cursors.decode_request(body) if len(body) <= LARGE else _decode_large_cursor(body)
    _check([RunBatch(request.batch)], version=3)
    return request


def _decode_large_pipeline(body: bytes) -> PipelineRequest:
    try:
        raw = _PIPELINE.decode(body)
        return PipelineRequest(list(map(_decode_request, raw.requests)), raw.baton)
    except _INVALID:
        return messages.decode_request(body)  # all at once; the error says where it is


def _decode_large_cursor(body: bytes) -> CursorRequest:
    try:
        raw = _CURSOR.decode(body)
        return CursorRequest(_decode_steps(raw.batch), raw.baton)
    except _INVALID:
        return cursors.decode_request(body)


def _decode_request(raw: msgspec.Raw) -> Request:
    request: _RunBatch | messages.Request = _REQUEST.decode(raw)
    return RunBatch(_decode_steps(request.batch)) if isinstance(request, _RunBatch) else request


def _decode_steps(raw: _Batch) -> Batch:
    return Batch(list(map(_STEP.decode, raw.steps)), raw.replication_index)


def _check(requests: Iterable[Request], version: int) -> None:
    """Raise `Refused` (400) for errors that are visible before anything runs, so that the stream stays unchanged."""
    closed = False
    for request in requests:
        if closed and not isinstance(request, _AFTER_CLOSE):  # SQL over HTTP, 5.3
            raise Refused(400, "A `close` request must be the last one of its pipeline", plain=True)
        match request:
            case messages.Close():
                closed = True
            case messages.Execute(stmt):
                if (stmt.sql is None) == (stmt.sql_id is None) or stmt.replication_index is not None:
                    _check_text(stmt)
            case messages.Sequence() | messages.Describe():
                _check_text(request)
            case RunBatch(batch):
                _check_index(batch.replication_index)
                for step in batch.steps:
                    _check_text(step.stmt)
                try:
                    batches.check_references(batch)
                except ProtocolError as error:
                    raise Refused(400, error.message, plain=True) from None
                if version < 3 and batches.uses_autocommit(batch):
                    raise _too_new("The `is_autocommit` condition")
            case messages.GetAutocommit() if version < 3:
                raise _too_new("The `get_autocommit` request")


def _check_text(holder: Stmt | messages.Sequence | messages.Describe) -> None:
    if (holder.sql is None) == (holder.sql_id is None):
        raise Refused(400, "Either `sql` or `sql_id` are required, and not both", plain=True)
    _check_index(holder.replication_index)


def _check_index(index: str | int | None) -> None:
    if index is None:
        return
    text = str(index)
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Refused(400, f"replication_index is not a commit number: {text[:50]!r}", plain=True)


def _too_new(what: str) -> Refused:
    return Refused(400, f"{what} is only supported in protocol version hrana3 and higher", plain=True)


def memory_for(body: bytes | bytearray) -> int:
    """Estimate the bytes of memory that a body needs after decoding; the estimate is rather too high.

    An ASCII text takes one byte for each character. While any other text is decoded, it exists in two or three
    forms, of up to 4 bytes for each character if one of them is beyond U+FFFF, such as an emoji.
    """
    size = len(body)
    objects = escapes = surrogates = wide = beyond = 0
    for start in range(0, size, MB):  # other threads run between the pieces
        end = min(start + MB, size)
        objects += body.count(b"{", start, end)
        if body.find(b"\\", start, end) >= 0:
            objects -= body.count(b"{\\", start, end + 1)  # in a text: what follows a brace there is often escaped
            unicode = body.count(b"\\u", start, end + 1)
            escapes += unicode - body.count(b"\\\\u", start, end + 2)
            wide += unicode - body.count(b"\\u00", start, end + 3)
            surrogates += body.count(b"\\ud", start, end + 2) + body.count(b"\\uD", start, end + 2)
        piece = body[start:end]
        if not piece.isascii():
            wide += 1
            beyond += any(byte in piece for byte in range(0xF0, 0xF5))
    copies = 9 if beyond or surrogates else 6 if wide else 2
    text = size - 3 * escapes - surrogates  # six bytes are a character, or half a pair, of up to three or two in UTF-8
    return size + copies * text + OBJECT * objects
