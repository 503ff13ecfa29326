"""Where tokens come from: never from the line of a magic."""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipemagic.client.secrets import Secret
from pipemagic.configuration import open_at_once
from pipemagic.errors import SessionError

DATABASE_TOKENS = ("PIPEMAGIC_TOKEN", "TURSO_AUTH_TOKEN")
"""The variables that are looked at for a database token, in this order."""

PLATFORM_TOKENS = ("PIPEMAGIC_API_TOKEN", "TURSO_API_TOKEN")
"""The variables that are looked at for a platform token, in this order."""

API_URL = "PIPEMAGIC_API_URL"
"""The variable that names another management API than that of the embedded service."""

MOST_BYTES = 64 * 1024  # of a file with a token: what is longer is another file


@dataclass(frozen=True)
class Whence:
    """Where a database token lies, as the user said it: one of these, or nothing of it.

    ``env`` is an environment variable; ``file`` holds the token alone; ``keyring`` is a service in the keyring, in
    which the entry has the name of the address. ``remember`` puts a token that was asked for into the keyring.
    """

    env: str | None = None
    file: str | None = None
    keyring: str | None = None
    remember: bool = False

    def __post_init__(self) -> None:
        if sum(place is not None for place in (self.env, self.file, self.keyring)) > 1:
            raise SessionError(
                "the token can lie in one place only", hint="take one of --token-env, --token-file, --keyring"
            )

    @property
    def absolute_file(self) -> str | None:
        """The file, named so that it is found from every folder."""
        return None if self.file is None else str(at_home(self.file).absolute())

    def __bool__(self) -> bool:
        return bool(self.env or self.file or self.keyring)


class Environment:
    """The environment variables; the repr shows none of them, since some are tokens."""

    __slots__ = ("_variables",)

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    @property
    def variables(self) -> Mapping[str, str]:
        """All of them."""
        return self._variables

    def get(self, name: str) -> str | None:
        """Give a variable that is set and not empty, else None."""
        return self._variables.get(name) or None

    def token_variable(self, named: str | None, usual: Sequence[str]) -> str:
        """Give the name of the variable that `token` reads; the first of the ``usual`` where none is set."""
        return named or next((name for name in usual if self.get(name)), usual[0])

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

    def database_token(self, whence: Whence, entry: str) -> Secret | None:
        """Give the token for an address from where it is said to lie, else from the usual variables.

        None if nothing was said and no variable is set, or if the keyring has none yet and it is to be remembered.
        """
        if whence.file is not None:
            return from_file(Path(whence.file))
        if whence.keyring is not None:
            from pipemagic.session import keyrings

            return keyrings.get(whence.keyring, entry, missing_ok=whence.remember)
        return self.token(whence.env, DATABASE_TOKENS)


def at_home(path: str | Path) -> Path:
    """Put the home folder in the place of ``~``, where there is such a user."""
    return Path(os.path.expanduser(path))


def from_file(path: Path) -> Secret:
    """Read the token that a file holds; SessionError if others may read that file, or if it holds anything else.

    A link is followed (mounted secrets are links); what counts is the file that is opened, and the link's owner.
    """
    path = at_home(path)
    try:
        _refuse_foreign(path, path.lstat())
        with open_at_once(path) as file:
            _refuse_open_to_others(path, os.fstat(file.fileno()))
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SessionError(
            f"the token file {path} cannot be read: {error.strerror}", hint="the file holds the token and nothing else"
        ) from None
    except ValueError:
        raise SessionError("no file has such a name", hint="name a file that holds the token alone") from None
    return Secret(_only_token(path, data))


def _refuse_foreign(path: Path, about: os.stat_result) -> None:
    if sys.platform != "win32" and about.st_uid not in (os.getuid(), 0):
        raise SessionError(
            f"the token file {path} belongs to somebody else, who can put another token there",
            hint=f"copy it: install -m 600 {path} ~/token",
        )


def _refuse_open_to_others(path: Path, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise SessionError(f"the token file {path} is no file", hint="name a file that holds the token alone")
    _refuse_foreign(path, about)
    if sys.platform != "win32" and about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SessionError(f"the token file {path} is open to others", hint=f"chmod 600 {path}")


def _only_token(path: Path, data: bytes) -> str:
    words = data[: MOST_BYTES + 1].removeprefix(codecs.BOM_UTF8).split()
    if not words:
        raise SessionError(f"the token file {path} is empty", hint="put the token into it, on one line")
    if len(words) > 1 or len(data) > MOST_BYTES or not words[0].isascii():
        raise SessionError(
            f"the token file {path} holds more than a token", hint="put the token alone into it, on one line"
        )
    return words[0].decode("ascii")
