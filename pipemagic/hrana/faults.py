"""Error codes of the protocol, and the body of a refused request."""

from __future__ import annotations

from typing import Any

import msgspec

from pipemagic.hrana.messages import Error

STREAM_EXPIRED = "STREAM_EXPIRED"
STREAM_LOST = "STREAM_LOST"
TRANSACTION_TIMEOUT = "TRANSACTION_TIMEOUT"
STATEMENT_TIMEOUT = "STATEMENT_TIMEOUT"
RESPONSE_TOO_LARGE = "RESPONSE_TOO_LARGE"
SQL_PARSE_ERROR = "SQL_PARSE_ERROR"
SQL_INPUT_ERROR = "SQL_INPUT_ERROR"
SQL_NO_STATEMENT = "SQL_NO_STATEMENT"
SQL_MANY_STATEMENTS = "SQL_MANY_STATEMENTS"
SQL_STORE_TOO_LARGE = "SQL_STORE_TOO_LARGE"
ARGS_INVALID = "ARGS_INVALID"
ARGS_BOTH = "ARGS_BOTH_POSITIONAL_AND_NAMED"
STREAM_ENDED = "STREAM_ENDED"

TRANSACTION_TIMED_OUT = Error("Transaction timed out", TRANSACTION_TIMEOUT)


def timed_out(reason: str) -> Error:
    """Return the error of a transaction that was rolled back for another reason than its usual limit."""
    return Error(f"{TRANSACTION_TIMED_OUT.message}: {reason}", TRANSACTION_TIMEOUT)


def timeout_reason(error: Error) -> str:
    """Return the reason in an error of `timed_out`; '' if it has none."""
    start = f"{TRANSACTION_TIMED_OUT.message}: "
    return error.message.removeprefix(start) if error.message.startswith(start) else ""


BATON_USED = "Received a baton that has already been used"
BATON_INVALID = "Received an invalid baton"


def read_fault(body: bytes, content_type: str = "") -> Error:
    """Decode the body of an HTTP error, in any of the formats of servers.

    ``{"message", "code"}``, ``{"error": text}``, a line of plain text; for anything else (HTML, a proxy's page)
    only the first line of text is kept, at most 300 characters.
    """
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Error(_first_line(body, content_type))
    if isinstance(parsed, dict):
        code = parsed.get("code")
        for key in ("message", "error"):
            if isinstance(text := parsed.get(key), str) and text.strip():
                return Error(text, code if isinstance(code, str) else None)
        if isinstance(inner := parsed.get("error"), dict):
            return _inner(inner)
    return Error(_first_line(body, content_type))


def _inner(inner: dict[str, Any]) -> Error:
    code = inner.get("code")
    text = inner.get("message")
    text = text if isinstance(text, str) else msgspec.json.encode(inner).decode()
    return Error(text, code if isinstance(code, str) else None)


def _first_line(body: bytes, content_type: str) -> str:
    if "html" in content_type.lower() or body.lstrip()[:1] == b"<":
        return "received an HTML page instead of a response of the database"
    lines = body.decode("utf-8", "replace").strip().splitlines()
    return lines[0][:300] if lines else "the response has no text"


def is_stream_gone(status: int, error: Error) -> bool:
    """Return True if a request with a baton was refused because the server no longer has its stream.

    Nothing of the request ran, and nothing of an open transaction is applied: whatever the code, the stream had no
    COMMIT pending, since one without a response ends the stream on the client.
    """
    match status:
        case 404:  # the serverless protocol; also with STREAM_NOT_FOUND
            return True
        case 410:
            return error.code in (None, STREAM_EXPIRED, STREAM_LOST)
        case 400:
            return error.code == STREAM_EXPIRED or error.message in {BATON_USED, BATON_INVALID}
    return False
