"""Completions, and the names that a session knows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from textwrap import shorten
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pipemagic.explore.sqlite_reference import is_displayable
from pipemagic.notebook.arguments import Option, ParsedArguments, assign, given_values, split
from pipemagic.notebook.line_variables import name_in_braces, text_of

if TYPE_CHECKING:
    from pipemagic.explore.schema import Relation
    from pipemagic.notebook.magics import PipeMagics
    from pipemagic.session import Session

MOST = 200
"""Maximum number of completions; front ends become slow with more."""

WIDTH = 64
"""Maximum length of a description; Shift+Tab shows the whole text."""

_ON = Option("--on", "the connection", "NAME")
_NOT_VARIABLES = {"In", "Out", "exit", "quit", "get_ipython", "open"}

NamesByKind = Mapping[str, Callable[[], Iterable[str]]]
"""Functions that return the names of a kind (``connection``, ``table``, ...); a mapping has their details."""


@dataclass(frozen=True)
class Completion:
    """A completion: ``text`` replaces the typed text, ``kind`` is shown next to it, ``name`` is matched.

    ``detail`` is shown after the kind: the type of a column, the description of a command or option.
    """

    text: str
    kind: str
    name: str = ""
    detail: str = ""

    @property
    def description(self) -> str:
        """The kind and detail in one line."""
        if not is_displayable(self.detail):
            return self.kind
        between = " " if self.kind == "column" else ": "
        return shorten(f"{self.kind}{between}{self.detail}", WIDTH, placeholder=" ...")


@dataclass(frozen=True)
class Completions:
    """The completions, and the text before the cursor that they replace."""

    items: list[Completion]
    fragment: str = ""


def _codes() -> list[str]:
    """Return the codes of locations, for --here before the first service runs."""
    from pipemagic.geography import NAMES

    return list(NAMES)


def matching(completions: Iterable[Completion], typed: str) -> list[Completion]:
    """Return the completions that match, in their order: first by prefix, then names that contain the text."""
    lowered = typed.lower()
    begin: dict[str, Completion] = {}
    middle: dict[str, Completion] = {}
    for completion in completions:
        name = (completion.name or completion.text).lower()
        if name.startswith(lowered):
            begin.setdefault(completion.text, completion)
        elif len(lowered) > 1 and completion.kind in ("table", "view", "column", "DataFrame") and lowered in name:
            middle.setdefault(completion.text, completion)
    return [*begin.values(), *(completion for text, completion in middle.items() if text not in begin)][:MOST]


class KnownNames:
    """The names that the session of a shell knows. Reading them sends no request and creates no session."""

    def __init__(self, magics: PipeMagics) -> None:
        self._magics = magics

    @property
    def session(self) -> Session | None:
        """The session, or None before its first use."""
        session: Session | None = self._magics.__dict__.get("session")
        return session

    def tables(self, on: str | None) -> list[Relation]:
        """Return the tables of a connection, by default the current one."""
        if self.session is None:
            return []
        connection = self.session.connections.get(self._text(on or self.session.current or ""))
        return connection.schema.tables if connection is not None else []

    def relations(self, on: str | None, text: str) -> list[Relation]:
        """Return the tables of a connection and the frames that a statement can read; a table hides a frame.

        A frame has columns if the text contains its name. No data of a frame is read.
        """
        tables = self.tables(on)
        if self._magics.settings.frames == "off":
            return tables
        from pipemagic.explore.schema import Relation
        from pipemagic.frames.any_frame import typed_columns

        hidden, words = {table.name.lower() for table in tables}, set(re.findall(r"\w+", text))
        names = [name for name in self._frames() if name.lower() not in hidden]
        return tables + [
            Relation.of(name, typed_columns(self._magics.user_ns[name]) if name in words else (), "DataFrame")
            for name in names
        ]

    def columns(self, line: str, on: str | None) -> dict[str, str]:
        """Return the columns of the tables that the line names, with their types."""
        named = {self._text(word.text).lower() for word in split(line)}
        tables = [table for table in self.tables(on) if table.name.lower() in named]
        return {name: type_ for table in tables for name, type_ in table.typed}

    def parameters(self, args: ParsedArguments) -> list[str]:
        """Return the names of the values that SQL can use as parameters."""
        params: Any = self._magics.user_ns.get(args.get("--params") or "")
        if issubclass(type(params), Mapping):
            return [key for key in params if isinstance(key, str)]
        frames = set(self._frames())
        return sorted(name for name, _ in self._variables() if name not in frames)

    def by_kind(self, on: str | None) -> NamesByKind:
        """Return the names by kind, with the tables of a connection, by default the current one."""
        names: dict[str, Callable[[], Iterable[str]]] = {
            "table": lambda: sorted(table.name for table in self.tables(on)),
            "frame": lambda: sorted(self._frames()),
            "dict": lambda: sorted(name for name, value in self._variables() if issubclass(type(value), Mapping)),
            "text": lambda: sorted(name for name, value in self._variables() if _has_text(value)),
            "name": lambda: sorted(name for name, _ in self._variables()),
            "environment variable": lambda: sorted(
                name for name in os.environ if re.search("TOKEN|JWT|SECRET|KEY", name)
            ),
            "location": lambda: (self.session.names("location") if self.session else []) or _codes(),
        }
        for magics in self._magics.of_plugins:
            names |= magics.names()
        if (session := self.session) is not None:
            names |= {kind: partial(session.names, kind) for kind in ("group", "database")}
            names |= {
                "connection": lambda: list(session.connections),
                "profile": session.profiles.names,
                "snippet": lambda: [snippet.name for snippet in session.snippets],
                "target": lambda: dict.fromkeys(
                    [*session.connections, *session.profiles.names(), *session.names("database")]
                ),
            }
        return names

    def _text(self, word: str) -> str:
        """Return the text of a word; for ``{name}``, the text of the variable."""
        value = self._magics.user_ns.get(name_in_braces(word))
        return (text_of(value) or word) if _has_text(value) else word

    def _frames(self) -> Iterator[str]:
        from pipemagic.frames.any_frame import is_frame  # msgspec, too, is not imported before it is needed

        return (name for name, value in self._variables() if is_frame(value))

    def _variables(self) -> Iterator[tuple[str, Any]]:
        """Return the user's own variables: no private names, names of IPython, modules, functions or classes.

        No code of a value runs, not even the ``__class__`` that `isinstance` would read.
        """
        hidden = {*_NOT_VARIABLES, *self._magics.shell.user_ns_hidden}
        for name, value in list(self._magics.user_ns.items()):
            own = not name.startswith("_") and name not in hidden
            if own and not issubclass(type(value), ModuleType) and not callable(value):
                yield name, value


def _has_text(value: object) -> bool:
    """Return True for a str, an int and a path; no code of the value runs."""
    kind = type(value)
    return issubclass(kind, str | int | Integral | os.PathLike) and not issubclass(kind, bool)


def connection_of(line: str) -> str | None:
    """Return the value of ``--on`` on the line of any command, or None."""
    on: str | None = given_values(assign(split(line), (), (_ON,))).get("--on")
    return on
