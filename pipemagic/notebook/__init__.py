"""Magics, completion and panels for notebooks, and the check that IPython is new enough for them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import IPython

from pipemagic.errors import with_hint
from pipemagic.version import LOWEST_IPYTHON


@contextmanager
def supported_ipython() -> Iterator[None]:
    """Run a block that imports from IPython; raise an ImportError that names both versions if a restart is needed.

    An installation replaces files, but a running kernel keeps the modules that it has imported.
    """
    running = IPython.__version__
    if IPython.version_info[:2] < _numbers(LOWEST_IPYTHON):
        raise _unsupported(f"pipemagic requires IPython {LOWEST_IPYTHON} or later, but this kernel runs {running}")
    try:
        yield
    except ImportError as error:
        if _installed() == running:
            raise
        raise _unsupported(f"this kernel still runs IPython {running}: {error}") from error


def _installed() -> str:
    """Return the installed version; a running kernel has an earlier one if the files were replaced since."""
    from importlib import metadata

    return metadata.version("ipython")


def _unsupported(message: str) -> ImportError:
    """Return the error with the next step, which IPython shows without a traceback."""
    installed = _installed()
    wanted, restart = f"ipython>={LOWEST_IPYTHON}", "restart the kernel"
    fits = _numbers(installed) >= _numbers(LOWEST_IPYTHON)
    if "google.colab" in sys.modules:
        wanted, restart = f"{wanted},<9", "restart the runtime (Runtime > Restart session)"
        fits = fits and _numbers(installed) < (9,)  # Colab's own kernel does not start with IPython 9
    if not fits:
        hint = f'run %pip install "{wanted}", {restart} and run %load_ext pipemagic again'
    else:
        hint = f"IPython {installed} is installed; {restart} and run %load_ext pipemagic again"
    error = ImportError(with_hint(message, hint))
    lines = f"ImportError: {error}".split("\n")
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
    return error


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])  # also of 9.0b1
