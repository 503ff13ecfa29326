"""The exceptions of PEP 249, and which of them each exception of pipemagic becomes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from pipemagic import errors
from pipemagic.errors import InterruptedRequest, PipemagicError, StatementError
from pipemagic.hrana import faults


class Warning(Exception):  # noqa: A001 - the name in PEP 249
    """An important warning; nothing raises it."""


class Error(Exception):
    """Base class of the errors of `pipemagic.dbapi`; the exception of pipemagic is its ``__cause__``, if any.

    ``code`` and ``hint`` are those of that exception: see `pipemagic.errors.PipemagicError`. ``sqlite_errorname`` is
    SQLite's extended result code by its name, such as ``SQLITE_CONSTRAINT_UNIQUE``, and ``sqlite_errorcode`` its
    number, as in the sqlite3 module; None if SQLite did not report the error.
    """

    code = ""
    hint = ""
    sqlite_errorname: str | None = None
    sqlite_errorcode: int | None = None


class InterfaceError(Error):
    """The server, or the program, does not follow the interface."""


class DatabaseError(Error):
    """An error of the database."""


class DataError(DatabaseError):
    """A value is too large or out of range."""


class OperationalError(DatabaseError):
    """The database cannot do this now: no connection, no table of that name, a lost transaction, a wrong token."""


class IntegrityError(DatabaseError):
    """A constraint failed, such as UNIQUE or FOREIGN KEY."""


class InternalError(DatabaseError):
    """SQLite reports an internal error."""


class ProgrammingError(DatabaseError):
    """The program makes a mistake: parameters without values, a closed cursor, several statements at a time."""


class NotSupportedError(DatabaseError):
    """The server does not support this."""


_CLASSES: dict[type[PipemagicError], type[Error]] = {
    errors.AddressError: InterfaceError,
    errors.LoadError: DatabaseError,
    errors.ParameterError: ProgrammingError,
    errors.ProtocolError: InterfaceError,
    errors.SessionError: InterfaceError,
    errors.StreamError: ProgrammingError,
    errors.UnsupportedError: NotSupportedError,
    errors.UsageError: ProgrammingError,
}
"""The classes of errors that are not an `OperationalError`, and not of a statement."""

_BY_RESULT_CODE: dict[str, type[Error]] = {
    "SQLITE_CONSTRAINT": IntegrityError,
    "SQLITE_CORRUPT": DatabaseError,
    "SQLITE_INTERNAL": InternalError,
    "SQLITE_MISMATCH": IntegrityError,
    "SQLITE_MISUSE": InterfaceError,
    "SQLITE_NOTADB": DatabaseError,
    "SQLITE_NOTFOUND": InternalError,
    "SQLITE_RANGE": InterfaceError,
    "SQLITE_TOOBIG": DataError,
    faults.RESPONSE_TOO_LARGE: DataError,
    "SQL_MANY_STATEMENTS": ProgrammingError,
}
"""The classes by primary result code, as in the sqlite3 module; OperationalError for others."""

_GENERIC = {faults.SQL_INPUT_ERROR, faults.SQL_PARSE_ERROR, errors.UnknownName.code, "SQLITE_UNKNOWN"}
"""The codes of servers, and of pipemagic, for what SQLite reports as SQLITE_ERROR; the last one is sqld's."""


def converted(error: PipemagicError) -> Error:
    """Return the error of PEP 249 for one of pipemagic, with its text, code and hint."""
    name = _result_code(error)
    if isinstance(error, StatementError):
        code = name if error.code.startswith("SQLITE_") or error.extended_code else error.code
        kind = _BY_RESULT_CODE.get("_".join(code.split("_")[:2]), _BY_RESULT_CODE.get(code, OperationalError))
    else:
        kinds = (_CLASSES[base] for base in type(error).__mro__ if base in _CLASSES)
        kind = next(kinds, OperationalError)
    other = kind(str(error))
    other.code, other.hint = error.code, error.hint
    other.sqlite_errorname, other.sqlite_errorcode = name or None, getattr(sqlite3, name, None)
    other.__cause__ = error
    return other


def _result_code(error: PipemagicError) -> str:
    """Return the name of SQLite's result code, as specific as the server reports it; '' for other errors."""
    if isinstance(error, errors.ReadOnlyError):
        return "SQLITE_READONLY"
    if not isinstance(error, StatementError):
        return ""
    if error.code in _GENERIC and not error.extended_code:
        return "SQLITE_ERROR"
    name = error.extended_code or error.code
    return name if name.startswith("SQLITE_") else ""  # a limit of the server has a code of its own


@contextmanager
def converting() -> Iterator[None]:
    """Raise the errors of pipemagic in a block as those of PEP 249, and an interrupt as KeyboardInterrupt."""
    try:
        yield
    except InterruptedRequest as error:
        raise KeyboardInterrupt(str(error)) from error
    except PipemagicError as error:
        raise converted(error) from error
