"""Convert failed requests to errors with a hint."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from datetime import UTC

import httpx

from pipemagic.client.address import Endpoint
from pipemagic.client.repeats import Cause
from pipemagic.client.response_body import MAX_SIZE, BodyTooLarge
from pipemagic.errors import (
    AddressError,
    AnswerTimeout,
    AuthError,
    BusyError,
    ConnectError,
    EncryptionKeyError,
    InterruptedRequest,
    NotFound,
    PipemagicError,
    ServerError,
    UnknownOutcome,
)
from pipemagic.http.transport import ClosedUnsent

_FORWARDED = "Failed to execute queries via RPC protocol"
"""The message of a libSQL replica if its primary refused a forwarded request."""

NO_TOKEN = "pass token=... in Python; %pipedb connect, commands and engines of SQLAlchemy read PIPEMAGIC_TOKEN"
OTHER_TOKEN = "use another token; the database token and the platform token are different"

ARCHIVED = (
    "the hosted service archives the unused groups of a free plan: `pipemagic group unarchive GROUP` makes the "
    "databases available again"
)

PASS_KEY = "--encryption-key-env VARIABLE in %pipedb connect and commands, encryption_key=... in Python"

PARTLY = "parts of the request may have been applied"


def refusal(status: int, message: str, code: str = "", retry_after: str = "") -> ServerError:
    """Return the typed error for an HTTP status that is not 2xx; ``retry_after`` is the header of that name."""
    retry = retry_time(retry_after) if status in (429, 503) else ""
    match status:
        case 401:
            hint = "get a new token; if someone gave you this one, ask them" if "expired" in message else OTHER_TOKEN
            return AuthError(f"the token was not accepted: {message}", status=status, hint=hint)
        case 403 if code == "BLOCKED":  # by a quota or a setting, with any token
            return ServerError(message, status=status, code=code)
        case 403:
            return AuthError(
                f"the token does not allow this: {message}",
                status=status,
                hint="a read-only token cannot write; use one with full access",
            )
        case 404:
            return NotFound(
                f"not found: {message}", status=status, hint="check the name, and that the token is for this database"
            )
        case 429:
            return BusyError(
                f"the server is busy: {message}",
                status=status,
                hint="nothing was run; close connections that are not needed"
                + (f"; try again {retry}" if retry else ", or try again later"),
            )
        case 503 if code == "LOCATION_PAUSED":  # refused before a statement runs
            return ServerError(
                f"the server refused the request (HTTP {status}): {message}", status=status, code=code,
                hint="nothing was run; `pipemagic group locations resume GROUP CODE`, in a notebook "
                "%pipedb resume-location GROUP CODE, ends the pause",
            )  # fmt: skip
        case 500 if _FORWARDED in message:
            return ServerError(
                "this is the address of a replica: it accepts no writes, and responds to reads once it has caught up",
                status=status, code="REPLICA",
                hint="write at the primary's address (`pipemagic db show NAME --http-url`); a read may need a moment",
            )  # fmt: skip
    hint = "; ".join(filter(None, [
        "a text is not UTF-8: read it with CAST(... AS BLOB)" if "invalid utf-8 sequence" in message else "",
        PARTLY if status >= 500 else "", retry and f"try again {retry}", ARCHIVED if status == 502 else "",
    ]))  # fmt: skip
    return ServerError(
        f"the server refused the request (HTTP {status}): {message}", status=status, hint=hint, code=code
    )


_ENCRYPTED = re.compile(r"(?!.*\b(?:token|jwt)\b).*(?:encrypt|decrypt)", re.IGNORECASE | re.DOTALL)
"""The hosted service publishes no code, and no text, of its refusal of a wrong or missing key.

A token that cannot be decrypted is another error.
"""


def asks_for_key(status: int, message: str) -> bool:
    """Return True if a server refuses a request since its encryption key is wrong or missing."""
    return status in (400, 401, 403, 500) and _ENCRYPTED.match(message) is not None


def key_refusal(status: int, message: str, *, has_key: bool) -> EncryptionKeyError:
    """Return the error for a refusal of `asks_for_key`, with or without a key."""
    if has_key:
        text = "the encryption key was not accepted"
        hint = f"use the key, in base64, with which the database was created: {PASS_KEY}"
    else:
        text, hint = "the database is encrypted, and no key was sent", f"name the key: {PASS_KEY}"
    return EncryptionKeyError(f"{text}: {message}", status=status, hint=hint)


def retry_seconds(header: str) -> float | None:
    """Return the seconds of a Retry-After header; None if it has no number."""
    return float(header) if re.fullmatch(r"\d{1,6}", header.strip(), re.ASCII) else None


def retry_time(header: str) -> str:
    """Return a Retry-After header as text; '' if it has no time."""
    if (seconds := retry_seconds(header)) is not None:
        return f"in {seconds:.0f} s"
    from email.utils import parsedate_to_datetime  # rarely needed

    try:
        return f"after {parsedate_to_datetime(header).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):
        return ""


FAILURES = (httpx.HTTPError, httpx.InvalidURL, UnicodeError, BodyTooLarge, KeyboardInterrupt)
"""The exceptions of a request, which `failure` converts."""


def failure(error: BaseException, endpoint: Endpoint) -> PipemagicError:
    """Return the error for an exception of a request, one of `FAILURES`.

    To be raised ``from None``: the frames below contain the headers, and with them the token.
    """
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.PoolTimeout() | httpx.ProxyError():
            return _no_connection(error, endpoint)
        case httpx.TimeoutException():
            return AnswerTimeout(
                f"{endpoint.address} did not respond in time; the request may have run, or may still be running",
                hint="check the data before you run it again; timeout=... of connect() sets how long to wait",
            )
        case BodyTooLarge():
            return UnknownOutcome(
                f"the response of {endpoint.address} is larger than {MAX_SIZE // 1024**2} MB and was not read to its "
                "end; the request has run",
                hint="use fewer rows or columns (LIMIT), or database.cursor(...), which has no limit",
            )
        case UnicodeError() | httpx.InvalidURL():
            return AddressError(f"{endpoint.address} is not an address that HTTP can use")
        case KeyboardInterrupt():  # the server notices that the connection is closed
            return InterruptedRequest(
                "interrupted while a request was pending; it may have run, in full or in part",
                hint="check the data before you run it again",
            )
    return _no_answer(str(error), endpoint)


def cause_of_failure(error: BaseException) -> Cause | None:
    """Return why a request that failed with one of `FAILURES` may be sent again; None if it must not."""
    if isinstance(error, ClosedUnsent):
        return Cause.CLOSED_UNSENT
    is_unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.ProxyError)
    return Cause.UNREACHABLE if is_unsent else None


def chunk_failure(error: BaseException, endpoint: Endpoint) -> UnknownOutcome:
    """Return the error for an exception while the chunks of a response were read."""
    match error:
        case httpx.TimeoutException():
            return AnswerTimeout(f"{endpoint.address} stopped sending in the middle of its response")
        case KeyboardInterrupt():
            return InterruptedRequest("interrupted while the response was received")
    return UnknownOutcome(f"the connection to {endpoint.address} ended in the middle of a response")


def transfer_failure(error: httpx.RequestError, endpoint: Endpoint) -> ConnectError:
    """Return the error for a failed upload or download."""
    message = f"the connection to {endpoint.address} ended before the transfer was complete: {error}"
    return ConnectError(message, hint="try again")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _no_connection(error: httpx.TransportError, endpoint: Endpoint) -> ConnectError:
    """Return the error for a connection that could not be opened."""
    import ssl  # takes some milliseconds, and is rarely needed

    from pipemagic.http.tls import untrusted_hint

    where = endpoint.address
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return ConnectError(
                    f"the certificate of {where} is not trusted: {cause.verify_message}",
                    hint=untrusted_hint(cause),
                )
            case ssl.SSLError():
                return ConnectError(
                    f"cannot make a TLS connection to {where}: {cause.reason or 'the handshake failed'}",
                    hint="use http:// for a server without TLS",
                )
            case socket.gaierror():
                hint = "check the spelling and the network"
                return ConnectError(f"cannot find the host {endpoint.named_host}", hint=hint)
            case ConnectionRefusedError():
                hint = "check that the server is running, and the port"
                if endpoint.named_host == "localhost":
                    hint += (
                        f"; localhost means 127.0.0.1, for IPv6 write {endpoint.scheme}://[::1]{endpoint.port_suffix}"
                    )
                return ConnectError(f"nothing is listening at {where} (connection refused)", hint=hint)
            case OSError(errno=errno.ENETUNREACH | errno.EHOSTUNREACH):
                return ConnectError(f"no route to {where}", hint="check the network")
    match error:
        case httpx.TimeoutException():
            return ConnectError(f"{where} did not accept the connection in time", hint="check network and firewalls")
        case httpx.ProxyError():
            return ConnectError(f"the proxy refused the connection to {where}: {error}")
    return ConnectError(f"cannot connect to {where}: {error}")


def _no_answer(text: str, endpoint: Endpoint) -> UnknownOutcome:
    hint = "check the data before you run it again"
    if "illegal status line" in text or "SSL" in text:
        hint = f"the response is not HTTP; did you mean {'https' if endpoint.scheme == 'http' else 'http'}://?"
    return UnknownOutcome(
        f"the connection to {endpoint.address} ended before the response was complete; the request may have run",
        hint=hint,
    )
