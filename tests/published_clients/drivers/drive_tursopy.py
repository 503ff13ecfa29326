"""PyPI tursopy: calls any method of the client by its path, such as "db.create_database"."""

from __future__ import annotations

import contextlib
import sys
from operator import attrgetter
from typing import Any

import tursopy
from driver import drive


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


class Management:
    def __init__(self) -> None:
        self._client: Any = None

    def open(self, url: str, token: str) -> None:
        # The constructor of the package assigns the address of Turso to `base_url` and uses it.
        class Here(tursopy.TursoClient):
            base_url = property(lambda _: url, lambda *_: None)

        self._client = Here(platform_token=token)

    def ask(self, path: str, args: list[Any]) -> Any:
        with contextlib.redirect_stdout(sys.stderr):  # it prints some of its responses
            return plain(attrgetter(path)(self._client)(*args))


drive(Management())
