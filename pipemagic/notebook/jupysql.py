"""Translate lines of JupySQL and ipython-sql into the equivalent lines of this extension.

Nothing runs: each function raises a UsageError with the line to type. The options are those of JupySQL 0.11;
ipython-sql has some of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from pipemagic import sql
from pipemagic.errors import UsageError
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option
from pipemagic.notebook.line_variables import name_in_braces, text_of
from pipemagic.notebook.sql_options import OPTIONS
from pipemagic.notebook.sql_source import starts_statement
from pipemagic.session.foreign_addresses import replacement
from pipemagic.text import has_secret, word

if TYPE_CHECKING:
    from pipemagic.session import Session

OptionValues = dict[str, list[str]]
"""The values of options by long name; a switch has none."""

_ADDRESS = re.compile(r"[\"']?[A-Za-z][\w+.-]*://")
_KEPT_AND_SHOWN = re.compile(r"\s*([^\W\d]\w*)\s*=\s*<<(?!<)\s*(.*)", re.DOTALL)
_SECTION = re.compile(r"\[([\w.-]+)\]")
_NAME_OR_ADDRESS = re.compile(r"\w[\w.-]*|[A-Za-z][\w+.-]*://.*")
_FRAME = re.compile(r"([^\W\d][\w.]*);?")
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_UNQUOTED = re.compile(r"[\w./~=-]+\Z")  # `=` needs no quotes inside a word
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\Z", re.IGNORECASE | re.ASCII)


def _option(names: str, value: str = "") -> Option:
    """Declare an option of JupySQL: its long name and perhaps its short one."""
    flag, _, short = names.partition(" ")
    return Option(flag, "", value, short=short)


_WRITES = {"--persist-replace": " --replace", "--append": " --append", "--persist": ""}
"""Switches that write a DataFrame, with the equivalent option of %pipedb load; the first one applies."""

_SWITCHES = ("--connections -l", "--persist-replace -P", "--append", "--persist -p", "--no-index -n", "--no-execute -N")
_VALUED = (
    "--close -x", "--creator -c", "--section -s", "--connection_arguments -a", "--file -f", "--save -S", "--with -w",
    "--alias -A", "--interact",
)  # fmt: skip
_SQL = (*map(_option, _SWITCHES), *(_option(names, "VALUE") for names in _VALUED))
"""The options of %sql in JupySQL."""


def refuse_sql(line: str, cell: str | None, session: Session, variables: Mapping[str, Any]) -> None:
    """Raise UsageError if the line of %sql or %%sql, or the start of the cell, has JupySQL syntax."""
    magic, start = "%sql" if cell is None else "%%sql", line if cell is None or line.strip() else cell
    if match := _KEPT_AND_SHOWN.match(start):
        _refuse("NAME = << is JupySQL syntax", f"{magic} -o {match[1]} {match[2]}".rstrip())
    if cell is not None and _ADDRESS.match(cell.lstrip()):
        address, _, rest = cell.lstrip().partition("\n")
        _refuse_address(address.split()[0], rest, magic, session)
    if "://" in line or line.lstrip().startswith("-") or len(line.split()) == 1:  # else it is SQL
        parsed = _Line(line)
        if all(option.argument is not None and not option.word.unclosed for option in parsed.options):
            _refuse_line(parsed, magic, session, variables)


class _Line:
    """A line of %sql as JupySQL parses it: options, perhaps an address with more options, and SQL.

    ``given`` are the values of the options of JupySQL.
    """

    def __init__(self, line: str) -> None:
        self.options, self.text = arguments.leading_options(line, (*OPTIONS, *_SQL))
        self.address = ""
        if _ADDRESS.match(self.text):
            first = next(arguments.split(self.text))
            more, _ = arguments.leading_options(self.text[first.end :], _SQL)
            own_options = list(takewhile(lambda option: option.argument is not None, more))
            self.options += own_options
            self.address = first.text
            self.text = self.text[first.end + (own_options[-1].word.end if own_options else 0) :].strip()
        self.words = [token.text for token in arguments.split(self.text)]
        self.given: OptionValues = {}
        for option in self.options:
            if isinstance(option.argument, Option) and option.argument in _SQL:
                self.given.setdefault(option.argument.flag, []).extend([] if option.value is None else [option.value])
        alone = [self.address, *self.words] if self.address else self.words
        switched = bool(self.options) and self.options[-1].flag == "--close"  # a switch in this extension
        if switched and len(alone) == 1 and _NAME_OR_ADDRESS.fullmatch(alone[0]) and not starts_statement(alone[0]):
            self.given["--close"] = alone

    @property
    def snippets(self) -> list[str]:
        """The names of saved SELECTs in the order of the line; JupySQL repeats the option."""
        return [
            option.value
            for option in self.options
            if option.argument and option.argument.name == "--with" and option.value
        ]

    def rewritten(self) -> str:
        """Return the line with the options of this extension; ``--no-execute`` becomes ``--save`` or ``--dry-run``."""
        flags = {option.argument.name for option in self.options if option.argument is not None}
        left_out = {"--with", "--no-execute"} if "--save" in flags else {"--with"}
        names = {"--no-execute": "--dry-run"}
        parts = [
            option.word.raw.replace(option.flag, names.get(option.argument.name, option.argument.name), 1)
            if option.flag
            else option.word.raw
            for option in self.options
            if option.argument is not None and option.argument.name not in left_out
        ]
        if self.snippets or "--with" in self.given:
            parts.append(f"--with {','.join(self.snippets)}".rstrip())
        return " ".join([*parts, self.text]).strip()


def _refuse_line(line: _Line, magic: str, session: Session, variables: Mapping[str, Any]) -> None:
    """Raise UsageError with the equivalent line if only JupySQL understands this one."""
    options = line.given
    writes = next((flag for flag in _WRITES if flag in options), None)
    if writes is not None:
        _refuse_persist(writes, line.words, variables, session)
    if "--close" in options:
        name = _first(options, "--close")
        shown = "" if not name or re.search("://|@", name) else f" {_word(name)}"
        _refuse("--close NAME is an option of JupySQL", f"%pipedb close{shown}")
    if line.address:
        text = line.text if magic == "%sql" else ""
        _refuse_address(line.address.strip("\"'"), text, magic, session, _first(options, "--alias"))
    if "--connections" in options:
        _refuse("--connections is an option of JupySQL", "%pipedb connections")
    _refuse_connection(line, magic, session, variables)
    if len(line.snippets) > 1 or {"--file", "--save", "--with", "--no-execute"} & options.keys():
        _refuse("these options differ from those of JupySQL", f"{magic} {line.rewritten()}")
    if "--interact" in options:
        raise UsageError(
            "--interact is an option of JupySQL", hint="use ipywidgets.interact with a function that runs the statement"
        )
    if options:
        _refuse(f"{next(iter(options))} is an option of JupySQL", "%pipedb connect --help")


def _refuse_persist(flag: str, names: Sequence[str], variables: Mapping[str, Any], session: Session) -> NoReturn:
    name = next((match[1] for text in names if (match := _FRAME.fullmatch(text))), "FRAME")
    first, _, last = name.partition(".")
    frame = name if not last or first in variables else last  # else the name is schema.frame
    table = "TABLE" if frame == "FRAME" else frame.rpartition(".")[2]
    connect = () if session.connections else ("%pipedb connect",)
    _refuse(f"{flag} is an option of JupySQL", *connect, f"%pipedb load {frame} --table {table}{_WRITES[flag]}")


def _refuse_connection(line: _Line, magic: str, session: Session, variables: Mapping[str, Any]) -> None:
    """Raise UsageError for the name of a connection, a section of a file, or an engine."""
    alone = line.words[0] if len(line.words) == 1 else ""
    match = _SECTION.fullmatch(alone)
    section = match[1] if match else _first(line.given, "--section") or _first(line.given, "--alias")
    if section:
        arguments.refuse_password(section)
        _refuse("named connections are profiles", f"%pipedb connect {_word(section)}")
    if not alone or starts_statement(alone):
        return
    if alone in session.connections and magic == "%sql":
        _refuse(f"{alone} is a connection, not a statement", f"%pipedb use {_word(alone)}")
    value: Any = variables.get(alone)
    package = type(value).__module__.partition(".")[0]
    if package == "sqlalchemy" and hasattr(value, "url"):
        _refuse_address(str(value.url), "", magic, session)  # SQLAlchemy masks the password
    if package == "pipemagic" and (hasattr(value, "cursor") or hasattr(value, "dbapi")):
        _refuse(
            f"{alone} is a connection, not a statement", "%sql SELECT 1" if session.connections else "%pipedb connect"
        )
    if hasattr(value, "cursor") and hasattr(value, "commit"):
        _refuse(f"{alone} is a {package} connection, but %sql uses connections of %pipedb", "%pipedb connect")


def _refuse_address(address: str, text: str, magic: str, session: Session, alias: str = "") -> NoReturn:
    """Raise UsageError with the lines that connect to an address; ``text`` is the SQL after it."""
    instead = replacement(address, alias, connected=bool(session.connections), organization=session.organization_in_use)
    before = takewhile(lambda line: not starts_statement(line), text.split())
    is_sql = not any("@" in line for line in before)  # else the password contains a blank
    lines = [f"%sql {text.strip()}"] if text.strip() and magic == "%sql" and is_sql else []
    raise UsageError(f"{magic} does not accept an address", hint="\n".join([instead.message, *instead.lines, *lines]))


def _refuse(message: str, *lines: str) -> NoReturn:
    raise UsageError(message, hint="\n".join(lines))


# -- %sqlcmd and %sqlplot

_TABLE, _SCHEMA = _option("--table -t", "TABLE"), _option("--schema -s", "SCHEMA")
_BOUNDS = {"--greater-or-equal": ">=", "--less-than-or-equal": "<=", "--greater": ">", "--less-than": "<"}
_COMMANDS: dict[str, tuple[Option, ...]] = {
    "tables": (_SCHEMA,),
    "columns": (_TABLE, _SCHEMA),
    "profile": (_TABLE, _SCHEMA, _option("--output -o", "FILE")),
    "test": (
        _TABLE, _SCHEMA, _option("--column -c", "COLUMN"), _option("--greater -g", "N"),
        _option("--greater-or-equal -goe", "N"), _option("--less-than -l", "N"),
        _option("--less-than-or-equal -loe", "N"), _option("--no-nulls -nn"),
    ),
    "explore": (_TABLE, _SCHEMA),
    "snippets": tuple(_option(flag, "NAME") for flag in ("--delete -d", "--delete-force -D", "--delete-force-all -A")),
    "connect": (),
}  # fmt: skip
"""The commands of %sqlcmd and their options."""

_HERE = {"test": "rules"}
"""Commands with another name in this extension."""

_PLOTS = {"histogram": "histogram", "hist": "histogram", "boxplot": "box", "box": "box", "bar": "bar", "pie": "bar"}
_PLOT = (
    _TABLE, _SCHEMA, Option("--column", "", "COLUMN", short="-c", many=True), _option("--bins -b", "N"),
    _option("--with -w", "NAME"), _option("--orient -o", "O"), _option("--show-numbers -S"),
    Option("--breaks", "", "N", short="-B", many=True), _option("--binwidth -W", "N"),
)  # fmt: skip
"""The options of %sqlplot."""


def refuse_sqlcmd(line: str, variables: Mapping[str, Any]) -> NoReturn:
    """Raise UsageError with the line of %pipedb that is equivalent to a line of %sqlcmd."""
    name, options, rest = _parse("%sqlcmd", line, variables, _COMMANDS)
    if name not in _COMMANDS:
        raise UsageError("%sqlcmd is a magic of JupySQL", hint="%pipedb help")
    table, lines = sql.unquote(_first(options, "--table")), []
    match name:
        case "columns" | "profile" | "test" if not table:
            _refuse(f"%sqlcmd {name} is a command of JupySQL", f"%pipedb {_HERE.get(name, name)} --help")
        case "test":
            lines = [_rules_line(table, options)]
        case "snippets":
            deleted = next((_first(options, flag) for flag in options), "")
            shown = f" --delete {_word(deleted)}" if deleted else f" {_word(rest[0])}" if rest else ""
            lines = [f"%pipedb snippets{shown}"]
        case "explore":
            lines = ["%pipedb panel explore"]
        case _:
            lines = [f"%pipedb {name}{f' {_word(table)}' if table else ''}"]
    if "--output" in options:
        file = _first(options, "--output")
        lines.append(f"import pathlib; pathlib.Path({file!r}).write_text(_._repr_html_(), encoding='utf-8')")
    note = "" if _first(options, "--schema") in ("", "main") else "; commands read only the schema main"
    _refuse(f"%sqlcmd is a magic of JupySQL{note}", *lines)


def _rules_line(table: str, options: OptionValues) -> str:
    """Return the line of ``rules`` for the conditions of ``%sqlcmd test``."""
    name = sql.unquote(_first(options, "--column"))
    bounds = {operator: value for flag, operator in _BOUNDS.items() if (value := _first(options, flag))}
    parts = []
    listed = sql.quote(name) if re.search(r'[",.=\s]', name) else name
    if "--no-nulls" in options:
        parts.append(f"--not-null {_word(listed)}")
    inclusive = {operator: bounds[operator] for operator in (">=", "<=") if operator in bounds}
    if inclusive and all(map(_NUMBER.match, inclusive.values())):
        limits = f"{listed}={inclusive.get('>=', '')}..{inclusive.get('<=', '')}"
        parts.append(f"--range {limits if _UNQUOTED.match(limits) else _word(limits)}")
        bounds = {operator: value for operator, value in bounds.items() if operator not in inclusive}
    parts += [
        f"--rows {_word(f'{quote_if_needed(name)} {operator} {_literal(value)}')}" for operator, value in bounds.items()
    ]
    return " ".join([f"%pipedb rules {_word(table)}", *parts]) if name and parts else "%pipedb rules --help"


def _literal(value: str) -> str:
    if _NUMBER.match(value) or value[:1] in "'\"":
        return value
    return "'" + value.replace("'", "''") + "'"


def refuse_sqlplot(line: str, session: Session, variables: Mapping[str, Any]) -> NoReturn:
    """Raise UsageError with the line of ``%pipedb plot`` that is equivalent to a line of %sqlplot."""
    name, options, _ = _parse("%sqlplot", line, variables, dict.fromkeys(_PLOTS, _PLOT))
    table, columns = sql.unquote(_first(options, "--table")), list(map(sql.unquote, options.get("--column", [])))
    if name not in _PLOTS or not table or not columns:
        _refuse("%sqlplot is a magic of JupySQL", "%pipedb plot --help")
    kind, saved = _PLOTS[name], {snippet.name.lower() for snippet in session.snippets}
    source = f"--with {_word(table)}" if "--with" in options or table.lower() in saved else _word(table)
    bins = f" --bins {_first(options, '--bins')}" if kind == "histogram" and "--bins" in options else ""
    if kind == "bar":
        lines = [f"%pipedb plot bar {source} --x {' --y '.join(map(_word, columns[:2]))}"]
    else:
        lines = [f"%pipedb plot {kind} {source} --x {_word(column)}{bins}" for column in columns]
    ignored = [flag for flag in ("--orient", "--show-numbers", "--breaks", "--binwidth") if flag in options]
    notes = [f"{', '.join(ignored)} cannot be set"] if ignored else []
    notes += ["a bar chart replaces the pie"] if name == "pie" else []
    _refuse("; ".join(["%sqlplot is a magic of JupySQL", *notes]), *lines)


def _parse(
    magic: str, line: str, variables: Mapping[str, Any], commands: Mapping[str, Sequence[Option]]
) -> tuple[str, OptionValues, list[str]]:
    """Return the command of a line, the values of its options, and the other words.

    As in JupySQL, ``{{name}}`` and a word that is ``{name}`` are the value of the variable, and an option with ``many``
    takes several words.
    """
    words = list(arguments.words(_VARIABLE.sub(r"{{\1}}", line)))
    for token in words:
        arguments.refuse_password(token.text)
    name = words[0].text if words else ""
    options, rest, last = OptionValues(), list[str](), None
    for item in arguments.assign(words[1:], (), commands.get(name, ())):
        if item.flag and item.argument is None and name in commands:
            flags = ", ".join(option.flag for option in commands[name]) or "none"
            raise UsageError(
                f"JupySQL's {magic} {name} has no option {item.flag[:40]}", hint=f"its options are {flags}"
            )
        if item.argument is not None:
            values, last = options.setdefault(item.argument.name, []), item.argument
        else:
            values = options[last.name] if last is not None and last.many else rest
        if item.value is not None:
            variable = name_in_braces(item.value)
            values.append(
                _value(variable, variables) if variable
                else _VARIABLE.sub(lambda match: _value(match[1], variables), item.value)
            )  # fmt: skip
    return name, options, rest


def _value(name: str, variables: Mapping[str, Any]) -> str:
    """Return the text of a variable, or ``{name}`` if it has no text that can be shown."""
    text = text_of(variables.get(name))
    if text is None or has_secret(text) or arguments.has_password(text):
        return f"{{{name}}}"
    return text


def _word(text: str) -> str:
    """Return a word as it is written on the line of a magic; ``{name}`` remains the value of a variable."""
    return text if name_in_braces(text) else word(text)


def _first(options: OptionValues, flag: str) -> str:
    return next(iter(options.get(flag, [])), "")
