"""Where tokens come from: never from the line of a magic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipemagic.errors import SessionError

DATABASE_TOKENS = ("PIPEMAGIC_TOKEN", "TURSO_AUTH_TOKEN")
"""The variables that are looked at for a database token, in this order."""

PLATFORM_TOKENS = ("PIPEMAGIC_API_TOKEN", "TURSO_API_TOKEN")
"""The variables that are looked at for a platform token, in this order."""

API_URL = "PIPEMAGIC_API_URL"
"""The variable that names another management API than that of the embedded service."""


def find(environ: Mapping[str, str], named: str | None, usual: Sequence[str]) -> str | None:
    """Give the token in the variable ``named``, which then must be there, else in the first of the ``usual``."""
    if named is None:
        return next((environ[name] for name in usual if environ.get(name)), None)
    if not named.isidentifier():
        # Not repeated: what is no name may be the token itself.
        raise SessionError(
            "--token-env takes the name of an environment variable, not the token",
            hint="put the token into a variable, for example MY_TOKEN, and write --token-env MY_TOKEN",
        )
    if not environ.get(named):
        raise SessionError(f"the environment variable {named} is not set")
    return environ[named]
