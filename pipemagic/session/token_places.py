"""Where a new token is put, so that no cell, output or history holds it."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Protocol

from pipemagic.client.secrets import Secret
from pipemagic.errors import SessionError
from pipemagic.session.secrets import at_home

REPLACE = "--replace puts the new token in its place"


class Place(Protocol):
    """Where a token goes: looked at first, so that none is made in vain."""

    def check(self) -> None:
        """Raise SessionError if it is taken, or cannot be."""

    def put(self, token: Secret) -> None:
        """Put the token there."""


class Variable:
    """A variable of this process's environment, which what it starts later inherits."""

    def __init__(self, name: str, *, replace: bool = False, into: MutableMapping[str, str] = os.environ) -> None:
        self._name = name
        self._replace = replace
        self._into = into

    def __str__(self) -> str:
        return f"the variable {self._name}"

    def check(self) -> None:
        """Raise SessionError for what is no name, and for one that is set already."""
        if not (self._name.isascii() and self._name.isidentifier()):
            raise SessionError("that is no name of an environment variable", hint="take one like FLIGHTS_TOKEN")
        if self._name in self._into and not self._replace:
            raise SessionError(f"the variable {self._name} is set already", hint=REPLACE)

    def put(self, token: Secret) -> None:
        """Set the variable."""
        self._into[self._name] = str(token)


class TokenFile:
    """A file that holds the token alone, and that only its owner may read."""

    def __init__(self, path: str | Path, *, replace: bool = False) -> None:
        self._path = at_home(path)
        self._replace = replace

    def __str__(self) -> str:
        return f"the file {self._path}"

    def check(self) -> None:
        """Raise SessionError if the file is there already, or its folder is not."""
        try:
            there, folder = os.path.lexists(self._path), self._path.parent.is_dir()
        except ValueError:
            raise SessionError("no file has such a name") from None
        if there and not (self._replace and self._path.is_file()):
            hint = REPLACE if self._path.is_file() else "name a file in it"
            raise SessionError(f"{self._path} is there already", hint=hint)
        if not folder:
            raise SessionError(f"there is no folder {self._path.parent}", hint="make it, or name another file")

    def put(self, token: Secret) -> None:
        """Write the file, whole or not at all."""
        from pipemagic.service.files import write_private

        data = f"{token}\n".encode()
        try:
            if self._replace:
                write_private(self._path, data)
                return
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
        except OSError as error:
            raise SessionError(f"{self._path} cannot be written: {error.strerror}") from None
