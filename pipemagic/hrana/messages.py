"""The messages of pipelines: frozen structs and their JSON.

Source: the public Hrana 2/3 over HTTP specification. A null means an absent field everywhere and unknown
keys are ignored, since published clients send both.
"""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from pipemagic.errors import ProtocolError
from pipemagic.hrana.columns import Columns
from pipemagic.hrana.values import Value

T = TypeVar("T")


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error of one request or step.

    ``extended_code``: SQLite's extended result code by its name, for an error that has one.
    """

    message: str
    code: str | None = None
    extended_code: str | None = None


class NamedArg(msgspec.Struct, frozen=True):
    """A parameter by name, with or without its ``:``, ``@`` or ``$``."""

    name: str
    value: Value


class Stmt(msgspec.Struct, frozen=True, omit_defaults=True):
    """One statement: its text or the id of a stored text, and its arguments."""

    sql: str | None = None
    sql_id: int | None = None
    args: list[Value] | None = None
    named_args: list[NamedArg] | None = None
    want_rows: bool | None = None
    replication_index: str | int | None = None


# Conditions of batch steps.


class OkCond(msgspec.Struct, frozen=True, tag_field="type", tag="ok"):
    """True if the step ran without an error."""

    step: int


class ErrorCond(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """True if the step did not succeed: it failed or was skipped."""

    step: int


class NotCond(msgspec.Struct, frozen=True, tag_field="type", tag="not"):
    """Negation."""

    cond: Cond


class AndCond(msgspec.Struct, frozen=True, tag_field="type", tag="and"):
    """True if all conditions are; an empty list is true."""

    conds: list[Cond]


class OrCond(msgspec.Struct, frozen=True, tag_field="type", tag="or"):
    """True if any condition is; an empty list is false."""

    conds: list[Cond]


class AutocommitCond(msgspec.Struct, frozen=True, tag_field="type", tag="is_autocommit"):
    """True if no transaction is open (version 3)."""


Cond: TypeAlias = OkCond | ErrorCond | NotCond | AndCond | OrCond | AutocommitCond


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a batch; without a condition it always runs."""

    stmt: Stmt
    condition: Cond | None = None


class Batch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Steps that run in order in one round trip, not in a transaction."""

    steps: list[Step]
    replication_index: str | int | None = None


# Requests.


class Execute(msgspec.Struct, frozen=True, tag_field="type", tag="execute"):
    """Run one statement."""

    stmt: Stmt


class Close(msgspec.Struct, frozen=True, tag_field="type", tag="close"):
    """End the stream; an open transaction is rolled back."""


class RunBatch(msgspec.Struct, frozen=True, tag_field="type", tag="batch"):
    """Run a batch."""

    batch: Batch


class Sequence(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="sequence"):
    """Run the statements of a script up to the first error, without returning rows."""

    sql: str | None = None
    sql_id: int | None = None
    replication_index: str | int | None = None


class Describe(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="describe"):
    """Parse a statement without running it."""

    sql: str | None = None
    sql_id: int | None = None
    replication_index: str | int | None = None


class StoreSql(msgspec.Struct, frozen=True, tag_field="type", tag="store_sql"):
    """Store a text on the stream under an id."""

    sql_id: int
    sql: str


class CloseSql(msgspec.Struct, frozen=True, tag_field="type", tag="close_sql"):
    """Delete a stored text; an unknown id is ignored."""

    sql_id: int


class GetAutocommit(msgspec.Struct, frozen=True, tag_field="type", tag="get_autocommit"):
    """Return whether no transaction is open (version 3)."""


Request: TypeAlias = Execute | Close | RunBatch | Sequence | Describe | StoreSql | CloseSql | GetAutocommit


class PipelineRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of a pipeline request."""

    requests: list[Request]
    baton: str | None = None


class ExecuteBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of ``/v1/execute``: one statement, no stream."""

    stmt: Stmt


class BatchBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of ``/v1/batch``: one batch, no stream."""

    batch: Batch


# Responses. Their keys are always written, even if null: some published clients require them.


class Col(msgspec.Struct, frozen=True):
    """A column of a result: its name and its declared type as written."""

    name: str | None = None
    decltype: str | None = None


if TYPE_CHECKING:
    Rows: TypeAlias = Many[list[Value]]
else:
    Rows = list[list[Value]] | Columns
"""The rows of a result. `Columns` are read by `pipemagic.frames.typed_json`."""


class StmtResult(msgspec.Struct, frozen=True):
    """The result of one statement."""

    cols: list[Col] = []
    rows: Rows = []
    affected_row_count: int | None = 0
    last_insert_rowid: str | int | None = None
    replication_index: str | int | None = None
    rows_read: int | None = 0
    rows_written: int | None = 0
    query_duration_ms: float | None = None


class BatchResult(msgspec.Struct, frozen=True):
    """One entry for each step in both lists; null for a skipped step."""

    step_results: list[StmtResult | None]
    step_errors: list[Error | None]
    replication_index: str | int | None = None


class Param(msgspec.Struct, frozen=True):
    """A parameter of a described statement; the name has its prefix, null for ``?``."""

    name: str | None = None


class DescribeResult(msgspec.Struct, frozen=True):
    """The parameters and columns of a statement."""

    params: list[Param]
    cols: list[Col]
    is_explain: bool
    is_readonly: bool


class ExecuteResponse(msgspec.Struct, frozen=True, tag_field="type", tag="execute"):
    """Response to Execute."""

    result: StmtResult


class CloseResponse(msgspec.Struct, frozen=True, tag_field="type", tag="close"):
    """Response to Close."""


class BatchResponse(msgspec.Struct, frozen=True, tag_field="type", tag="batch"):
    """Response to RunBatch."""

    result: BatchResult


class SequenceResponse(msgspec.Struct, frozen=True, tag_field="type", tag="sequence"):
    """Response to Sequence."""


class DescribeResponse(msgspec.Struct, frozen=True, tag_field="type", tag="describe"):
    """Response to Describe."""

    result: DescribeResult


class StoreSqlResponse(msgspec.Struct, frozen=True, tag_field="type", tag="store_sql"):
    """Response to StoreSql."""


class CloseSqlResponse(msgspec.Struct, frozen=True, tag_field="type", tag="close_sql"):
    """Response to CloseSql."""


class GetAutocommitResponse(msgspec.Struct, frozen=True, tag_field="type", tag="get_autocommit"):
    """Response to GetAutocommit."""

    is_autocommit: bool


Response: TypeAlias = (
    ExecuteResponse
    | CloseResponse
    | BatchResponse
    | SequenceResponse
    | DescribeResponse
    | StoreSqlResponse
    | CloseSqlResponse
    | GetAutocommitResponse
)


class OkEntry(msgspec.Struct, frozen=True, tag_field="type", tag="ok"):
    """A request that succeeded."""

    response: Response


class ErrorEntry(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """A request that failed; the requests after it still run."""

    error: Error


Entry: TypeAlias = OkEntry | ErrorEntry


class PipelineResponse(msgspec.Struct, frozen=True):
    """The body of a pipeline response; one entry for each request, in order.

    ``stream_ttl_ms``: the milliseconds without a request that the stream lives after it; None if the server does not
    say it.
    """

    results: list[Entry]
    baton: str | None = None
    base_url: str | None = None
    stream_ttl_ms: float | None = None


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_REQUEST = msgspec.json.Decoder(PipelineRequest)
_EXECUTE = msgspec.json.Decoder(ExecuteBody)
_BATCH = msgspec.json.Decoder(BatchBody)
RESPONSE = msgspec.json.Decoder(PipelineResponse)
"""For responses that are valid; see `decode_response`."""
ENCODER = msgspec.json.Encoder()
"""For messages that have only valid text; see `encode`."""


def decode_with(decoder: msgspec.json.Decoder[T], data: bytes, what: str) -> T:
    """Decode JSON; raise ProtocolError about ``what`` with the position of an error."""
    try:
        return decoder.decode(data)
    except UNREADABLE as error:
        raise ProtocolError(f"cannot read {what}: {error}") from None


def decode_request(data: bytes) -> PipelineRequest:
    """Decode the body of a pipeline request; raise ProtocolError with the position of an error."""
    return decode_with(_REQUEST, data, "the pipeline request")


def decode_execute(data: bytes) -> Execute:
    """Decode the body of ``/v1/execute``; raise ProtocolError with the position of an error."""
    body: ExecuteBody = decode_with(_EXECUTE, data, "the request")
    return Execute(body.stmt)


def decode_batch(data: bytes) -> RunBatch:
    """Decode the body of ``/v1/batch``; raise ProtocolError with the position of an error."""
    body: BatchBody = decode_with(_BATCH, data, "the request")
    return RunBatch(body.batch)


def decode_response(data: bytes) -> PipelineResponse:
    """Decode the body of a pipeline response; raise ProtocolError with the position of an error."""
    return decode_with(RESPONSE, data, "the server's response")


def encode(message: Any) -> bytes:
    """Encode a message as JSON (UTF-8, no spaces, ``/`` not escaped).

    Raise ProtocolError for text that is not valid Unicode (half of a surrogate pair).
    """
    try:
        return ENCODER.encode(message)
    except UnicodeEncodeError as error:
        raise not_unicode(error) from None


def not_unicode(error: UnicodeEncodeError) -> ProtocolError:
    """Return the error for text that has no UTF-8 form."""
    return ProtocolError(
        f"text with {error.object[error.start]!r} is not valid Unicode",
        hint="half of a surrogate pair has no UTF-8 form: send the data as bytes instead",
    )


def pipeline(requests: Many[Request], baton: str | None = None) -> bytes:
    """Encode the body of a pipeline request."""
    return encode(PipelineRequest(list(requests), baton))
