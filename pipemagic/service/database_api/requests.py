"""Decode large bodies part by part: the decoder holds the interpreter lock until it returns."""

from __future__ import annotations

import re
from typing import Union, get_args

import msgspec

from pipemagic.hrana import cursors, messages
from pipemagic.hrana.cursors import CursorRequest
from pipemagic.hrana.messages import Batch, PipelineRequest, Request, RunBatch, Step
from pipemagic.service.limits import MB
from pipemagic.service.responses import Refused

LARGE = MB // 4
"""Bytes from which a body is decoded part by part."""
MOST_CONTAINERS = 1_000_000
"""Objects and lists of a body; a batch of 20,000 rows of 5 columns has 260,000 of them."""
MOST_PARTS = 3 * MOST_CONTAINERS
"""Objects, lists and commas of a body."""

_QUOTE = ord('"')
_OUTSIDE = re.compile(rb'[\[{,"]')
_INSIDE = re.compile(rb'(?:[^"\\]{1,4096}+|\\.){1,1024}+', re.DOTALL)
"""A part of a string, so short that other threads need not wait long for the interpreter lock."""


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
_INVALID = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_pipeline(body: bytes) -> PipelineRequest:
    """Return the requests of a large pipeline; raise ProtocolError, or `Refused` with 413 for too many parts."""
    check_size(body)
    try:
        raw = _PIPELINE.decode(body)
        return PipelineRequest(list(map(_decode_request, raw.requests)), raw.baton)
    except _INVALID:
        return messages.decode_request(body)  # all at once; the error says where it is


def decode_cursor(body: bytes) -> CursorRequest:
    """Return the batch of a large cursor request; raise what `decode_pipeline` raises."""
    check_size(body)
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


def check_size(body: bytes) -> None:
    """Refuse (413) a body of too many objects, lists and commas; those in strings do not count."""
    pieces = (body[start : start + MB] for start in range(0, len(body), MB))  # other threads run between them
    if sum(piece.count(b"{") + piece.count(b"[") + piece.count(b",") for piece in pieces) <= MOST_CONTAINERS:
        return
    containers = parts = position = 0
    while (token := _OUTSIDE.search(body, position)) is not None:
        position = token.end()
        sign = body[token.start()]
        if sign == _QUOTE:
            position = _end_of_string(body, position)
            continue
        parts += 1
        containers += sign != ord(",")
        if containers > MOST_CONTAINERS or parts > MOST_PARTS:
            line = f"the request body holds more than {MOST_CONTAINERS:,} objects and lists, or {MOST_PARTS:,} values"
            raise Refused(413, f"{line}: send fewer requests, steps or arguments at a time")


def _end_of_string(body: bytes, position: int) -> int:
    while (part := _INSIDE.match(body, position)) is not None:
        position = part.end()
    return position + 1  # the quotation mark; beyond the end for a string without one
