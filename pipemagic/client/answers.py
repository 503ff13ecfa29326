"""What the entries of an answer mean, one by one."""

from __future__ import annotations

from collections.abc import Sequence

from pipemagic.client.bodies import HttpAnswer
from pipemagic.errors import ProtocolError
from pipemagic.hrana import faults
from pipemagic.hrana.messages import (
    BatchResponse,
    Close,
    Entry,
    Error,
    ErrorEntry,
    ExecuteResponse,
    OkEntry,
    Request,
)


def closes(requests: Sequence[Request]) -> bool:
    """Tell whether the stream ends with these requests."""
    return any(isinstance(request, Close) for request in requests)


def check_kind(request: Request, entry: Entry) -> None:
    """Raise ProtocolError if what was answered is not what was asked."""
    if isinstance(entry, OkEntry):
        asked, got = request.__struct_config__.tag, entry.response.__struct_config__.tag
        if asked != got:
            raise ProtocolError(f"{asked!r} was asked and {got!r} was answered")


def not_an_answer(error: ProtocolError, answer: HttpAnswer) -> ProtocolError:
    """Say it shortly when what came is a web page."""
    if "html" in answer.content_type or answer.body.lstrip()[:1] == b"<":
        return ProtocolError(
            "an HTML page came back instead of an answer of the database",
            hint="is this the address of a database, and is there a login page or a proxy in between?",
        )
    return ProtocolError(error.message, hint="what was sent may have run; the connection was dropped")


def _errors(entry: Entry) -> list[Error]:
    if isinstance(entry, ErrorEntry):
        return [entry.error]
    if isinstance(entry.response, BatchResponse):
        return [error for error in entry.response.result.step_errors if error is not None]
    return []


def timed_out(entry: Entry) -> bool:
    """Tell whether the server rolled the transaction back before this ran."""
    return any(
        error.code == faults.TRANSACTION_TIMEOUT or (error.code == "PROXY_ERROR" and "timed-out" in error.message)
        for error in _errors(entry)
    )


def ran_in_time(entry: Entry) -> int:
    """Count the steps of a batch that ran before the transaction timed out; 0 for a single statement."""
    if isinstance(entry, ErrorEntry) or not isinstance(entry.response, BatchResponse):
        return 0
    errors = entry.response.result.step_errors
    return next((number for number, error in enumerate(errors) if error is not None), len(errors))


def failed(entries: Sequence[Entry]) -> bool:
    """Tell whether there is an error in any of them, steps of batches included."""
    return any(_errors(entry) for entry in entries)


def first_error(entries: Sequence[Entry]) -> str:
    """Return the message of the first error in the entries, steps of batches included; '' if there is none."""
    return next((error.message for entry in entries for error in _errors(entry)), "")


def written(entry: Entry) -> int:
    """Count the statements of an entry that changed rows."""
    if isinstance(entry, ErrorEntry):
        return 0
    if isinstance(entry.response, ExecuteResponse):
        return int(bool(entry.response.result.affected_row_count))
    if isinstance(entry.response, BatchResponse):
        results = entry.response.result.step_results
        return sum(result is not None and bool(result.affected_row_count) for result in results)
    return 0
