"""Help on what the cursor is at, from what completion knows: tables, columns, functions, options, subcommands.

Front ends ask for it on Shift+Tab. As with completion, nothing here asks a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from IPython.core.completer import position_to_cursor
from IPython.core.error import UsageError

from pipemagic.counts import plural
from pipemagic.explore import words
from pipemagic.explore.functions import DESCRIPTIONS
from pipemagic.explore.scope import Source, scope_at
from pipemagic.explore.script import statements
from pipemagic.explore.shapes import Shape
from pipemagic.explore.token_tree import Group
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option, Positional
from pipemagic.notebook.completion import lines
from pipemagic.notebook.completion.cursor import Place, name_at
from pipemagic.notebook.completion.position import Position, index_in
from pipemagic.notebook.completion.sql import with_earlier
from pipemagic.notebook.completion.tab import MagicText, Tab, leading, magic_at
from pipemagic.notebook.options import OPTIONS
from pipemagic.sql import Token

if TYPE_CHECKING:
    from pipemagic.explore.schema import Column, Relation
    from pipemagic.notebook.magics import PipeMagics

_KINDS = {"virtual": "virtual table", "common table": "common table expression"}

_MOST = 12
"""So many tables that have a column of one name are listed."""


@dataclass(frozen=True)
class Variable:
    """A variable of the notebook that SQL takes a value from; ``given`` is its name in ``--params``, or ''."""

    name: str
    given: str = ""


def inspect_cell(magics: PipeMagics, code: str, offset: int, *, full: bool = False) -> dict[str, str] | None:
    """Return the help on what is at an offset as a MIME bundle, empty if nothing is known; None outside our magics.

    ``full`` adds the CREATE statements of a table, the whole help of a subcommand, the source code of a variable.
    """
    magic = magic_at(code, *position_to_cursor(code, min(offset, len(code))))
    if magic is None or magic.at < -len(magic.marker):
        return None
    detail = int(full)
    if magic.at <= 0:
        return _of_python(magics, magic.marker, detail)
    found = Inspection(Tab(magics), full=full).help_at(magic)
    if isinstance(found, str):
        return {"text/plain": found} if found else {}
    if not found.given:
        return _of_python(magics, found.name, detail)
    given = magics.user_ns.get(found.given)
    if not isinstance(given, Mapping) or found.name not in given:
        return {}
    return {"text/plain": f"{found.given}[{found.name!r}]: {type(given[found.name]).__name__}"}


def _of_python(magics: PipeMagics, name: str, detail: int) -> dict[str, str]:
    try:
        inspect: Callable[..., dict[str, str]] = magics.shell.object_inspect_mime
        bundle = inspect(name, detail_level=detail)
    except KeyError:
        return {}
    return {"text/plain": bundle["text/plain"]}


class Inspection:
    """One question for help; ``full`` asks for all of it."""

    def __init__(self, tab: Tab, *, full: bool) -> None:
        self._tab = tab
        self._full = full

    def help_at(self, magic: MagicText) -> str | Variable:
        """Return the help on what the cursor of a magic is at, '' if nothing is known of it."""
        if magic.name == "pipedb":
            return self._pipedb(magic.line, magic.at)
        args, rest = leading(f"{magic.line}\n")
        start = len(magic.line) + 1 - len(rest)
        if magic.at < start and magic.on_line:
            return self._argument(magic.line, magic.at, (), OPTIONS, args.get("--on"))
        text, at = rest + magic.body, max(magic.at - start, 0)
        found = SqlHelp(text, at, self._tab.tables(args.get("--on")), full=self._full).text
        return Variable(found.name, args.get("--params") or "") if isinstance(found, Variable) else found

    def _pipedb(self, line: str, at: int) -> str:
        from pipemagic.notebook.commands import COMMANDS
        from pipemagic.notebook.commands.helping import command_help
        from pipemagic.notebook.commands.topics import OTHER_NAMES, TOPICS

        before, word = _word_at(line, at)
        if not before or before == ["help"]:
            name = OTHER_NAMES.get(word, word)
            if name in COMMANDS:
                return command_help(COMMANDS[name])
            return TOPICS[name][1] if before and name in TOPICS else ""
        command = COMMANDS.get(before[0])
        if command is None:
            return ""
        on = lines.value_of("--on", lines.read(f"{line} ").words)
        start = line.index(before[0]) + len(before[0])
        found = self._argument(line[start:], at - start, command.positionals, command.options, on)
        return f"{found}\n\n{command_help(command)}" if found and self._full else found

    def _argument(
        self, line: str, at: int, positionals: tuple[Positional, ...], options: tuple[Option, ...], on: str | None
    ) -> str:
        """Return the help on an option, or on the table or column that a word of the line names."""
        before, word = _word_at(line, at)
        count, _, waiting = lines.taken(before, options)
        flag, _, value = word.partition("=")
        argument: Option | Positional | None
        if waiting is not None:
            argument = waiting
        elif word.startswith("-"):
            argument, word = lines.find(flag, options), value
        else:
            repeated = bool(positionals) and positionals[-1].repeated
            index = min(count, len(positionals) - 1) if repeated else count
            argument = positionals[index] if word and index < len(positionals) else None
        if argument is None:
            return "--help\nshow the usage and what each argument means" if flag == "--help" else ""
        return self._named(argument, lines.plain(word) if word else "", line, on) or _argument_help(argument)

    def _named(self, argument: Option | Positional, word: str, line: str, on: str | None) -> str:
        """Return the help on the table or column that an argument names, '' if it names none."""
        tables = self._tab.tables(on)
        kind = lines.kind_of(argument)
        if kind == "table":
            found = next((table for table in tables if table.name.lower() == word.lower()), None)
            return "" if found is None else table_help(found, full=self._full)
        if kind == "column":
            on_line = {one.lower() for one in lines.read(f"{line} ").words}
            asked = {one.strip().strip('"').lower() for one in word.split(",")}
            sources = [Source(one.name, one.typed, one) for one in tables if one.name.lower() in on_line]
            return "\n".join(
                column_help(one, name) for one in sources for name, _ in one.typed if name.lower() in asked
            )
        return ""


def _word_at(line: str, at: int) -> tuple[list[str], str]:
    """Return the words before the cursor, and the word that it is in or right behind, '' between words."""
    before: list[str] = []
    start = 0
    try:
        for word in arguments.words(line):
            start += len(line[start:]) - len(line[start:].lstrip())
            if at <= word.end:
                return before, word.text if start <= at else ""
            before.append(word.text)
            start = word.end
    except UsageError:  # a quote is still open
        pass
    return before, ""


def _argument_help(argument: Option | Positional) -> str:
    if isinstance(argument, Option):
        value = "|".join(argument.choices) or argument.value
        head = ", ".join(filter(None, [argument.short, argument.flag])) + f" {value}".rstrip()
    else:
        head = "|".join(argument.choices) or argument.name
    return f"{head}\n{argument.help}"


class SqlHelp:
    """Help on what is at an offset of SQL; ``tables`` is what the database has."""

    def __init__(self, text: str, at: int, tables: Iterable[Shape], *, full: bool = False) -> None:
        self._full = full
        found = name_at(text, at)
        if found is None:
            self.text: str | Variable = ""
            return
        place, token = found
        self._place: Place = place
        self._here = Position(place)
        self._group, self._at = self._here.group, self._here.at
        self._scope = scope_at(place.inside, with_earlier(tables, place.before))
        self.text = self._help_on(token) or self._enclosing_call()

    def _help_on(self, token: Token | None) -> str | Variable:
        if token is None:
            return ""
        if token.kind == "param":
            return Variable(token.text[1:])
        if self._group.word(self._at - 1) == "{" and self._group.word(self._at + 1) == "}":
            return Variable(token.text)
        name = self._group.name(self._at)
        if self._group.word(self._at - 1) == ".":
            return self._qualified(name)
        if self._group.word(self._at + 1) == "." and (source := self._scope.labelled(name)):
            return self._source_help(source)
        if self._here.wants_table:
            return self._table(name) or self._function(name)
        if self._group.group(self._at + 1) is not None and (help_ := self._function(name)):
            return help_
        if token.kind == "word" and name.upper() in words.KEYWORDS - words.NAMES:
            return ""
        return self._column(name) or self._table(name)

    def _qualified(self, name: str) -> str:
        """Return the help on the name after a dot: a column, or a table after the name of a database."""
        if not self._group.is_name(self._at - 2):
            return ""
        owner = self._group.name(self._at - 2)
        source = self._scope.labelled(owner)
        if self._group.word(self._at - 3) != "." and source is None and owner.lower() == "excluded":
            source = next(iter(self._scope.sources), None)
        trigger = self._scope.tables.get(self._place.trigger.lower())
        if source is None and owner.lower() in ("new", "old") and trigger is not None:
            source = _source_of(trigger)
        if source is None and (table := self._scope.tables.get(owner.lower())) is not None:
            source = _source_of(table)
        if source is not None:
            return column_help(source, name)
        return self._table(name) or ("" if self._scope.sources else self._column(name))

    def _column(self, name: str) -> str:
        """Return the help on a column of the tables that the statement reads, or else of any table."""
        sources = [*self._scope.sources, *self._scope.outer]
        if not sources:
            named = {one.lower() for one in _names(self._here.top)}
            tables = [*self._scope.common, *self._scope.tables.values()]
            sources = [_source_of(one) for one in tables if one.name.lower() in named] or list(map(_source_of, tables))
        found = list(dict.fromkeys(help_ for source in sources if (help_ := column_help(source, name))))
        more = [f"... and {len(found) - _MOST} more tables"] if len(found) > _MOST else []
        return "\n".join([*found[:_MOST], *more])

    def _table(self, name: str) -> str:
        source = self._scope.labelled(name)
        if source is not None:
            return self._source_help(source)
        common = {one.name.lower(): one for one in self._scope.common}
        found = common.get(name.lower()) or self._scope.tables.get(name.lower())
        return "" if found is None else table_help(found, full=self._full)

    def _source_help(self, source: Source) -> str:
        if source.shape is None and not source.typed:
            return ""  # a table that there is not
        types = tuple(type_ for _, type_ in source.typed)
        shape = source.shape or Shape(source.label, "subquery", source.columns, types=types)
        alias = "" if shape.name.lower() == source.label.lower() else source.label
        return table_help(shape, alias, full=self._full)

    def _function(self, name: str) -> str:
        kind = words.FUNCTIONS.get(name.lower())
        if kind is None:
            return ""
        signature, description = DESCRIPTIONS[name.lower()]
        return f"{signature}\n{description}\n{'window function' if kind == 'window' else kind}"

    def _enclosing_call(self) -> str:
        """Return the help on the function whose arguments the cursor is in."""
        group = self._group
        while group.parent is not None:
            index = index_in(group.parent, group) - 1
            if group.parent.is_name(index) and (help_ := self._function(group.parent.name(index))):
                return help_
            group = group.parent
        return ""


def _names(group: Group) -> Iterator[str]:
    for index, item in enumerate(group.items):
        if isinstance(item, Group):
            yield from _names(item)
        elif group.is_name(index):
            yield group.name(index)


def _source_of(shape: Shape) -> Source:
    return Source(shape.name, shape.typed, shape)


def table_help(shape: Shape, alias: str = "", *, full: bool = False) -> str:
    """Return the kind, the columns and the keys of a table as text, with ``full`` its CREATE statements as well."""
    relation = shape.relation
    kind = _KINDS.get(shape.kind if relation is None else relation.kind, shape.kind)
    head = f"{_name(shape.name)}: {kind}, {plural(len(shape.columns), 'column')}"
    head += f" (as {_name(alias)})" if alias else ""
    if relation is not None and relation.broken:
        head += f"\nthe columns cannot be read: {words.printable(relation.broken)}"
    rows = [(_name(name), words.printable(type_), _notes(relation, name)) for name, type_ in shape.typed]
    widths = [max((len(row[place]) for row in rows), default=0) for place in (0, 1)]
    found = [f"  {name:{widths[0]}}  {type_:{widths[1]}}  {notes}".rstrip() for name, type_, notes in rows]
    if full and relation is not None:
        found += [
            "",
            *(words.printable(line.expandtabs()) for one in statements(relation) for line in one.splitlines()),
        ]
    return "\n".join([head, *found])


def column_help(source: Source, name: str) -> str:
    """Return a line on the column of that name: its table, type and constraints; '' if there is none."""
    found = next((column for column in source.typed if column[0].lower() == name.lower()), None)
    if found is None:
        relation = source.shape.relation if source.shape is not None else None
        hidden = [one for one in relation.columns if one.hidden] if relation is not None else []
        found = next(((one.name, one.type) for one in hidden if one.name.lower() == name.lower()), None)
    if found is None:
        return ""
    shape = source.shape
    table = source.label if shape is None else shape.name
    notes = _notes(shape.relation if shape is not None else None, found[0])
    parts = filter(None, [words.printable(found[1]) or "no declared type", notes])
    return f"{_name(table)}.{_name(found[0])}: {' '.join(parts)}"


def _notes(relation: Relation | None, name: str) -> str:
    """Return the constraints of a column, as its definition has them."""
    if relation is None or name not in (known := {one.name: one for one in relation.columns}):
        return ""
    return words.printable(" ".join(_constraints(relation, known[name])))


def _constraints(relation: Relation, column: Column) -> Iterator[str]:
    if relation.primary_key == (column.name,):
        yield "PRIMARY KEY"
    elif column.key:
        yield f"PRIMARY KEY ({', '.join(map(words.written, relation.primary_key))})"
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
            yield f"REFERENCES {words.written(key.table)}" + (f"({words.written(target)})" if target else "")


def _name(name: str) -> str:
    return words.printable(words.written(name))
