"""pipemagic: SQL over HTTP for notebooks.

In a notebook: ``%load_ext pipemagic``, ``%pipedb connect``, ``%%sql``, and ``pipemagic.current()`` for its connection.
In any Python program: ``pipemagic.connect(url, token=...)`` and ``pipemagic.management(url, token=...)``. Large
packages are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipemagic import errors
from pipemagic.errors import *  # noqa: F403
from pipemagic.version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from pipemagic import dbapi, panels
    from pipemagic.client.database import Database, DatabaseTransaction, connect
    from pipemagic.client.result import Result
    from pipemagic.dbapi.notebook import current
    from pipemagic.management_api.client import Management, management

__all__ = [
    "Database", "DatabaseTransaction", "Management", "Result", "__version__", "connect", "current", "dbapi", "errors",
    "load_ipython_extension", "management", "panels", "unload_ipython_extension",
]  # fmt: skip
__all__ += errors.__all__

_MODULES = ("client.database", "client.result", "management_api.client", "dbapi.notebook")
"""The modules that define the names which are imported on first use."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in __all__:
        raise AttributeError(f"module 'pipemagic' has no attribute {name!r}")
    if name in ("dbapi", "panels"):
        return import_module(f"pipemagic.{name}")
    modules = (import_module(f"pipemagic.{module}") for module in _MODULES)
    value = next(getattr(module, name) for module in modules if hasattr(module, name))
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
