"""pipemagic: SQL over HTTP for notebooks.

In a notebook: ``%load_ext pipemagic``, ``%pipedb connect``, ``%%sql``. In any Python program: ``pipemagic.connect(url,
token=...)`` and ``pipemagic.management(url, token=...)``. Large packages are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipemagic.version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from pipemagic import errors, panels
    from pipemagic.client.database import Database, DatabaseTransaction, connect
    from pipemagic.client.result import Result
    from pipemagic.errors import (
        AddressError,
        AlreadyExists,
        AnswerTimeout,
        AuthError,
        BusyError,
        CheckError,
        ConfirmError,
        ConnectError,
        InterruptedRequest,
        LoadError,
        NotFound,
        ParameterError,
        PipemagicError,
        PlotError,
        ProtocolError,
        ReadOnlyError,
        ServerError,
        ServiceError,
        SessionError,
        StatementError,
        StreamError,
        TemplateError,
        TransactionLost,
        TransferError,
        UnknownName,
        UnknownOutcome,
        UnsupportedError,
        UsageError,
    )
    from pipemagic.management_api.client import Management, management


__all__ = [
    "AddressError",
    "AlreadyExists",
    "AnswerTimeout",
    "AuthError",
    "BusyError",
    "CheckError",
    "ConfirmError",
    "ConnectError",
    "Database",
    "DatabaseTransaction",
    "InterruptedRequest",
    "LoadError",
    "Management",
    "NotFound",
    "ParameterError",
    "PipemagicError",
    "PlotError",
    "ProtocolError",
    "ReadOnlyError",
    "Result",
    "ServerError",
    "ServiceError",
    "SessionError",
    "StatementError",
    "StreamError",
    "TemplateError",
    "TransactionLost",
    "TransferError",
    "UnknownName",
    "UnknownOutcome",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "connect",
    "errors",
    "load_ipython_extension",
    "management",
    "panels",
    "unload_ipython_extension",
]

_HOMES = {
    "Database": "pipemagic.client.database",
    "DatabaseTransaction": "pipemagic.client.database",
    "Management": "pipemagic.management_api.client",
    "Result": "pipemagic.client.result",
    "connect": "pipemagic.client.database",
    "management": "pipemagic.management_api.client",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'pipemagic' has no attribute {name!r}")
    if name in ("errors", "panels"):
        return import_module(f"pipemagic.{name}")
    value = getattr(import_module(_HOMES.get(name, "pipemagic.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%pipedb``, ``%sql`` and ``%%sql`` to IPython (``%load_ext pipemagic``)."""
    from pipemagic.notebook import supported_ipython

    with supported_ipython():
        from pipemagic.notebook.extension import load
    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Remove the magics from IPython and close their connections (``%unload_ext pipemagic``).

    IPython also calls it for ``%reload_ext pipemagic``: then nothing is closed, and the session is kept.
    """
    from pipemagic.notebook.extension import unload

    unload(shell)
