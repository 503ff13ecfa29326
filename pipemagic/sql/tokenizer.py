"""Split SQLite text into tokens; positions in it: offsets, lines and columns, carets.

The rules are those of SQLite's own tokenizer (https://www.sqlite.org/lang.html and ``tokenize.c``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from pipemagic.text import display_width

# The letters of names are SQLite's: ASCII ones, digits, _ and $, and everything beyond ASCII, so that a
# no-break space or an emoji is a letter. They are written as "none of the other ASCII characters": Python compiles a
# class with a range to the end of Unicode a hundred times slower.
FIRST_LETTER = r"[^\x00-@\[-^`{-\x7f]"
LETTER = r"[^\x00-\#%-/:-@\[-^`{-\x7f]"

# Blanks are ASCII, or a byte order mark. All repetitions are possessive (``*+``),
# so that the time is linear for any text.
_TOKEN = re.compile(
    rf"""
    (?P<space>[ \t\n\f\r]\s*+|\ufeff)
  | (?P<comment>--[^\n]*+|/\*(?=.).*?(?:\*/|\Z))
  | (?P<blob>[xX]'[^']*+'?)
  | (?P<string>'(?:[^']++|'')*+'?)
  | (?P<quoted>"(?:[^"]++|"")*+"?|`(?:[^`]++|``)*+`?|\[[^\]]*+\]?)
  | (?P<param>\?[0-9]*+|[$@:\#](?:::)*+{LETTER}(?:{LETTER}++|::)*+(?:\([^\s)]*+\)?)?)
  | (?P<number>(?:0[xX][0-9a-fA-F]++|(?:\d[\d_]*+(?:\.[\d_]*+)?|\.\d[\d_]*+)(?:[eE][+-]?\d++)?){LETTER}*+)
  | (?P<word>{FIRST_LETTER}{LETTER}*+)
  | (?P<semi>;)
  | (?P<op>[$@:\#](?:::)*+|->>|->|\|\||<<|>>|<=|>=|<>|!=|==|.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)

BLANK = ("space", "comment")
"""The kinds of tokens that SQLite ignores."""

_UNFINISHED = 3  # tokens at the end of a chunk that may change with the next one (`/*`, `1e+`)
_SHORT = 512  # the most characters of a text whose tokens are cached, for lint, completion and hints


class Token(NamedTuple):
    """A token: its kind (a group name of the pattern), its text and its offset."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The word in capitals; '' for other tokens, including quoted names."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def is_finished(self) -> bool:
        """False for a string, name or comment that lacks its end, and so would continue in a text behind it."""
        match self.kind:
            case "comment" if self.text.startswith("/*"):
                return self.text.endswith("*/") and len(self.text) > len("/*/")
            case "string" | "blob":
                return self.text.count("'") % 2 == 0
            case "quoted":
                return self.text.endswith("]") if self.text[0] == "[" else self.text.count(self.text[0]) % 2 == 0
            case "param" if "(" in self.text:
                return self.text.endswith(")")
        return True


def tokens(text: str) -> Iterable[Token]:
    """Return every token of the text, including blanks and comments; joined they are the text."""
    return _tokens_of_short(text) if len(text) <= _SHORT else _tokens(text)


def significant(text: str) -> list[Token]:
    """Return the tokens of the text without blanks and comments."""
    return [token for token in tokens(text) if token.kind not in BLANK]


@lru_cache(maxsize=256)
def _tokens_of_short(text: str) -> tuple[Token, ...]:
    return tuple(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        yield Token(match.lastgroup or "op", match.group(), match.start())


def tokens_of_chunks(chunks: Iterable[str]) -> Iterator[Token]:
    """Yield the tokens of a text in chunks; their ``start`` is not meaningful.

    The last tokens of a chunk may continue in the next one. For one long token, the text doubles before each new
    attempt, so that the time is linear.
    """
    rest, waiting, size = "", [], 0
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size < len(rest):
            continue
        rest, waiting, size = rest + "".join(waiting), [], 0
        ready = list(tokens(rest))[:-_UNFINISHED]
        yield from ready
        rest = rest[ready[-1].end :] if ready else rest
    yield from tokens(rest + "".join(waiting))


# -- positions


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line (from 1) and column (from 0) of a character offset."""
    offset = max(0, min(offset, len(text)))
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1)


def character_offset(text: str, byte_offset: int) -> int:
    """Convert an offset in UTF-8 bytes, as in responses of servers, to one in characters."""
    before = text.encode("utf-8", "replace")[: max(0, byte_offset)]
    return len(before.decode("utf-8", "ignore"))


def caret(text: str, offset: int, *, width: int = 76) -> str:
    """Return the line that contains a character offset, with a caret below the position.

    A long line is shortened to ``width`` characters around it; tabs and other control characters become blanks.
    """
    number, column = position(text, offset)
    line = "".join(" " if char < " " else char for char in text.split("\n")[number - 1])
    cut = max(0, column - width // 2) if len(line) > width else 0
    shown = line[cut : cut + width].rstrip() if column < len(line.rstrip()) else line[cut : cut + width]
    return f"{shown}\n{' ' * display_width(line[cut:column])}^"
