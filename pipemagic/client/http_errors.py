"""What a request that failed means: the typed errors, each with what to do next."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from datetime import UTC

import httpx

from pipemagic.client.address import Endpoint
from pipemagic.client.response_body import MAX_SIZE, TooLarge
from pipemagic.errors import (
    AddressError,
    AnswerTimeout,
    AuthError,
    BusyError,
    ConnectError,
    InterruptedRequest,
    NotFound,
    PipemagicError,
    ServerError,
    UnknownOutcome,
)

_FORWARDED = "Failed to execute queries via RPC protocol"
"""How a libSQL replica says that its primary did not take what the replica does not do by itself."""

PARTLY = "parts of what was sent may have been applied"


def refusal(status: int, message: str, code: str = "", retry_after: str = "") -> ServerError:
    """Return the typed error for an HTTP status that is not 2xx; ``retry_after`` is the header of that name."""
    retry = retry_time(retry_after) if status in (429, 503) else ""
    match status:
        case 401:
            return AuthError(
                f"the token was not accepted: {message}",
                status=status,
                hint="give another token; the database token and the platform token are different ones",
            )
        case 403 if code == "BLOCKED":  # by a quota or a setting, whatever the token
            return ServerError(message, status=status, code=code)
        case 403:
            return AuthError(
                f"the token does not allow this: {message}",
                status=status,
                hint="a read-only token cannot write; ask for one with full access",
            )
        case 404:
            return NotFound(
                f"not found: {message}",
                status=status,
                hint="is the name right, and was the token made for this database?",
            )
        case 429:
            return BusyError(
                f"the server is busy: {message}",
                status=status,
                hint="nothing of this ran; close connections that are not needed"
                + (f"; try again {retry}" if retry else ", or try again later"),
            )
        case 500 if _FORWARDED in message:
            return ServerError(
                "this address is that of a replica: it takes no writes, and answers reads once it has caught up",
                status=status, code="REPLICA",
                hint="write at the primary's address (`pipemagic db show NAME --http-url`); a read may need a moment",
            )  # fmt: skip
    hint = "; ".join(filter(None, [PARTLY if status >= 500 else "", retry and f"try again {retry}"]))
    return ServerError(
        f"the server refused the request (HTTP {status}): {message}", status=status, hint=hint, code=code
    )


def retry_time(told: str) -> str:
    """Return a Retry-After header in words; '' if it has no time."""
    if re.fullmatch(r"\d{1,6}", told.strip(), re.ASCII):
        return f"in {int(told)} s"
    from email.utils import parsedate_to_datetime  # few need it

    try:
        return f"after {parsedate_to_datetime(told).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):
        return ""


FAILURES = (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TooLarge, KeyboardInterrupt)
"""What a request may fail with; `failure` turns each into our error."""


def failure(error: BaseException, endpoint: Endpoint) -> PipemagicError:
    """Return our error for what failed while a request was sent or its response read: one of `FAILURES`.

    To be raised ``from None``: the frames below hold the headers, and with them the token.
    """
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout() | httpx.PoolTimeout() | httpx.ProxyError():
            return _no_connection(error, endpoint)
        case httpx.TimeoutException():
            return AnswerTimeout(
                f"{endpoint.address} did not answer in time; what was sent may have run, or may still be running",
                hint="look before you run it again; timeout=... of connect() sets how long to wait",
            )
        case TooLarge():
            return UnknownOutcome(
                f"the response of {endpoint.address} is larger than {MAX_SIZE // 1024**2} MB and was not read to its "
                "end; what was sent has run",
                hint="take fewer rows or columns (LIMIT), or database.cursor(...), whose rows have no limit",
            )
        case UnicodeError() | httpx.InvalidURL():
            return AddressError(f"{endpoint.address} is not an address that HTTP can use")
        case KeyboardInterrupt():  # the connection is dropped, by which the server notices
            return InterruptedRequest(
                "interrupted while a request was under way; what was sent may have run, wholly or in part",
                hint="look before you run it again",
            )
    return _no_answer(str(error), endpoint)


def chunk_failure(error: BaseException, endpoint: Endpoint) -> UnknownOutcome:
    """Return our error for what ended a response in the middle, while its chunks were read one by one."""
    match error:
        case httpx.TimeoutException():
            return AnswerTimeout(f"{endpoint.address} stopped sending in the middle of its response")
        case KeyboardInterrupt():
            return InterruptedRequest("interrupted while the response came")
    return UnknownOutcome(f"the connection to {endpoint.address} ended in the middle of a response")


def transfer_failure(error: httpx.RequestError, endpoint: Endpoint) -> ConnectError:
    """Return our error for what ended an upload or a download."""
    return ConnectError(f"the connection to {endpoint.address} ended before everything came: {error}", hint="try again")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _no_connection(error: httpx.TransportError, endpoint: Endpoint) -> ConnectError:
    """Say in one line why no connection came about."""
    import ssl  # takes some milliseconds, and few need it

    where = endpoint.address
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return ConnectError(
                    f"the certificate of {where} is not trusted: {cause.verify_message}",
                    hint="is it the right host? SSL_CERT_FILE=... names a certificate authority of your own",
                )
            case ssl.SSLError():
                return ConnectError(
                    f"no TLS connection to {where}: {cause.reason or 'the handshake failed'}",
                    hint="a server without TLS wants http:// instead",
                )
            case socket.gaierror():
                hint = "is it spelled right? is there a network?"
                return ConnectError(f"the host name in {where} is unknown", hint=hint)
            case ConnectionRefusedError():
                hint = "is the server running, and the port right?"
                return ConnectError(f"nothing listens at {where} (connection refused)", hint=hint)
            case OSError(errno=errno.ENETUNREACH | errno.EHOSTUNREACH):
                return ConnectError(f"there is no route to {where}", hint="is there a network?")
    match error:
        case httpx.TimeoutException():
            return ConnectError(f"{where} did not take the connection in time", hint="is there a network, a firewall?")
        case httpx.ProxyError():
            return ConnectError(f"the proxy on the way to {where} refused: {error}")
    return ConnectError(f"no connection to {where}: {error}")


def _no_answer(text: str, endpoint: Endpoint) -> UnknownOutcome:
    hint = "look before you run it again"
    if "illegal status line" in text or "SSL" in text:
        hint = f"the response is not HTTP; {'https' if endpoint.scheme == 'http' else 'http'}:// instead?"
    return UnknownOutcome(
        f"the connection to {endpoint.address} ended before the whole response came; what was sent may have run",
        hint=hint,
    )
