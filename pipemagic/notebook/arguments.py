"""Parse the line of a magic: words, options, positional arguments, and the SQL after them.

Quotes make one word of several, and a doubled quote inside them is a literal quote, as in SQL: a table named
``we"ird`` is written ``"we""ird"``. A word in quotes is never an option. Running, completion and help use this parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipemagic import sql
from pipemagic.errors import SessionError, UnsupportedError, UsageError
from pipemagic.suggestions import did_you_mean, instead_of
from pipemagic.text import has_secret

_WORD = re.compile(r"""\s*((?:"(?:[^"]|"")*(?:"|\Z)|'(?:[^']|'')*(?:'|\Z)|[^\s"'])+)""")
_PIECE = re.compile(r""""((?:[^"]|"")*)("|\Z)|'((?:[^']|'')*)('|\Z)|[^"']+""")
_ITEM = re.compile(r""""(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|\([^()]*\)|.""", re.DOTALL)

MOST_CHOICES = 60
"""The most letters of choices in a usage line."""

_USER = re.compile(r"[A-Za-z][\w+.-]*://(?:[^\s/?#]*|\S*:\S*)@|[^\s:/@\\]{2,}:\S*@[\w\[]\S*\Z")
"""Matches an address with a user and perhaps a password, but not quoted SQL, which contains spaces."""

Parser = Callable[[str, str], Any]
"""Converts the text of an argument. The second parameter is the argument's name, for the UsageError."""


@dataclass(frozen=True, kw_only=True)
class _Argument:
    choices: tuple[str, ...] = ()
    """The valid values; case is ignored."""
    type: Parser | None = None
    """Converts the text; without it the value is a str."""
    completes: str = ""
    """The kind of name to complete; by default it follows from the name of the argument (see `kind_of`)."""
    many: bool = False
    """True if a positional takes all remaining words, or an option can be repeated."""
    code: bool = False
    """True if the value is SQL, JSON or an address, which may contain text that looks like a password."""
    own_braces: bool = False
    """True if the value is SQL or JSON, in which braces have another meaning."""


@dataclass(frozen=True)
class Positional(_Argument):
    """An argument recognized by its position; ``name`` is in capitals, as in the usage line."""

    name: str
    help: str
    optional: bool = False

    @property
    def required(self) -> bool:
        """True if the argument must be present."""
        return not self.optional

    @property
    def metavar(self) -> str:
        """The argument in the usage line."""
        return "|".join(self.choices) or self.name

    label = metavar


@dataclass(frozen=True)
class Option(_Argument):
    """An argument that begins with a dash; it takes the next word if it has a ``value``, else it is a switch.

    The option ``--`` takes the rest of the line unchanged.
    """

    flag: str
    help: str
    value: str = ""
    short: str = ""
    required: bool = False
    leads: bool = False
    """Tab offers it before the values that can be in its place."""

    @property
    def name(self) -> str:
        """The flag."""
        return self.flag

    @property
    def metavar(self) -> str:
        """The value in the usage line; long choices are in the help instead."""
        choices = "|".join(self.choices)
        return choices if choices and len(choices) <= MOST_CHOICES else self.value

    @property
    def label(self) -> str:
        """The option and its value in a list of arguments: ``-o, --out NAME``."""
        return f"{f'{self.short}, ' if self.short else ''}{self.flag} {self.metavar}".rstrip()


@dataclass
class ParsedArguments:
    """The values by positional name (``TABLE``) or flag (``--as``), the switches, and the repeated values."""

    values: dict[str, Any] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    lists: dict[str, list[Any]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str) -> Any:
        """Return a value, or None if the argument is absent."""
        return self.values.get(name)

    def all(self, name: str) -> list[Any]:
        """Return all values of an argument that can be repeated."""
        return self.lists.get(name, [])

    def on(self, flag: str) -> bool:
        """Return True if the switch is present."""
        return flag in self.switches

    def one_of(self, *names: str) -> str | None:
        """Return the name of the argument that is present, or None; raise UsageError if two are present."""
        matches = [name for name in names if name in self.switches or self.get(name) is not None]
        if len(matches) > 1:
            raise UsageError(f"{matches[0]} and {matches[1]} cannot be used together")
        return matches[0] if matches else None


_BY_NAME = {
    "TABLE": "table", "A": "table", "B": "table", "COLUMN": "column", "A,B": "column", "KEY[,KEY]": "column",
    "FRAME": "frame", "GROUP": "group", "CODE": "location", "FILE": "file", "PATH": "file",
    "VARIABLE": "environment variable", "--on": "connection", "--to": "connection", "--location": "location",
    "--params": "dict", "--out": "name", "--with": "snippet", "TARGET": "target", "SLUG": "organization",
}  # fmt: skip
"""The kinds of arguments without ``completes``, by flag or by the name of their value."""


def kind_of(argument: Option | Positional) -> str:
    """Return the kind of name that an argument takes, or '' for any text; ``|`` separates several kinds."""
    if argument.completes:
        return argument.completes
    value = argument.value.split(".")[0] if isinstance(argument, Option) else ""
    return _BY_NAME.get(value) or _BY_NAME.get(argument.name, "")


# -- words


@dataclass(frozen=True)
class Word:
    """A word of a line: its text without quotes, its source text, its offsets, and its unclosed quote or ''."""

    text: str
    raw: str
    start: int
    end: int
    unclosed: str = ""

    @property
    def quoted(self) -> bool:
        """True if the word begins with a quote."""
        return self.raw[:1] in ("'", '"')

    @property
    def is_option(self) -> bool:
        """True if the word is the name of an option; ``-`` alone is not."""
        return not self.quoted and self.text.startswith("-") and self.text != "-"


def split(line: str) -> Iterator[Word]:
    """Split a line into words; the last word may have an unclosed quote."""
    at = 0
    while match := _WORD.match(line, at):
        pieces = list(_PIECE.finditer(match[1]))
        last, at = pieces[-1], match.end()
        unclosed = next((quote for quote, end in (('"', last[2]), ("'", last[4])) if end == ""), "")
        yield Word("".join(map(_unquote, pieces)), match[1], match.start(1), at, unclosed)


def _unquote(piece: re.Match[str]) -> str:
    if piece[1] is not None:
        return piece[1].replace('""', '"')
    return piece[0] if piece[3] is None else piece[3].replace("''", "'")


def words(line: str) -> Iterator[Word]:
    """Split a line into words; raise UsageError for an unclosed quote."""
    for word in split(line):
        _check_closed(word, line)
        yield word


def _check_closed(word: Word, line: str) -> None:
    if word.unclosed:
        shown = "" if "@" in line else f": {line[word.start :].strip()[:40]}"  # it may contain a password
        raise UsageError(f"unclosed quote{shown}")


# -- types of arguments


def items(text: str, name: str) -> list[str]:
    """Split a list at its commas, except those inside quotes, brackets and parentheses.

    Raise UsageError for an empty item and for an empty list; ``name`` is the option in the message.
    """
    parts = [""]
    for piece in _ITEM.findall(text):
        if piece == ",":
            parts.append("")
        else:
            parts[-1] += piece
    stripped = [item.strip() for item in parts]
    if all(stripped):
        return stripped
    named = ",".join(filter(None, stripped))
    if not named:
        raise UsageError(f"{name} requires at least one name")
    raise UsageError(f"{name} {text.strip()[:60]}: the list has an empty item", hint=f"write {name} {named[:60]}")


def names(text: str, name: str) -> list[str]:
    """Return the names in a list without SQL quotes; raise UsageError as `items` does."""
    return [sql.unquote(item) for item in items(text, name)]


def table(text: str, name: str) -> str:  # noqa: ARG001
    """Return the name of an existing table, which may be written with its schema: ``main.flights``."""
    return _table(text, new=False)


def new_table(text: str, name: str) -> str:  # noqa: ARG001
    """Return the name of a table that may be created."""
    return _table(text, new=True)


def _table(text: str, *, new: bool) -> str:
    try:
        return sql.table_name(text, new=new)
    except UnsupportedError as error:
        raise UsageError(str(error)) from None


def at_least(minimum: int) -> Parser:
    """Return a parser for whole numbers of at least ``minimum``."""

    def parse_number(text: str, name: str) -> int:
        if not re.fullmatch(r"\d{1,12}", text, re.ASCII) or int(text) < minimum:
            raise UsageError(f"{name} must be a whole number of at least {minimum}, not {text!r}")
        return int(text)

    return parse_number


def duration(text: str, name: str) -> float:
    """Return the seconds of ``90s``, ``10m`` or ``1h``."""
    from pipemagic.session.keep_alive import parse_duration

    try:
        return parse_duration(text)
    except SessionError as error:
        raise UsageError(f"{name}: {error.message}", hint=error.hint) from None


# -- secrets


def has_password(text: str) -> bool:
    """Return True if a word is an address with a user and perhaps a password."""
    return _USER.match(text) is not None


def _token_on_line() -> UsageError:
    return UsageError(
        "tokens are not accepted on the line of a magic, because they would be saved in the notebook and the history",
        hint="put the token into an environment variable, and name the variable with --token-env",
    )


def refuse_secrets(line: str) -> None:
    """Raise UsageError if the line contains text that looks like a token; the message does not repeat it."""
    if has_secret(line):
        raise _token_on_line()


def refuse_password(text: str) -> None:
    """Raise UsageError for an address with a user or a password; the message does not repeat it."""
    if has_password(text):
        raise UsageError(
            "the address contains a token or a password, which would be saved with the notebook",
            hint="remove it, and name an environment variable that contains the token with --token-env",
        )


# -- arguments


@dataclass(frozen=True)
class Assigned:
    """A word and its argument, which is None for an unknown option and for an extra positional.

    ``flag`` is the option's name as written, '' if the word is a value. ``value`` is None for an option without ``=``.
    """

    word: Word
    argument: Option | Positional | None
    flag: str
    value: str | None


ValueOf = Callable[[Assigned], str]
"""Returns the value of an argument, in which ``{name}`` may be a variable (`line_variables`)."""


def _as_written(place: Assigned) -> str:
    return place.value or ""


def find_option(name: str, options: Sequence[Option]) -> Option | None:
    """Return the option with that long or short name, None if there is none."""
    return next((option for option in options if name in (option.flag, option.short)), None)


def assign(given: Iterable[Word], positionals: Sequence[Positional], options: Sequence[Option]) -> Iterator[Assigned]:
    """Assign words to arguments, without checks."""
    remaining = iter(positionals)
    place: Positional | None = None
    waiting: Option | None = None
    for word in given:
        if waiting is not None:
            yield Assigned(word, waiting, "", word.text)
            waiting = None
        elif word.is_option:
            flag, equals, value = word.text.partition("=")
            option = find_option(flag, options)
            yield Assigned(word, option, flag, value if equals else None)
            waiting = option if option is not None and option.value and not equals else None
        else:
            place = place if place is not None and place.many else next(remaining, None)
            yield Assigned(word, place, "", word.text)


def argument_at(
    line: str, at: int, positionals: Sequence[Positional], options: Sequence[Option]
) -> tuple[Assigned, list[Assigned]]:
    """Return the word at an offset and the words before it, with their arguments; between words it is empty."""
    line_words = list(split(line))
    current = next((word for word in line_words if word.start <= at <= word.end), Word("", "", at, at))
    *before, here = assign([*(word for word in line_words if word.end < at), current], positionals, options)
    return here, before


def given_values(assigned: Iterable[Assigned]) -> ParsedArguments:
    """Return the values of the options on a line that may be incomplete or wrong; nothing is checked or converted."""
    pairs = (
        (assignment.argument.name, assignment.value)
        for assignment in assigned
        if isinstance(assignment.argument, Option)
    )
    return ParsedArguments({name: value for name, value in pairs if value})


def waiting_option(assigned: Sequence[Assigned]) -> Option | None:
    """Return the last option if it has no value yet, otherwise None."""
    last = assigned[-1] if assigned else None
    if last is None or not last.flag or last.value is not None or not isinstance(last.argument, Option):
        return None
    return last.argument if last.argument.value else None


def leading_options(line: str, options: Sequence[Option]) -> tuple[list[Assigned], str]:
    """Return the options at the beginning of a line, and the rest of the line.

    A ``--`` that stands alone begins a comment of SQL.
    """
    assignments: list[Assigned] = []
    for assignment in assign(split(line), (), options):
        if assignment.word.raw == "--" or (assignment.argument is None and not assignment.flag):
            return assignments, line[assignment.word.start :]
        assignments.append(assignment)
    return assignments, ""


def leading(
    line: str, options: Sequence[Option], usage: str, value_of: ValueOf = _as_written
) -> tuple[ParsedArguments, str]:  # fmt: skip
    """Parse the options at the beginning of a line; return them and the rest of the line."""
    text = line.lstrip()
    if not text.startswith("-"):
        return ParsedArguments(), text
    assignments, rest = leading_options(line, options)
    for assignment in assignments:
        _check_closed(assignment.word, line)
    return _collect(assignments, options, usage, value_of), rest


def parse(
    line: str,
    positionals: Sequence[Positional],
    options: Sequence[Option],
    usage: str,
    value_of: ValueOf = _as_written,
) -> ParsedArguments:
    """Parse a whole line; raise UsageError, which shows ``usage``, if it does not match the arguments."""
    refuse_secrets(line)
    rest = find_option("--", options)
    dashes = next((word for word in split(line) if word.raw == "--"), None) if rest is not None else None
    head = line if dashes is None else line[: dashes.start]
    _refuse_comment(head, positionals, options)
    args = _collect(assign(list(words(head)), positionals, options), options, usage, value_of)
    if rest is not None and dashes is not None:
        args.values["--"] = _convert(rest, line[dashes.end :])
    required: list[Positional | Option] = [*positionals, *options]
    for argument in required:
        if argument.required and argument.name not in args.values:
            if isinstance(argument, Positional):
                raise UsageError(f"{argument.name} is missing", hint=usage_hint(usage))
            added = f"{argument.flag} {argument.value}"
            whole = " ".join(filter(None, [*_command(usage), head.strip(), added, line[len(head) :].strip()]))
            raise UsageError(f"{added} is missing", hint=f"write {whole}")
    return args


def no_comment(comment: str) -> UsageError:
    """Return the error for a comment on a magic line."""
    return UsageError("comments are not allowed on a magic line", hint=f"remove {comment}")


def _refuse_comment(line: str, positionals: Sequence[Positional], options: Sequence[Option]) -> None:
    """Raise UsageError for a # that begins a comment; in quotes or in an option's value it does not.

    Without a space after the #, it begins one if no argument is left for the word.
    """
    for place in assign(split(line), positionals, options):
        is_value = isinstance(place.argument, Option) or (place.argument is not None and place.word.raw != "#")
        if place.word.raw.startswith("#") and not is_value:
            raise no_comment(line[place.word.start :].strip())


def _collect(assigned: Iterable[Assigned], options: Sequence[Option], usage: str, value_of: ValueOf) -> ParsedArguments:
    """Convert the values of a line; raise UsageError for values that do not match their arguments."""
    args, assignments = ParsedArguments(), list(assigned)
    before: Option | Positional | None = None
    for item in assignments:
        argument = item.argument
        if argument is None and item.flag:
            raise _unknown_option(item.flag, options, usage)
        if argument is None:
            raise UsageError("too many arguments", hint=_rest_of_value(before) or usage_hint(usage))
        before = argument
        if isinstance(argument, Option) and item.flag:
            if argument.flag in args.values and not argument.many:
                raise UsageError(f"{argument.flag} can be used only once")
            if not argument.value:
                if item.value is not None:
                    raise UsageError(f"{argument.flag} takes no value")
                args.switches.add(argument.flag)
        if item.value is not None:
            if isinstance(argument, Option) and not item.value.strip():
                raise _without_value(argument)
            value = args.values[argument.name] = _convert(argument, value_of(item))
            if argument.many:
                args.lists.setdefault(argument.name, []).append(value)
    if (waiting := waiting_option(assignments)) is not None:
        raise _without_value(waiting)
    return args


def _rest_of_value(argument: Option | Positional | None) -> str:
    """Return the hint for a word behind the value of an option that may belong to it, otherwise ''."""
    if not isinstance(argument, Option) or not argument.value:
        return ""
    if argument.many:
        return f"repeat the option for each value: {argument.flag} {argument.value} {argument.flag} {argument.value}"
    return f'a value with spaces needs quotes: {argument.flag} "..."'


def _without_value(option: Option) -> UsageError:
    return UsageError(f"{option.flag} requires a value: {option.flag} {option.value}")


def _convert(argument: Option | Positional, text: str) -> Any:
    if not argument.code:
        refuse_password(text)
    if argument.choices:
        choice = next((candidate for candidate in argument.choices if candidate.lower() == text.lower()), None)
        if choice is None:
            message = f"{argument.name} must be one of {', '.join(argument.choices)}, not {text!r}"
            raise UsageError(message, hint=did_you_mean(text, argument.choices))
        return choice
    return text if argument.type is None else argument.type(text, argument.name)


def _unknown_option(flag: str, options: Sequence[Option], usage: str) -> UsageError:
    name = flag.lower()
    if ("token" in name and "env" not in name) or name == "--jwt":
        return _token_on_line()
    hint = instead_of(flag, "option", [option.flag for option in options])
    return UsageError(f"unknown option {flag[:40]}", hint=hint or f"{help_on(usage)} lists the options")


def asks_for_help(line: str) -> bool:
    """Return True if ``--help`` or ``-h`` is a word of the line outside quotes."""
    return any(word.raw in ("--help", "-h") for word in split(line))


MOST_USAGE = 100
"""Maximum length of a usage line in a message."""


def usage_hint(usage: str) -> str:
    """Return the usage line as a hint, or how to see it if it is long."""
    return f"usage: {usage}" if len(usage) <= MOST_USAGE else f"{help_on(usage)} shows the usage"


def help_on(usage: str) -> str:
    """Return the line that shows help on the magic or command at the beginning of a usage line."""
    name = _command(usage)[-1]
    return f"%pipedb help {'sql' if name in ('%sql', '%%sql') else name}"


def _command(usage: str) -> list[str]:
    """Return the words before the arguments of a usage line: the magic, and its command."""
    parts = usage.split()
    return parts[: 2 if parts[0] == "%pipedb" else 1]


def usage_of(head: str, positionals: Sequence[Positional], options: Sequence[Option]) -> str:
    """Return the usage line: ``head`` and the arguments, optional ones in brackets."""
    parts = [head]
    for positional in positionals:
        shown = positional.metavar + ("..." if positional.many and not positional.choices else "")
        parts.append(shown if positional.required else f"[{shown}]")
    for option in options:
        flag = f"{option.short}|{option.flag}" if option.short else option.flag
        shown = f"{flag} {option.metavar}".rstrip()
        parts.append((shown if option.required else f"[{shown}]") + ("..." if option.many else ""))
    return " ".join(parts)
