"""What stands on the line of a magic: words, options, and the SQL after them.

Quotes make one word of several, a doubled quote inside stands for one, as in SQL: a table named ``we"ird`` is
written ``"we""ird"``. A quoted word is never an option.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from IPython.core.error import UsageError

from pipemagic import sql

_WORD = re.compile(r"""\s*((?:"(?:[^"]|"")*"|'(?:[^']|'')*'|[^\s"'])+)""")
_PIECE = re.compile(r""""((?:[^"]|"")*)"|'((?:[^']|'')*)'|([^"']+)""")
_ITEM = re.compile(r""""(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|\([^()]*\)|.""", re.DOTALL)
# A column may be named jwt or auth_token: only in an address, or before what is long enough for a token, it is one.
_SECRET = re.compile(
    r"pm[pl]_[\w-]{8}|eyJ[\w-]{8,}\.|bearer\s+\S{16}"
    r"|[?&;](?:auth_?token|jwt)=|(?:auth_?token|jwt)\s*=\s*['\"]*[\w.~+/-]{16}",
    re.IGNORECASE,
)

_USER = re.compile(r"[A-Za-z][\w+.-]*://(?:[^\s/?#]*|\S*:\S*)@|[^\s:/@\\]{2,}:\S*@[\w\[]\S*\Z")
"""A word that is an address with a user, and perhaps a password; SQL in quotes has blanks."""

NO_PASSWORD_HERE = (
    "the address carries a token or a password, which would be saved with the notebook\n"
    "leave it out and name the variable that holds the token with --token-env"
)

NO_TOKEN_HERE = (
    "a token does not go on the line of a magic, where the notebook and the history keep it: "
    "put it into an environment variable and name that with --token-env"
)


@dataclass(frozen=True)
class Positional:
    """A word that means something by its place; ``name`` in capitals, as the usage line shows it."""

    name: str
    help: str
    optional: bool = False
    choices: tuple[str, ...] = ()
    completes: str = ""
    """What it is the name of, for completion, where the name does not tell (see completion/lines.py)."""
    address: bool = False
    """It may be an address, of which errors repeat no password."""
    repeated: bool = False
    """It takes all words that are left: the last one."""


@dataclass(frozen=True)
class Option:
    """A word that begins with a dash; with ``value`` it takes the next word, without it is a switch."""

    flag: str
    help: str
    value: str = ""
    short: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    completes: str = ""
    """As that of Positional."""
    many: bool = False
    code: bool = False
    """It is SQL or JSON, whose strings may look like an address with a password."""


@dataclass
class Arguments:
    """What was given, by positional name (``TABLE``) and flag (``--as``)."""

    values: dict[str, str] = field(default_factory=dict)
    switches: set[str] = field(default_factory=set)
    lists: dict[str, list[str]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def get(self, name: str) -> str | None:
        """Give the value, None if it was not given."""
        return self.values.get(name)

    def all(self, name: str) -> list[str]:
        """Give the words of a positional that takes several, the values of an option given several times."""
        return self.lists.get(name, [])

    def on(self, flag: str) -> bool:
        """Tell whether the switch was given."""
        return flag in self.switches


@dataclass(frozen=True)
class Word:
    """A word of the line without its quotes; ``end`` is the offset after it."""

    text: str
    quoted: bool
    end: int


def words(line: str, start: int = 0) -> Iterator[Word]:
    """Split a line from ``start`` on; UsageError for a quote without its partner."""
    while line[start:].strip():
        match = _WORD.match(line, start)
        if not match or line[match.end() : match.end() + 1] in ("'", '"'):
            shown = "" if "@" in line else f": {line[start:].strip()[:40]}"  # it may hold a password
            raise UsageError(f"a quote is not closed{shown}")
        start = match.end()
        yield Word(_joined(match[1]), match[1][0] in "'\"", start)


def _joined(text: str) -> str:
    return "".join(_plain(match) for match in _PIECE.finditer(text))


def _plain(piece: re.Match[str]) -> str:
    if piece[1] is not None:
        return piece[1].replace('""', '"')
    return piece[3] if piece[2] is None else piece[2].replace("''", "'")


def items(text: str, flag: str) -> list[str]:
    """Split a list at its commas; those inside quotes, brackets and parentheses belong to an item.

    ``flag`` names the option in the UsageError for a list with an empty item, or with none.
    """
    found = [""]
    for piece in _ITEM.findall(text):
        if piece == ",":
            found.append("")
        else:
            found[-1] += piece
    stripped = [item.strip() for item in found]
    if all(stripped):
        return stripped
    named = ",".join(filter(None, stripped))
    if not named:
        raise UsageError(f"{flag} needs at least one name")
    raise UsageError(f"{flag} {text.strip()[:60]}: the list has an empty item; write {flag} {named[:60]}")


def names(text: str, flag: str) -> list[str]:
    """Return the names in a list, without the quotes of SQL around them; UsageError as `items` raises it."""
    return [sql.unquote(item) for item in items(text, flag)]


def refuse_secrets(line: str) -> None:
    """UsageError if the line holds something that looks like a token; the message does not repeat it."""
    if _SECRET.search(line):
        raise UsageError(NO_TOKEN_HERE)


def refuse_password(text: str) -> None:
    """Raise UsageError for an address with a user or a password; the message does not repeat it."""
    if _USER.match(text):
        raise UsageError(NO_PASSWORD_HERE)


def asks_for_help(line: str) -> bool:
    """Return True if ``--help`` or ``-h`` is a word of the line, outside of quotes."""
    return not {"--help", "-h"}.isdisjoint(_WORD.findall(line))


def parse(line: str, positionals: Sequence[Positional], options: Sequence[Option], usage: str) -> Arguments:
    """Read a whole line; UsageError says what is wrong and shows ``usage``."""
    refuse_secrets(line)
    found, rest = _options_anywhere(list(words(line)), options, usage)
    for positional in positionals:
        if rest and positional.repeated:
            found.lists[positional.name], rest = [word.text for word in rest], []
            for text in found.lists[positional.name]:
                refuse_password(text)
        elif rest:
            if not positional.address:
                refuse_password(rest[0].text)
            found.values[positional.name] = _choice(rest.pop(0).text, positional.name, positional.choices)
        elif not positional.optional:
            raise UsageError(f"{positional.name} is missing\nusage: {usage}")
    if rest:
        raise UsageError(f"there are too many words\nusage: {usage}")
    for option in options:
        if option.required and option.flag not in found.values:
            raise UsageError(f"{option.flag} {option.value} is missing\nusage: {usage}")
    return found


def _options_anywhere(given: list[Word], options: Sequence[Option], usage: str) -> tuple[Arguments, list[Word]]:
    found, rest, following = Arguments(), [], iter(given)
    for word in following:
        if word.quoted or not word.text.startswith("-") or word.text == "-":
            rest.append(word)
        else:
            _store(found, word, following, options, usage)
    return found, rest


def leading(line: str, options: Sequence[Option], usage: str) -> tuple[Arguments, str]:
    """Read the options at the beginning of a line; give them and the rest of the line as it stands.

    A ``--`` that stands alone is no option: it begins a comment of SQL.
    """
    found, end = Arguments(), 0
    following = words(line) if line.lstrip().startswith("-") else iter(())
    while re.match(r"\s*-(?!-?(\s|$))", line[end:]):
        end = _store(found, next(following), following, options, usage)
    return found, line[end:].lstrip()


def _store(found: Arguments, word: Word, following: Iterator[Word], options: Sequence[Option], usage: str) -> int:
    """Take in an option and its value, which may be the next word; give the offset after it."""
    option, inline = _find(word.text, options, usage)
    if option.flag in found.values and not option.many:
        raise UsageError(f"{option.flag} stands there twice")
    if not option.value:
        if inline is not None:
            raise UsageError(f"{option.flag} takes no value")
        found.switches.add(option.flag)
        return word.end
    if inline is None:
        value = next(following, None)
        if value is None:
            raise UsageError(f"{option.flag} needs a value: {option.flag} {option.value}")
        inline, word = value.text, value
    if not option.code:
        refuse_password(inline)
    found.values[option.flag] = _choice(inline, option.flag, option.choices)
    if option.many:
        found.lists.setdefault(option.flag, []).append(found.values[option.flag])
    return word.end


def _find(word: str, options: Sequence[Option], usage: str) -> tuple[Option, str | None]:
    name, equals, value = word.partition("=")
    for option in options:
        if name in (option.flag, option.short):
            return option, value if equals else None
    if ("token" in name.lower() and "env" not in name.lower()) or name.lower() == "--jwt":
        raise UsageError(NO_TOKEN_HERE)
    flags = [option.flag for option in options]
    near = difflib.get_close_matches(name, flags, n=1, cutoff=0.5)
    hint = f", did you mean {near[0]}?" if near else ""
    raise UsageError(f"unknown option {name}{hint}\nusage: {usage}")


def _choice(value: str, name: str, choices: tuple[str, ...]) -> str:
    if choices and value not in choices:
        raise UsageError(f"{name} is one of {', '.join(choices)}; not {value!r}")
    return value


def usage_of(head: str, positionals: Sequence[Positional], options: Sequence[Option]) -> str:
    """Give the usage line: ``head`` and what can stand after it, the optional in brackets."""
    parts = [head]
    for positional in positionals:
        shown = "|".join(positional.choices) or positional.name + ("..." if positional.repeated else "")
        parts.append(f"[{shown}]" if positional.optional else shown)
    for option in options:
        value = "|".join(option.choices) or option.value
        flag = f"{option.short}|{option.flag}" if option.short else option.flag
        shown = f"{flag} {value}".rstrip()
        parts.append((shown if option.required else f"[{shown}]") + ("..." if option.many else ""))
    return " ".join(parts)
