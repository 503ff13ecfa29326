"""What users of JupySQL and ipython-sql type, and the line that does the same here.

Nothing is run: each function raises UsageError with that line. The options are those of JupySQL 0.11; ipython-sql has
some of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import UsageError

from pipemagic import sql
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Word
from pipemagic.notebook.asking import starts_statement
from pipemagic.notebook.options import OPTIONS

if TYPE_CHECKING:
    from pipemagic.session import Session

_SQL = {
    "-l": "--connections", "-x": "--close", "-c": "--creator", "-s": "--section", "-p": "--persist",
    "-P": "--persist-replace", "-n": "--no-index", "-a": "--connection_arguments", "-f": "--file", "-S": "--save",
    "-w": "--with", "-N": "--no-execute", "-A": "--alias",
}  # fmt: skip
"""The short options of %sql in JupySQL."""

_VALUED = {
    "--close", "--creator", "--section", "--connection_arguments", "--file", "--save", "--with", "--alias", "--interact"
}  # fmt: skip
_SWITCHES = {"--connections", "--persist", "--persist-replace", "--no-index", "--append", "--no-execute"}
_WRITES = {"--persist-replace": " --replace", "--append": " --append", "--persist": ""}
"""Options that write a DataFrame, and that of %pipedb load; the first of them counts."""

_ADDRESS = re.compile(r"[\"']?[A-Za-z][\w+.-]*://")
_KEPT_AND_SHOWN = re.compile(r"\s*([^\W\d]\w*)\s*=\s*<<(?!<)\s*(.*)", re.DOTALL)
_SECTION = re.compile(r"\s*\[([\w.-]+)\]\s*\Z")
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\Z", re.IGNORECASE | re.ASCII)

_COMMANDS = ("tables", "columns", "profile", "test", "explore", "snippets", "connect")
_PLOTS = {"histogram": "histogram", "hist": "histogram", "boxplot": "box", "box": "box", "bar": "bar", "pie": "bar"}


def refuse_sql(line: str, cell: str | None, session: Session, variables: Mapping[str, Any]) -> None:
    """Raise UsageError if the line of %sql or %%sql, or the start of the cell, is JupySQL's and not of this magic."""
    magic, start = "%sql" if cell is None else "%%sql", line if cell is None or line.strip() else cell
    if match := _KEPT_AND_SHOWN.match(start):
        _refuse("NAME = << is JupySQL's; use instead", [f"{magic} {match[1]} << {match[2]}".rstrip()])
    if cell is not None and _ADDRESS.match(cell.lstrip()):
        address, _, rest = cell.lstrip().partition("\n")
        _refuse_address(address.split()[0], rest, magic, session)
    if "://" not in line and not line.lstrip().startswith("-") and len(line.split()) != 1:
        return  # SQL, which is not taken apart
    try:
        given = list(arguments.words(line))
    except UsageError:
        if _ADDRESS.match(line.lstrip()):
            _refuse_address(line.split()[0], "", magic, session)
        return  # the same error as without this
    asked = _Asked(line, given)
    if asked.options is not None:
        asked.refuse(cell, session, variables)


@dataclass
class _Given:
    """An option of the line: its long name in JupySQL, its value, how it was written, and whether it is so here."""

    flag: str
    value: str
    text: str
    ours: bool


class _Asked:
    """A line of %sql as JupySQL reads it: options, perhaps an address with options behind it, and SQL."""

    def __init__(self, line: str, words: Sequence[Word]) -> None:
        self._line, self._words = line, words
        self.options: list[_Given] | None = []
        """The options, None if there is one that neither JupySQL nor this magic has."""
        at = self._read_options(0)
        self.rest = [word.text for word in words[at:]]
        self.behind = line[words[at - 1].end if at else 0 :].strip()
        if self.rest and _ADDRESS.match(self.rest[0]):
            at = self._read_options(at + 1, only_foreign=True)
            self.rest[1:] = [word.text for word in words[at:]]
            self.behind = line[words[at - 1].end :].strip()

    def _read_options(self, at: int, *, only_foreign: bool = False) -> int:
        """Read options from a word on; return the number of the first word that is none."""
        while self.options is not None and at < len(self._words):
            word = self._words[at]
            if word.quoted or not re.match(r"-(?!-?\Z)", word.text) or _NUMBER.match(word.text):
                break
            name, equals, value = word.text.partition("=")
            flag, own = _SQL.get(name, name), next((one for one in OPTIONS if name in (one.flag, one.short)), None)
            if own is None and flag not in _VALUED | _SWITCHES:
                if not only_foreign:
                    self.options = None
                break
            takes = bool(own.value) if own is not None else flag in _VALUED
            if flag == "--close" and own is not None:
                takes = self._is_name(at + 1)
                own = None if takes else own
            if takes and not equals:
                at += 1
                value = self._words[at].text if at < len(self._words) else ""
            start = word.end - len(word.text)
            text = self._line[start : self._words[min(at, len(self._words) - 1)].end]
            self.options.append(_Given(flag, value, text, own is not None))
            at += 1
        return min(at, len(self._words))

    def _is_name(self, at: int) -> bool:
        """Return True if a word stands alone behind ``--close``, where a statement would begin."""
        if at != len(self._words) - 1:
            return False
        text = self._words[at].text
        return bool(re.fullmatch(r"\w[\w.-]*|[A-Za-z][\w+.-]*://.*", text)) and not starts_statement(text)

    def _value(self, *flags: str) -> str | None:
        """Return the value of the first of these options that was given in JupySQL's way; None if none was."""
        return next((one.value for one in self.options or () if one.flag in flags and not one.ours), None)

    def refuse(self, cell: str | None, session: Session, variables: Mapping[str, Any]) -> None:
        """Raise UsageError with the line to type, if another one is to be typed."""
        magic, foreign = _magic(cell), [one.flag for one in self.options or () if not one.ours]
        written = next((flag for flag in _WRITES if flag in foreign), None)
        if written is not None:
            names = self.rest[1:] if self.rest and _ADDRESS.match(self.rest[0]) else self.rest
            _refuse_persist(written, names, variables, session)
        if self.rest and _ADDRESS.match(self.rest[0]):
            text = self.behind if cell is None else ""
            _refuse_address(self.rest[0].strip("\"'"), text, magic, session, self._value("--alias"))
        if "--connections" in foreign:
            _refuse("--connections is an option of JupySQL; use instead", ["%pipedb connections"])
        if (name := self._value("--close")) is not None:
            named = "" if not name or re.search("://|@", name) else f" {_word(name)}"
            _refuse("--close NAME is an option of JupySQL; use instead", [f"%pipedb close{named}"])
        self._refuse_connection(cell, session, variables)
        repeated = [one.value for one in self.options or () if one.flag == "--with"]
        if len(repeated) > 1 or {"--file", "--save", "--with", "--no-execute"} & set(foreign):
            _refuse("the options differ from those of JupySQL; use instead", [f"{magic} {self._rewritten(repeated)}"])
        if "--interact" in foreign:
            raise UsageError(
                "--interact is an option of JupySQL; here ipywidgets.interact takes a function that runs the "
                "statement with its arguments"
            )
        if foreign:
            _refuse(f"{foreign[0]} is an option of JupySQL; see", ["%pipedb connect --help"])

    def _rewritten(self, snippets: Sequence[str]) -> str:
        """Return the line with the options as they are written here."""
        parts = []
        for one in self.options or ():
            if one.flag != "--with":
                short = one.text.split("=")[0].split()[0]
                parts.append(one.text if one.ours else one.flag + one.text[len(short) :])
        parts += [f"--with {','.join(snippets)}"] if snippets else []
        return " ".join([*parts, self.behind]).strip()

    def _refuse_connection(self, cell: str | None, session: Session, variables: Mapping[str, Any]) -> None:
        """Raise UsageError where JupySQL takes the name of a connection, a section of a file, or an engine."""
        alone = self.rest[0] if len(self.rest) == 1 else ""
        section = self._value("--section", "--alias")
        if match := _SECTION.match(alone):
            section = match[1]
        if section is not None:
            arguments.refuse_password(section)
            _refuse("connections have their names in profiles here; write", [f"%pipedb connect {_word(section)}"])
        if not alone or starts_statement(alone):
            return
        if alone in session.connections and cell is None:
            _refuse(f"{alone} is a connection, and %sql runs statements; write", [f"%pipedb use {_word(alone)}"])
        if (url := _url_of(variables.get(alone))) is not None:
            _refuse_address(url, "", _magic(cell), session)
        if hasattr(variables.get(alone), "cursor") and hasattr(variables.get(alone), "commit"):
            kind = type(variables[alone]).__module__.partition(".")[0]
            _refuse(f"{alone} is a connection of {kind}; %sql uses those of %pipedb", ["%pipedb connect"])


def _refuse_persist(flag: str, names: Sequence[str], variables: Mapping[str, Any], session: Session) -> NoReturn:
    name = next((one.rstrip(";") for one in names if re.fullmatch(r"[^\W\d][\w.]*;?", one)), "")
    first, _, last = name.partition(".")
    frame = name if not last or first in variables else last  # else the name is schema.frame
    if not frame:
        raise UsageError(f"{flag} is an option of JupySQL; use instead %pipedb load FRAME --table TABLE{_WRITES[flag]}")
    lines = [f"%pipedb load {frame} --table {frame.rpartition('.')[2]}{_WRITES[flag]}"]
    if not session.connections:
        lines.insert(0, "%pipedb connect")
    _refuse(f"{flag} is an option of JupySQL; use instead", lines)


def _url_of(found: object) -> str | None:
    """Return the address of an engine of SQLAlchemy; None for other objects."""
    module = type(found).__module__.partition(".")[0]
    if module == "sqlalchemy" and hasattr(found, "url"):
        return str(found.url)  # without its password
    return None


def _refuse_address(address: str, text: str, magic: str, session: Session, alias: str | None = None) -> NoReturn:
    """Raise UsageError with the lines that lead to what is at the address; ``text`` is the SQL behind it."""
    from pipemagic.session.foreign_addresses import replacement

    found = replacement(address, session, alias)
    before = takewhile(lambda word: not starts_statement(word), text.split())
    is_sql = not any("@" in word for word in before)  # else the address goes on, after a blank in its password
    lines = [*found.lines, *([f"%sql {text.strip()}"] if text.strip() and magic == "%sql" and is_sql else [])]
    raise UsageError("\n".join([f"{magic} takes no address. {found.message}", *lines]))


def _refuse(why: str, lines: Sequence[str]) -> NoReturn:
    raise UsageError("\n".join([f"{why}:", *lines]))


def _magic(cell: str | None) -> str:
    return "%sql" if cell is None else "%%sql"


def _word(text: str) -> str:
    from pipemagic.session.profiles import word

    return word(text)


# -- %sqlcmd and %sqlplot


@dataclass(frozen=True)
class _Flag:
    """An option of a command: its long name, how it is shortened, and how many words follow it."""

    name: str
    short: str
    takes: str = "one"  # none, one, or several


_TABLE, _SCHEMA = _Flag("--table", "-t"), _Flag("--schema", "-s")
_BOUNDS = (
    _Flag("--greater", "-g"), _Flag("--greater-or-equal", "-goe"), _Flag("--less-than", "-l"),
    _Flag("--less-than-or-equal", "-loe"),
)  # fmt: skip
_FLAGS = {
    "tables": (_SCHEMA,),
    "columns": (_TABLE, _SCHEMA),
    "profile": (_TABLE, _SCHEMA, _Flag("--output", "-o")),
    "test": (_TABLE, _SCHEMA, _Flag("--column", "-c"), *_BOUNDS, _Flag("--no-nulls", "-nn", "none")),
    "explore": (_TABLE, _SCHEMA),
    "snippets": (_Flag("--delete", "-d"), _Flag("--delete-force", "-D"), _Flag("--delete-force-all", "-A")),
    "connect": (),
}
_PLOT_FLAGS = (
    _TABLE, _SCHEMA, _Flag("--column", "-c", "several"), _Flag("--bins", "-b"), _Flag("--orient", "-o"),
    _Flag("--with", "-w"), _Flag("--show-numbers", "-S", "none"), _Flag("--breaks", "-B", "several"),
    _Flag("--binwidth", "-W"),
)  # fmt: skip


def refuse_sqlcmd(line: str, variables: Mapping[str, Any]) -> NoReturn:
    """Raise UsageError with the line of %pipedb for one of %sqlcmd."""
    name, words = _command(line, variables)
    if name not in _COMMANDS:
        raise UsageError("%sqlcmd is a magic of JupySQL; %pipedb help lists the commands here:\n%pipedb help")
    given, rest = _parsed(words, _FLAGS[name], f"%sqlcmd {name}")
    table = sql.unquote(_first(given, "--table"))
    lines, note = [], ""
    if name in ("columns", "profile", "test") and not table:
        _refuse(f"%sqlcmd {name} is JupySQL's; the command here is", [f"%pipedb {_HERE[name]} --help"])
    if name == "test":
        lines = [_check_line(table, given)]
    elif name == "snippets":
        forgotten = next((_first(given, one.name) for one in _FLAGS[name] if one.name in given), "")
        shown = f" --delete {_word(forgotten)}" if forgotten else f" {_word(rest[0])}" if rest else ""
        lines = [f"%pipedb snippets{shown}"]
    elif name == "explore":
        lines = ["%pipedb panel explore"]
    else:
        lines = [f"%pipedb {name}{f' {_word(table)}' if table and name != 'tables' else ''}"]
    if "--output" in given:
        file = _first(given, "--output")
        lines.append(f"import pathlib; pathlib.Path({file!r}).write_text(_._repr_html_(), encoding='utf-8')")
    if "--schema" in given and _first(given, "--schema") != "main":
        note = "; commands read the schema main"
    _refuse(f"%sqlcmd is a magic of JupySQL; use instead{note}", lines)


_HERE = {"columns": "columns", "profile": "profile", "test": "check"}


def _check_line(table: str, given: Mapping[str, list[str]]) -> str:
    """Return the line of ``check`` for the bounds of ``%sqlcmd test``."""
    from pipemagic.explore.words import written

    name, parts, column = sql.unquote(_first(given, "--column")), [], ""
    if not name:
        return "%pipedb check --help"
    if "--no-nulls" in given:
        parts.append(f"--not-null {_word(_listed(name))}")
    low, high = _first(given, "--greater-or-equal"), _first(given, "--less-than-or-equal")
    if (low or high) and all(_NUMBER.match(one) for one in (low, high) if one):
        parts.append(f"--range {_word_if_needed(f'{_listed(name)}={low}..{high}')}")
        low = high = ""
    column = written(name)
    for value, operator in (
        (low, ">="), (high, "<="), (_first(given, "--greater"), ">"), (_first(given, "--less-than"), "<")
    ):  # fmt: skip
        if value:
            parts.append(f"--rows {_word(f'{column} {operator} {_literal(value)}')}")
    return " ".join([f"%pipedb check {_word(table)}", *parts]) if parts else "%pipedb check --help"


def _listed(name: str) -> str:
    """Write a column's name as options with several of them take it."""
    return sql.quote(name) if re.search(r'[",.=\s]', name) else name


def _literal(value: str) -> str:
    if _NUMBER.match(value) or value[:1] in "'\"":
        return value
    return "'" + value.replace("'", "''") + "'"


def _word_if_needed(text: str) -> str:
    """Write a word for the line of a magic; ``=`` needs no quotes inside it."""
    return text if re.fullmatch(r"[\w./~=-]+", text) else _word(text)


def refuse_sqlplot(line: str, session: Session, variables: Mapping[str, Any]) -> NoReturn:
    """Raise UsageError with the line of ``%pipedb plot`` for one of %sqlplot."""
    name, words = _command(line, variables)
    if name not in _PLOTS:
        raise UsageError("%sqlplot is a magic of JupySQL; here a command draws:\n%pipedb plot --help")
    given, _ = _parsed(words, _PLOT_FLAGS, f"%sqlplot {name}")
    table, columns = sql.unquote(_first(given, "--table")), [sql.unquote(one) for one in given.get("--column", [])]
    if not table or not columns:
        raise UsageError("%sqlplot is a magic of JupySQL; here a command draws:\n%pipedb plot --help")
    saved = {one.name.lower(): one.name for one in session.snippets}
    source = f"--with {_word(table)}" if "--with" in given or table.lower() in saved else _word(table)
    kind = _PLOTS[name]
    bins = f" --bins {_first(given, '--bins')}" if kind == "histogram" and "--bins" in given else ""
    if kind == "bar":
        lines = [f"%pipedb plot bar {source} --x {' --y '.join(map(_word, columns[:2]))}"]
    else:
        lines = [f"%pipedb plot {kind} {source} --x {_word(column)}{bins}" for column in columns]
    left_out = [flag for flag in ("--orient", "--show-numbers", "--breaks", "--binwidth") if flag in given]
    notes = [f"{', '.join(left_out)} cannot be set"] if left_out else []
    notes += ["bars replace a pie"] if name == "pie" else []
    _refuse("; ".join(["%sqlplot is a magic of JupySQL", *notes, "use instead"]), lines)


def _command(line: str, variables: Mapping[str, Any]) -> tuple[str, list[Word]]:
    """Return the first word of a line and the others; ``{{name}}`` has the value of the variable, as in JupySQL."""
    line = _VARIABLE.sub(lambda match: str(variables.get(match[1], match[0])), line)
    given = list(arguments.words(line))
    for word in given:
        arguments.refuse_password(word.text)
    return (given[0].text, given[1:]) if given else ("", [])


def _parsed(words: Sequence[Word], flags: Sequence[_Flag], usage: str) -> tuple[dict[str, list[str]], list[str]]:
    """Return the values of options by their long name, and the words that belong to none."""
    given: dict[str, list[str]] = {}
    rest: list[str] = []
    current: _Flag | None = None
    for word in words:
        if word.quoted or not word.text.startswith("-") or _NUMBER.match(word.text):
            if current is None or (current.takes != "several" and given[current.name]):
                rest.append(word.text)
            else:
                given[current.name].append(word.text)
            continue
        name, equals, value = word.text.partition("=")
        found = next((one for one in flags if name in (one.name, one.short)), None)
        if found is None:
            known = ", ".join(one.name for one in flags) or "none"
            raise UsageError(f"JupySQL's {usage} has no option {name[:40]}; its options are {known}")
        given.setdefault(found.name, [])
        if equals:
            given[found.name].append(value)
        current = None if found.takes == "none" or equals else found
    return given, rest


def _first(given: Mapping[str, list[str]], flag: str) -> str:
    return next(iter(given.get(flag, [])), "")
