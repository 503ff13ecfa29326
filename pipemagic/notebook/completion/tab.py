"""One press of Tab: which part of the cell is SQL, and what the session knows for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipemagic.notebook.arguments import Arguments
from pipemagic.notebook.completion import lines, sql
from pipemagic.notebook.completion.sql import Answer
from pipemagic.notebook.options import OPTIONS

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext

    from pipemagic.explore.shapes import Shape
    from pipemagic.notebook.magics import PipeMagics
    from pipemagic.session import Connection, Session

_CELL = re.compile(r"\s*%%sql(?=\s|\Z)")
_LINE = re.compile(r"\s*(?:[^\W\d]\w*\s*=\s*)?%(sql|pipedb)(?=\s|\Z)")  # also x = %sql ...


@dataclass(frozen=True)
class MagicText:
    """The text of one of the magics: its line after the name, and the body of the cell below it.

    ``marker`` is the name as it stands, with its percent signs. ``at`` is the offset of the cursor after it, below 0 if
    the cursor is in the name or before it.
    """

    marker: str
    line: str
    body: str
    at: int

    @property
    def name(self) -> str:
        """The name of the magic."""
        return self.marker.lstrip("%")

    @property
    def on_line(self) -> bool:
        """Whether the cursor is on the line of the magic."""
        return self.at <= len(self.line)


def magic_at(text: str, row: int, column: int) -> MagicText | None:
    """Find the magic whose text the cursor is in; None if it is none of ours."""
    rows = text.split("\n")
    start = next((number for number, one in enumerate(rows) if one.strip()), 0)
    if (head := _CELL.match(rows[start])) and row >= start:
        line, below = rows[start][head.end() :], rows[start + 1 :]
        if row == start:
            at = column - head.end()
        else:
            at = len(line) + 1 + sum(len(one) + 1 for one in rows[start + 1 : row]) + column
        return MagicText("%%sql", line, "\n".join(below), at)
    if match := _LINE.match(rows[row]):
        return MagicText(f"%{match[1]}", rows[row][match.end() :], "", column - match.end())
    return None


class Tab:
    """One press of Tab. The session is looked at only if there is one by now."""

    def __init__(self, magics: PipeMagics) -> None:
        self.magics = magics

    @property
    def session(self) -> Session | None:
        """The session of the shell, None before its first use."""
        found: Session | None = self.magics.__dict__.get("session")
        return found

    def answer(self, context: CompletionContext) -> Answer | None:
        """Give what to offer; None if the cursor is in none of our magics."""
        magic = magic_at(context.full_text, context.cursor_line, context.cursor_position)
        if magic is None or magic.at <= 0:
            return None
        if magic.name == "pipedb":
            return self._pipedb(magic.line[: magic.at], magic.line[magic.at :])
        if magic.on_line:
            return self._sql_line(magic.line, magic.at, magic.body)
        args, rest = leading(f"{magic.line}\n")
        return self._sql(rest + magic.body, magic.at - len(magic.line) - 1 + len(rest), args)

    def _sql_line(self, line: str, at: int, body: str) -> Answer:
        """Complete the options at the beginning of a line, or the SQL after them."""
        args, rest = leading(line[:at])
        typed = lines.read(line[:at])
        _, _, waiting = lines.taken(typed.words, OPTIONS)
        started = len(line[:at]) - len(rest)
        if waiting is not None or typed.fragment.startswith("-") or not rest:
            answer = lines.complete(line[:at], (), OPTIONS, self._names(args), line[at:])
            if rest or waiting is not None or typed.fragment:
                return answer
            starts = self._sql("", 0, args)
            return Answer([*answer.offers, *starts.offers], answer.fragment)
        text = rest + line[at:]
        return self._sql(f"{text}\n{body}" if body else text, at - started, args)

    def _sql(self, text: str, at: int, args: Arguments) -> Answer:
        tables = self.tables(args.get("--on"))
        return sql.complete(text, at, tables, self._parameters(args))

    def _parameters(self, args: Arguments) -> list[str]:
        given = self.magics.user_ns.get(args.get("--params") or "")
        if isinstance(given, Mapping):
            return [key for key in given if isinstance(key, str)]
        return sorted(name for name, value in self._variables() if type(value).__name__ != "DataFrame")

    def _variables(self) -> Iterator[tuple[str, Any]]:
        return lines.variables(self.magics.user_ns, self.magics.shell.user_ns_hidden)

    def _pipedb(self, line: str, after: str) -> Answer:
        from pipemagic.notebook.commands import COMMANDS, DAILY
        from pipemagic.notebook.commands.topics import TOPICS

        on = lines.value_of("--on", lines.read(line).words)
        args = Arguments({"--on": on} if on else {})
        names = {**self._names(args), "column": lambda: self._columns_on(line, args)}
        commands = [COMMANDS[name] for name in dict.fromkeys([*DAILY, *COMMANDS])]
        about = {name: topic for name, (topic, _) in TOPICS.items()}
        return lines.complete_command(line, commands, about, names, after)

    def _columns_on(self, line: str, args: Arguments) -> Mapping[str, str]:
        """Return the columns of the tables that the line names, with their types."""
        named = {word.lower() for word in lines.read(line).words}
        tables = [one for one in self.tables(args.get("--on")) if one.name.lower() in named]
        return {name: type_ for table in tables for name, type_ in table.typed}

    def _names(self, args: Arguments) -> lines.Names:
        """Give what there is of each kind; nothing is asked of a server."""
        return {
            "connection": lambda: list(self.session.connections) if self.session else [],
            "target": self._targets,
            "table": lambda: sorted(shape.name for shape in self.tables(args.get("--on"))),
            "snippet": lambda: [one.name for one in self.session.snippets] if self.session else [],
            "profile": lambda: self.session.profiles.names() if self.session else [],
            "group": lambda: self._known("group"),
            "database": lambda: self._known("database"),
            "location": lambda: self._known("location"),
            "frame": lambda: sorted(name for name, one in self._variables() if type(one).__name__ == "DataFrame"),
            "dict": lambda: sorted(name for name, one in self._variables() if isinstance(one, Mapping)),
            "name": lambda: sorted(name for name, _ in self._variables()),
            "variable": lambda: sorted(name for name in os.environ if re.search("TOKEN|JWT|SECRET|KEY", name)),
        }

    def _targets(self) -> Iterable[str]:
        names = list(self.session.connections) if self.session else []
        profiles = self.session.profiles.names() if self.session else []
        return dict.fromkeys([*names, *profiles, *self._known("database")])

    def _known(self, kind: str) -> list[str]:
        return self.session.names(kind) if self.session else []

    def tables(self, on: str | None) -> list[Shape]:
        """Return what is known of the tables of a connection, by default of the current one."""
        connection = self._connection(on)
        return connection.schema.tables if connection is not None else []

    def _connection(self, name: str | None) -> Connection | None:
        if self.session is None:
            return None
        return self.session.connections.get(name or self.session.current or "")


def leading(line: str) -> tuple[Arguments, str]:
    """Read the options that stand at the beginning of a line, as far as they are right; never fails.

    Gives the rest of the line as it stands.
    """
    found, end = Arguments(), 0
    value_of = r"""("(?:[^"]|"")*"|'(?:[^']|'')*'|[^\s"']\S*)"""
    pattern = re.compile(rf"""\s*(--?[A-Za-z][\w-]*)(?:=({value_of})?)?(?=\s)""")
    while match := pattern.match(line, end):
        option = next((one for one in OPTIONS if match[1] in (one.flag, one.short)), None)
        end = match.end()
        if option is None or not option.value:
            continue
        value = match[2]
        if value is None:
            following = re.compile(rf"\s+{value_of}").match(line, end)
            if following is None:
                return found, ""
            end, value = following.end(), following[1]
        found.values[option.flag] = lines.plain(value)
    return found, line[end:].lstrip()
