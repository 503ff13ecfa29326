"""Ask the user for a secret, where there is somebody to ask."""

from __future__ import annotations

import getpass
import threading

from IPython.core.error import StdinNotImplementedError

from pipemagic.errors import SessionError


def ask_token(where: str) -> str:
    """Ask for a database token without showing it; SessionError where no one can be asked."""
    nobody = SessionError(
        f"{where} wants a token and nobody can be asked for it here",
        hint="put it into the environment variable PIPEMAGIC_TOKEN, or into another one named with --token-env",
    )
    if threading.current_thread() is not threading.main_thread():
        raise nobody  # a panel connects: the kernel's channel for questions belongs to cells
    try:  # by its module: kernels put their own function there
        return getpass.getpass(f"Token for {where}: ")
    except (StdinNotImplementedError, EOFError, OSError):
        raise nobody from None
