"""One press of Tab: which part of the cell is SQL, and what the session knows for it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
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
_LINE = re.compile(r"\s*(?:[^\W\d]\w*\s*=\s*)?%(sql|pipedb)\s")  # also x = %sql ...


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
        text = context.full_text
        rows = text.split("\n")
        before = rows[context.cursor_line][: context.cursor_position]
        start = next((number for number, row in enumerate(rows) if row.strip()), 0)
        if _CELL.match(rows[start]) and context.cursor_line >= start:
            return self._cell(rows, start, context.cursor_line, before)
        if match := _LINE.match(before):
            rest = before[match.end() :]
            if match[1] == "pipedb":
                return self._pipedb(rest)
            return self._sql_line(rest + context.line_with_cursor[context.cursor_position :], len(rest), "")
        return None

    def _cell(self, rows: list[str], start: int, line: int, before: str) -> Answer | None:
        head = _CELL.match(rows[start])
        assert head is not None
        first, body = rows[start][head.end() :], "\n".join(rows[start + 1 :])
        if line == start:
            at = len(before) - head.end()
            return None if at <= 0 else self._sql_line(first, at, body)
        args, rest = _leading(first)
        at = sum(len(row) + 1 for row in rows[start + 1 : line]) + len(before)
        return self._sql(f"{rest}\n{body}", len(rest) + 1 + at, args)

    def _sql_line(self, line: str, at: int, body: str) -> Answer:
        """Complete the options at the beginning of a line, or the SQL after them."""
        args, rest = _leading(line[:at])
        typed = lines.read(line[:at])
        _, _, waiting = lines._taken(typed.words, OPTIONS)
        started = len(line[:at]) - len(rest)
        if waiting is not None or typed.fragment.startswith("-") or not rest:
            answer = lines.complete(line[:at], (), OPTIONS, self._names(args))
            if rest or waiting is not None or typed.fragment:
                return answer
            starts = self._sql("", 0, args)
            return Answer([*answer.offers, *starts.offers], answer.fragment)
        text = rest + line[at:]
        return self._sql(f"{text}\n{body}" if body else text, at - started, args)

    def _sql(self, text: str, at: int, args: Arguments) -> Answer:
        tables = self._tables(args.get("--on"))
        return sql.complete(text, at, tables, self._parameters(args))

    def _parameters(self, args: Arguments) -> list[str]:
        given = self.magics.user_ns.get(args.get("--params") or "")
        if isinstance(given, Mapping):
            return [key for key in given if isinstance(key, str)]
        return sorted(name for name, value in self._variables() if type(value).__name__ != "DataFrame")

    def _variables(self) -> Iterator[tuple[str, Any]]:
        return lines.variables(self.magics.user_ns, self.magics.shell.user_ns_hidden)

    def _pipedb(self, line: str) -> Answer:
        from pipemagic.notebook.commands import COMMANDS
        from pipemagic.notebook.commands.helping import topics

        on = re.search(r"--on[= ]+(\S+)", line)
        args = Arguments({"--on": on[1]} if on else {})
        names = {**self._names(args), "column": lambda: self._columns_on(line, args)}
        return lines.complete_command(line, COMMANDS, topics(), names)

    def _columns_on(self, line: str, args: Arguments) -> list[str]:
        """Give the columns of the tables that the line names."""
        named = {word.lower() for word in lines.read(line).words}
        return [name for one in self._tables(args.get("--on")) if one.name.lower() in named for name in one.columns]

    def _names(self, args: Arguments) -> lines.Names:
        """Give what there is of each kind; nothing is asked of a server."""
        return {
            "connection": lambda: list(self.session.connections) if self.session else [],
            "target": self._targets,
            "table": lambda: sorted(shape.name for shape in self._tables(args.get("--on"))),
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
        return self.session.known.names(kind) if self.session else []

    def _tables(self, on: str | None) -> list[Shape]:
        connection = self._connection(on)
        return connection.schema.tables if connection is not None else []

    def _connection(self, name: str | None) -> Connection | None:
        if self.session is None:
            return None
        return self.session.connections.get(name or self.session.current or "")


def _leading(line: str) -> tuple[Arguments, str]:
    """Read the options that stand at the beginning of a line, as far as they are right; never fails.

    Gives the rest of the line as it stands.
    """
    found, end = Arguments(), 0
    pattern = re.compile(r"""\s*(--?[A-Za-z][\w-]*)(?:=(\S*))?(?=\s)""")
    while match := pattern.match(line, end):
        option = next((one for one in OPTIONS if match[1] in (one.flag, one.short)), None)
        end = match.end()
        if option is None or not option.value:
            continue
        value = match[2]
        if value is None:
            following = re.compile(r"""\s+("(?:[^"]|"")*"|'(?:[^']|'')*'|\S+)""").match(line, end)
            if following is None:
                return found, ""
            end, value = following.end(), following[1].strip("'\"")
        found.values[option.flag] = value
    return found, line[end:].lstrip()
