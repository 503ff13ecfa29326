"""The exceptions of pipemagic, each with a message, a stable code and a hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self

__all__ = [
    "AddressError", "AlreadyExists", "AnswerTimeout", "AuthError", "BusyError", "ConfirmError", "ConnectError",
    "EncryptionKeyError", "InterruptedRequest", "LoadError", "NotFound", "ParameterError", "PipemagicError",
    "PlotError", "ProtocolError", "ReadOnlyError", "RulesError", "ServerError", "ServiceError", "SessionError",
    "StatementError", "StreamError", "TemplateError", "TransactionLost", "TransferError", "UnknownName",
    "UnknownOutcome", "UnsupportedError", "UsageError",
]  # fmt: skip


def with_hint(message: str, hint: str) -> str:
    """Return a message with the hint below it, behind ``Hint:``; further lines of the hint follow as they are."""
    return f"{message}\nHint: {hint}" if hint else message


class PipemagicError(Exception):
    """Base class of all exceptions; ``str()`` is the message, then the hint behind ``Hint:`` on a line of its own.

    Control characters are escaped.

    ``code`` is stable, for programs; ``hint`` describes the next step, for people.
    """

    code = "PIPEMAGIC"

    ran = 0
    """The number of statements of the same request that are known to have run before it."""

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.code

    def replace(self, **fields: Any) -> Self:
        """Return a copy with other fields."""
        other = type(self).__new__(type(self), fields.get("message", self.message))
        other.__dict__.update({**self.__dict__, **fields})
        return other

    def __str__(self) -> str:
        from pipemagic.text import escape_controls  # a server's message may quote data, and tracebacks are printed

        return escape_controls(with_hint(self.message, self.hint), keep="\n\t")


class ProtocolError(PipemagicError):
    """Bytes or values do not follow the protocol."""

    code = "PROTOCOL"


class UsageError(PipemagicError):
    """The line of a magic is wrong or incomplete; nothing ran."""

    code = "USAGE"


class StreamError(PipemagicError):
    """An operation is invalid in the current state of a stream."""

    code = "STREAM"


class UnsupportedError(PipemagicError):
    """The operation is not supported; nothing was changed."""

    code = "UNSUPPORTED"


class ParameterError(PipemagicError):
    """A parameter of a statement has no value, or one that SQL cannot store."""

    code = "PARAMETER"


class ConnectError(PipemagicError):
    """No connection to the server could be opened (refused, TLS, unknown host); nothing was sent."""

    code = "CONNECT"


class AddressError(PipemagicError):
    """An address is invalid, or a token must not be sent to it."""

    code = "ADDRESS"


class UnknownOutcome(PipemagicError):
    """The request was sent and the response is incomplete: what ran is not known."""

    code = "UNKNOWN_OUTCOME"


class AnswerTimeout(UnknownOutcome):
    """The request was sent and the response did not arrive in time.

    ``code`` is ``unchanged`` if it is certain that nothing was changed.
    """

    unchanged = "TIMEOUT"


class InterruptedRequest(UnknownOutcome):
    """The user interrupted the kernel while a request was pending.

    ``answered`` is True if the response was complete, so the request has run; ``nothing_ran`` if the server
    refused it as busy, so nothing of it ran.
    """

    code = "INTERRUPTED"

    def __init__(
        self, message: str, *, hint: str = "", code: str = "", answered: bool = False, nothing_ran: bool = False
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.answered = answered
        self.nothing_ran = nothing_ran


class ServerError(PipemagicError):
    """The server refused a request; ``status`` is the HTTP status.

    ``retry_after`` is the number of seconds after which the server accepts the request again, None if unknown.
    """

    code = "SERVER"
    retry_after: float | None = None

    def __init__(self, message: str, *, status: int, hint: str = "", code: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.status = status


class AuthError(ServerError):
    """The token is missing, wrong, expired (401) or lacks a right (403)."""

    code = "AUTH"


class EncryptionKeyError(ServerError):
    """The encryption key of the database is missing or wrong."""

    code = "ENCRYPTION_KEY"


class NotFound(ServerError):
    """The database, group, organization or token does not exist, or is not accessible with this token (404)."""

    code = "NOT_FOUND"


class AlreadyExists(ServerError):
    """The name is taken (409)."""

    code = "ALREADY_EXISTS"


class BusyError(ServerError):
    """The server has no free connection (429), after the retries."""

    code = "BUSY"


class TransactionLost(PipemagicError):
    """The server rolled an open transaction back."""

    code = "TRANSACTION_LOST"


class StatementError(PipemagicError):
    """The database refused a statement. ``code`` is the server's code, or UNKNOWN_NAME.

    ``extended_code`` is the server's more specific code, such as SQLITE_CONSTRAINT_UNIQUE, '' if it sends none.
    ``index`` is the index of the statement in the request; ``sql`` its text; ``offset`` the position of
    the error in it, in UTF-8 bytes, if known. ``cell`` is the result of its cell until then
    (a `pipemagic.session.CellResult`), None outside of a cell.
    """

    code = "SQL"

    def __init__(
        self, message: str, *, hint: str = "", code: str = "", extended_code: str = "",
        index: int = 0, sql: str = "", offset: int | None = None, cell: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(message, hint=hint, code=code)
        self.extended_code = extended_code
        self.index = index
        self.sql = sql
        self.offset = offset
        self.cell = cell


class SessionError(PipemagicError):
    """The session cannot do this (no connection, unknown name, wrong option)."""

    code = "SESSION"


class UnknownName(PipemagicError):
    """The database has no table, view or column of that name.

    ``relation`` is the name of the missing table or view, '' for a column.
    """

    code = "UNKNOWN_NAME"

    def __init__(self, message: str, *, hint: str = "", relation: str = "") -> None:
        super().__init__(message, hint=hint)
        self.relation = relation


class TemplateError(PipemagicError):
    """The template of a cell could not be rendered; nothing was sent."""

    code = "TEMPLATE"


class PlotError(PipemagicError):
    """The data cannot be plotted in this way."""

    code = "PLOT"


class ReadOnlyError(PipemagicError):
    """A statement may write, and the connection is read-only; nothing was sent."""

    code = "READ_ONLY"


class ConfirmError(PipemagicError):
    """A statement would change or delete all rows of a table, and that was not confirmed; nothing was sent."""

    code = "CONFIRM"


class RulesError(PipemagicError):
    """Rows of a table violate rules.

    ``failures`` has for each rule the number of rows and the first of them (`pipemagic.explore.rule_checks.Failure`).
    """

    code = "RULES"

    def __init__(self, message: str, failures: tuple[Any, ...] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.failures = failures


class LoadError(PipemagicError):
    """A frame could not be loaded; the target table is unchanged.

    ``extended_code`` is the ``extended_code`` of the StatementError that ended the load, '' for another reason.
    ``columns`` are the names of the columns with values that cannot be stored, empty for another reason; ``declared``
    is the declared type that such values do not fit, '' if it is not the reason.
    """

    code = "LOAD"

    def __init__(
        self, message: str, *, hint: str = "", extended_code: str = "", columns: Iterable[str] = (), declared: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.extended_code = extended_code
        self.columns = tuple(columns)
        self.declared = declared


class TransferError(PipemagicError):
    """A database could not be imported or exported; nothing was changed."""

    code = "TRANSFER"


class ServiceError(PipemagicError):
    """The embedded service could not be started, found or stopped."""

    code = "SERVICE"
