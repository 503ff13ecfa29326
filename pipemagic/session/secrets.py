"""Where tokens come from: never from the line of a magic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipemagic.client.secrets import Secret
from pipemagic.errors import SessionError

DATABASE_TOKENS = ("PIPEMAGIC_TOKEN", "TURSO_AUTH_TOKEN")
"""The variables that are looked at for a database token, in this order."""

PLATFORM_TOKENS = ("PIPEMAGIC_API_TOKEN", "TURSO_API_TOKEN")
"""The variables that are looked at for a platform token, in this order."""

API_URL = "PIPEMAGIC_API_URL"
"""The variable that names another management API than that of the embedded service."""


class Environment:
    """The environment variables; the repr shows none of them, since some are tokens."""

    __slots__ = ("_variables",)

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def get(self, name: str) -> str | None:
        """Give a variable that is set and not empty, else None."""
        return self._variables.get(name) or None

    def token(self, named: str | None, usual: Sequence[str]) -> Secret | None:
        """Give the token in the variable ``named``, which then must be there, else in the first of the ``usual``."""
        if named is None:
            return next((Secret(found) for name in usual if (found := self.get(name))), None)
        if not named.isidentifier():
            # Not repeated: what is no name may be the token itself.
            raise SessionError(
                "--token-env takes the name of an environment variable, not the token",
                hint="put the token into a variable, for example MY_TOKEN, and write --token-env MY_TOKEN",
            )
        found = self.get(named)
        if found is None:
            raise SessionError(f"the environment variable {named} is not set")
        return Secret(found)
