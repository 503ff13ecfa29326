"""Show help at the cursor (Shift+Tab): tables, columns, functions, options, commands.

It uses the names known to completion, and sends no requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from IPython.core.completer import position_to_cursor

from pipemagic.explore import sqlite_reference
from pipemagic.explore.ddl import create_statements
from pipemagic.explore.query import TableReference
from pipemagic.explore.schema import Column, Relation
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.explore.token_tree import Group
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option, Positional, kind_of
from pipemagic.notebook.completion.candidates import KnownNames, connection_of
from pipemagic.notebook.completion.magic_line import MagicText, magic_at
from pipemagic.notebook.completion.sql_context import CursorContext, name_at
from pipemagic.notebook.line_variables import name_in_braces, text_of
from pipemagic.notebook.sql_options import OPTIONS
from pipemagic.sql import Token
from pipemagic.text import escape_controls, has_secret, plural, text_table

if TYPE_CHECKING:
    from pipemagic.notebook.magics import PipeMagics
    from pipemagic.notebook.plugin_magics import Accepted

_KINDS = {"virtual": "virtual table", "common table": "common table expression"}
_MOST_TABLES = 12  # tables with a column of one name that are listed


@dataclass(frozen=True)
class Variable:
    """A notebook variable that is a value in SQL; ``params`` is the ``--params`` dict that contains it, or ''."""

    name: str
    params: str = ""


def inspect_cell(magics: PipeMagics, code: str, offset: int, *, full: bool = False) -> dict[str, str] | None:
    """Return the help at an offset as a MIME bundle, empty if nothing is known; None outside our magics.

    ``full`` adds the CREATE statements of a table, the whole help of a command, the source code of a variable.
    """
    magic = magic_at(magics, code, *position_to_cursor(code, min(offset, len(code))))
    if magic is None or magic.at < -len(magic.marker):
        return None
    detail = int(full)
    if magic.at <= 0:
        return _of_python(magics, magic.marker, detail)
    subject = Inspection(KnownNames(magics), magics.arguments_of_plugins, full=full).help_at(magic)
    if isinstance(subject, str):
        return {"text/plain": subject} if subject else {}
    if not subject.params:
        text = text_of(magics.user_ns.get(subject.name)) or ""
        if has_secret(text) or arguments.has_password(text):
            return {"text/plain": f"{subject.name}: an address with a token or a password"}
        return _of_python(magics, subject.name, detail)
    params = magics.user_ns.get(subject.params)
    if not isinstance(params, Mapping) or subject.name not in params:
        return {}
    return {"text/plain": f"{subject.params}[{subject.name!r}]: {type(params[subject.name]).__name__}"}


def _of_python(magics: PipeMagics, name: str, detail: int) -> dict[str, str]:
    try:
        inspect: Callable[..., dict[str, str]] = magics.shell.object_inspect_mime
        bundle = inspect(name, detail_level=detail)
    except KeyError:
        return {}
    return {"text/plain": bundle["text/plain"]}


class Inspection:
    """Finds the help at one position; ``full`` requests the full help."""

    def __init__(self, names: KnownNames, of_plugins: Mapping[str, Accepted], *, full: bool) -> None:
        self._known = names
        self._of_plugins = of_plugins
        self._full = full

    def help_at(self, magic: MagicText) -> str | Variable:
        """Return the help on the item at the cursor of a magic, '' if it is unknown."""
        if magic.name == "pipedb":
            return self._pipedb(magic.line, magic.at)
        if magic.marker in self._of_plugins:
            return self._of_plugin(magic)
        options, rest = arguments.leading_options(f"{magic.line}\n", OPTIONS)
        args = arguments.given_values(options)
        start = len(magic.line) + 1 - len(rest)
        if magic.at < start and magic.on_line:
            return self._argument(magic.line, magic.at, (), OPTIONS, args.get("--on"))
        text, at = rest + magic.body, max(magic.at - start, 0)
        help_ = _help_on_sql(text, at, self._known.relations(args.get("--on"), text), full=self._full)
        return Variable(help_.name, args.get("--params") or "") if isinstance(help_, Variable) else help_

    def _of_plugin(self, magic: MagicText) -> str | Variable:
        on = connection_of(magic.line)
        if magic.on_line:
            return self._argument(magic.line, magic.at, *self._of_plugins[magic.marker], on)
        return _help_on_sql(magic.body, magic.at - len(magic.line) - 1, self._known.tables(on), full=self._full)

    def _pipedb(self, line: str, at: int) -> str | Variable:
        from pipemagic.notebook.commands import COMMANDS
        from pipemagic.notebook.commands.help import command_help, topic_named

        here, before = arguments.argument_at(line, at, (), ())
        words = [assignment.word.text for assignment in before]
        if not words or words == ["help"]:
            if here.word.text in COMMANDS:
                return command_help(COMMANDS[here.word.text])
            topic = topic_named(here.word.text) if words else None
            return "" if topic is None else topic.text
        command = COMMANDS.get(words[0])
        if command is None:
            return ""
        end, on = before[0].word.end, connection_of(line)
        argument = self._argument(line[end:], at - end, command.positionals, command.options, on)
        return (
            f"{argument}\n\n{command_help(command)}"
            if isinstance(argument, str) and argument and self._full
            else argument
        )

    def _argument(
        self, line: str, at: int, positionals: Sequence[Positional], options: Sequence[Option], on: str | None
    ) -> str | Variable:
        """Return the help on an option, on the table or column that a word names, or the variable in braces."""
        here, _ = arguments.argument_at(line, at, positionals, options)
        if here.flag == "--help" and here.argument is None:
            return "--help\nshow the usage and the arguments"
        is_empty = not here.word.raw and isinstance(here.argument, Positional)
        if here.argument is None or is_empty or here.word.unclosed:
            return ""
        if name := name_in_braces(here.value or ""):
            return Variable(name)
        return self._named(here.argument, here.value or "", line, on) or f"{here.argument.label}\n{here.argument.help}"

    def _named(self, argument: Option | Positional, text: str, line: str, on: str | None) -> str:
        """Return the help on the table or column that an argument names, '' if it names none."""
        tables = self._known.tables(on)
        kind = kind_of(argument)
        if kind == "table":
            match = next((table for table in tables if table.name.lower() == text.lower()), None)
            return "" if match is None else _table_help(match, full=self._full)
        if kind == "column":
            on_line = {word.text.lower() for word in arguments.split(line)}
            requested = {word.strip().strip('"').lower() for word in text.split(",")}
            named = [table for table in tables if table.name.lower() in on_line]
            return "\n".join(
                _column_help(table, name) for table in named for name, _ in table.typed if name.lower() in requested
            )
        return ""


# -- SQL


def _help_on_sql(text: str, at: int, tables: Iterable[Relation], *, full: bool = False) -> str | Variable:
    """Return the help on the name at an offset, '' if it is unknown, or the variable that is a parameter there.

    ``tables`` are those of the database; ``full`` adds the CREATE statements of a table.
    """
    place = name_at(text, at, tables)
    if place is None:
        return ""
    context, token = place
    if token is not None and token.kind == "param":
        return Variable(token.text[1:])
    if token is not None and context.previous == "{" and context.group.word(context.at + 1) == "}":
        return Variable(token.text)
    help_ = _SqlHelp(context, full=full)
    return (help_.of_name(token) if token is not None else "") or help_.of_enclosing_call()


class _SqlHelp:
    """Help on the names at one position of SQL."""

    def __init__(self, context: CursorContext, *, full: bool) -> None:
        self._context, self._tables, self._query, self._full = context, context.tables, context.query, full
        self._group, self._at = context.group, context.at

    def of_name(self, token: Token) -> str:
        """Return the help on the name at the position, '' if nothing is known."""
        name, following = self._group.name(self._at), self._group.word(self._at + 1)
        if self._context.previous == ".":
            return self._qualified(name)
        if following == "." and (source := self._query.labelled(name)):
            return self._of_source(source)
        if self._context.wants_table:
            return self._of_table(name) or _of_function(name)
        if self._group.group(self._at + 1) is not None and (help_ := _of_function(name)):
            return help_
        if token.kind == "word" and name.upper() in sqlite_reference.KEYWORDS - sqlite_reference.UNRESERVED:
            return ""
        return self._of_column(name) or self._of_table(name)

    def of_enclosing_call(self) -> str:
        """Return the help on the function whose arguments include the position."""
        group = self._group
        while (parent := group.parent) is not None:
            if parent.is_name(group.index - 1) and (help_ := _of_function(parent.name(group.index - 1))):
                return help_
            group = parent
        return ""

    def _qualified(self, name: str) -> str:
        """Return the help on the name after a dot: a column, or a table after the name of a database."""
        if not self._group.is_name(self._at - 2):
            return ""
        if (source := self._context.owner) is not None:
            return _column_help(source.table, name)
        return self._of_table(name) or ("" if self._query.nearest else self._of_column(name))

    def _of_column(self, name: str) -> str:
        """Return the help on a column of the statement's tables, or else of any table."""
        tables: list[Relation | None] = [source.table for source in self._query.visible]
        if not tables:
            named = {word.lower() for word in _names(self._context.cursor.top)}
            relations = [*self._query.common.values(), *self._tables.values()]
            tables = [*([table for table in relations if table.name.lower() in named] or relations)]
        texts = list(dict.fromkeys(help_ for table in tables if (help_ := _column_help(table, name))))
        more = [f"... and {len(texts) - _MOST_TABLES} more tables"] if len(texts) > _MOST_TABLES else []
        return "\n".join([*texts[:_MOST_TABLES], *more])

    def _of_table(self, name: str) -> str:
        source = self._query.labelled(name)
        if source is not None:
            return self._of_source(source)
        relation = self._query.common.get(name.lower()) or self._tables.get(name.lower())
        return "" if relation is None else _table_help(relation, full=self._full)

    def _of_source(self, source: TableReference) -> str:
        if source.table is None:
            return ""
        alias = "" if source.table.name.lower() == source.label.lower() else source.label
        return _table_help(source.table, alias, full=self._full)


def _of_function(name: str) -> str:
    function = sqlite_reference.FUNCTIONS.get(name.lower())
    if function is None:
        return ""
    signature, description, kind = function
    return f"{signature}\n{description}\n{'window function' if kind == 'window' else kind}"


def _names(statement: Group) -> Iterator[str]:
    pending = [statement]
    while pending:
        group = pending.pop()
        yield from (group.name(index) for index in range(len(group.items)) if group.is_name(index))
        pending += [item for item in group.items if isinstance(item, Group)]


def _table_help(table: Relation, alias: str = "", *, full: bool = False) -> str:
    """Return the kind, the columns and the keys of a table as text, with ``full`` also its CREATE statements."""
    head = f"{_name(table.name)}: {_KINDS.get(table.kind, table.kind)}, {plural(len(table.visible), 'column')}"
    head += f" (as {_name(alias)})" if alias else ""
    if table.broken:
        head += f"\ncannot read the columns: {escape_controls(table.broken)}"
    rows = [(_name(name), type_, _constraints_of(table, name)) for name, type_ in table.typed]
    lines = [f"  {line}" for line in text_table(rows)]
    if full and not table.parsed:
        ddl = [line for statement in create_statements(table) for line in statement.splitlines()]
        lines += ["", *(escape_controls(line.expandtabs()) for line in ddl)]
    return "\n".join([head, *lines])


def _column_help(table: Relation | None, name: str) -> str:
    """Return a line on a column: its table, type and constraints; '' if the table has no such column."""
    if table is None:
        return ""
    hidden = [(column.name, column.type) for column in table.columns if column.hidden]
    pair = next((column for column in [*table.typed, *hidden] if column[0].lower() == name.lower()), None)
    if pair is None:
        return ""
    constraints = _constraints_of(table, pair[0])
    parts = filter(None, [escape_controls(pair[1]) or "no declared type", constraints])
    return f"{_name(table.name)}.{_name(pair[0])}: {' '.join(parts)}"


def _constraints_of(table: Relation, name: str) -> str:
    """Return the constraints of a column in the form of its definition."""
    column = next((candidate for candidate in table.columns if candidate.name == name), None)
    return "" if column is None else escape_controls(" ".join(_constraints(table, column)))


def _constraints(relation: Relation, column: Column) -> Iterator[str]:
    if relation.primary_key == (column.name,):
        yield "PRIMARY KEY"
    elif column.key:
        yield f"PRIMARY KEY ({', '.join(map(quote_if_needed, relation.primary_key))})"
    elif not column.nullable:
        yield "NOT NULL"
    if (column.name,) in relation.unique_keys and relation.primary_key != (column.name,):
        yield "UNIQUE"
    if column.default is not None:
        yield f"DEFAULT {' '.join(column.default.split())}"
    if column.generated:
        yield f"GENERATED {column.generated.upper()}"
    for key in relation.foreign_keys:
        targets = dict(zip(key.columns, key.references, strict=False))
        if column.name in key.columns:
            target = targets.get(column.name)
            yield f"REFERENCES {quote_if_needed(key.table)}" + (f"({quote_if_needed(target)})" if target else "")


def _name(name: str) -> str:
    return escape_controls(quote_if_needed(name))
