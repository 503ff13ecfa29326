"""The tokenizer: statements, parameters and positions of SQLite text.

One place for splitting a script, finding parameters, drawing a caret. It follows SQLite's own tokenizer
(https://www.sqlite.org/lang.html and ``tokenize.c``) and the rule of ``sqlite3_complete`` for triggers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from unicodedata import combining, east_asian_width

# The letters of names are SQLite's: ASCII ones, digits, _ and $, and everything beyond ASCII, so that a
# no-break space or an emoji is a letter. They are written as "none of the other ASCII characters": Python compiles a
# class with a range to the end of Unicode a hundred times slower.
FIRST_LETTER = r"[^\x00-@\[-^`{-\x7f]"
LETTER = r"[^\x00-\#%-/:-@\[-^`{-\x7f]"

# Blanks are ASCII, or a byte order mark. Every alternative runs on to its natural end without trying again (``*+``),
# which keeps the time linear whatever the text is.
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

HIGHEST_PARAMETER = 32766  # SQLITE_MAX_VARIABLE_NUMBER
_UNFINISHED = 3  # tokens at the end of a text that may be others when it goes on (`/*`, `1e+`)
_LONGEST_HEAD = 6  # tokens: EXPLAIN QUERY PLAN CREATE TEMP TRIGGER
_CLOSING_QUOTES = {'"': '"', "`": "`", "'": "'", "[": "]"}
_SHORT = 512  # characters of a text whose tokens are kept: a cell asks for the same ones many times, and runs again


class Token(NamedTuple):
    """A piece of the text: its kind (a group name of the pattern), the text and where it starts."""

    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script.

    ``text`` has no leading blanks, comments or trailing ``;``. ``start`` is the offset of its first character in
    the script; ``line`` counts from 1. ``keyword`` is its first word in capitals (``WITH``, ``BEGIN``, ...).
    ``parameters`` holds what SQLite would number from 1: the name with its prefix, or None for ``?``.
    """

    text: str
    start: int
    line: int
    keyword: str
    parameters: tuple[str | None, ...]


def tokens(text: str) -> Iterator[Token]:
    """Give every token of the text, blanks and comments included; joined they are the text again."""
    return iter(_tokens_of_short(text)) if len(text) <= _SHORT else _tokens(text)


@lru_cache(maxsize=256)
def _tokens_of_short(text: str) -> tuple[Token, ...]:
    return tuple(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        yield Token(match.lastgroup or "op", match.group(), match.start())


@lru_cache(maxsize=512)
def _split_short(script: str) -> tuple[Statement, ...]:
    return tuple(_split(script))


def split(script: str) -> tuple[Statement, ...]:
    """Split a script into its statements; comments and empty statements between them are left out."""
    return _split_short(script) if len(script) <= 4096 else tuple(_split(script))


def is_complete(script: str) -> bool:
    """Tell whether the text ends where a statement does, so that what comes next is another one; or is empty."""
    piece, last = None, None
    for last, piece in _followed(tokens(script)):  # noqa: B007 - the last ones are looked at
        pass
    open_comment = last is not None and last.text.startswith("/*") and not last.text.endswith("*/")
    return piece is None and not open_comment


def keyword(sql: str) -> str:
    """Give the first word of the text in capitals, or '' if there is none."""
    for token in tokens(sql):
        if token.kind not in ("space", "comment", "semi"):
            return token.text.upper() if token.kind == "word" else ""
    return ""


def _split(script: str) -> Iterator[Statement]:
    line, counted = 1, 0
    for piece in _pieces(script):
        start, last = piece.head[0].start, piece.last
        line += script.count("\n", counted, start)
        counted = start
        yield Statement(
            text=script[start : last.start + len(last.text)],
            start=start,
            line=line,
            keyword=piece.head[0].text.upper() if piece.head[0].kind == "word" else "",
            parameters=tuple(piece.parameters),
        )


def statements_of(chunks: Iterable[str]) -> Iterator[str]:
    """Give the text of each statement of a script that comes in chunks, without having all of it in memory."""
    held: list[str] = []
    for token, piece in _followed(_tokens_of(chunks)):
        if piece is not None:
            held.append(token.text)
        elif held:
            yield "".join(held).rstrip()
            held = []
    if held:
        yield "".join(held).rstrip()


def _tokens_of(chunks: Iterable[str]) -> Iterator[Token]:
    """Give the tokens of a text that comes in chunks; ``start`` is of no use there.

    The last tokens of what is there may go on in the next chunk. Where that is one long token, more text is waited
    for before each new look, so that the time stays linear.
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
        rest = rest[ready[-1].start + len(ready[-1].text) :] if ready else rest
    yield from tokens(rest + "".join(waiting))


def _pieces(script: str) -> Iterator[_Piece]:
    """Give what is to be known of each statement."""
    last: _Piece | None = None
    for _, piece in _followed(tokens(script)):
        if last is not None and piece is None:
            yield last
        last = piece
    if last is not None:
        yield last


def _followed(found: Iterable[Token]) -> Iterator[tuple[Token, _Piece | None]]:
    """Give every token with the statement that it belongs to so far, None between two statements."""
    piece: _Piece | None = None
    for token in found:
        if token.kind not in ("space", "comment"):
            if piece is None:
                piece = _Piece(token) if token.kind != "semi" else None
            elif token.kind != "semi" or (piece.is_trigger and not piece.ends_trigger):
                piece.add(token)
            else:
                piece = None
        yield token, piece


class _Piece:
    """What is kept of a statement while it is read: not all its tokens, which take far more room than its text."""

    def __init__(self, first: Token) -> None:
        self.head: list[Token] = []
        self.before_last = self.last = first
        self.parameters: list[str | None] = []
        self._known: set[str] = set()
        self.add(first)

    def add(self, token: Token) -> None:
        """Take in the next token that is neither blank nor comment."""
        if len(self.head) < _LONGEST_HEAD:
            self.head.append(token)
        self.before_last, self.last = self.last, token
        if token.kind == "param" and token.text not in self._known:
            self._number(token.text)

    @property
    def is_trigger(self) -> bool:
        """Whether it creates a trigger, so that a ``;`` is not its end."""
        words = [token.text.upper() for token in self.head]
        if words[:1] == ["EXPLAIN"]:
            words = words[3:] if words[1:3] == ["QUERY", "PLAN"] else words[1:]
        if words[:1] != ["CREATE"]:
            return False
        return words[1:2] == ["TRIGGER"] or (words[1:2] in (["TEMP"], ["TEMPORARY"]) and words[2:3] == ["TRIGGER"])

    @property
    def ends_trigger(self) -> bool:
        """Whether a trigger's text is whole: its last word is an END right after a ``;``."""
        return self.last.text.upper() == "END" and self.before_last.kind == "semi"

    def _number(self, text: str) -> None:
        """Give a parameter SQLite's number: ``?`` takes the next one, ``?N`` its own, a name one each."""
        names = self.parameters
        if text == "?":
            names.append(None)
        elif text[0] == "?":
            number = _number(text[1:])
            if number is None:
                return  # SQLite refuses it, with a better message
            names.extend([None] * (number - len(names)))
            names[number - 1] = names[number - 1] or text
        elif "(" not in text or text.endswith(")"):
            names.append(text)
            self._known.add(text)


def _number(digits: str) -> int | None:
    """Read the number of ``?N``; None if SQLite does not have such a parameter."""
    digits = digits.lstrip("0")
    number = int(digits) if 0 < len(digits) <= 5 else 0
    return number if 0 < number <= HIGHEST_PARAMETER else None


def position(text: str, offset: int) -> tuple[int, int]:
    """Give line (from 1) and column (from 0) of a character offset."""
    offset = max(0, min(offset, len(text)))
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1)


def character_offset(text: str, byte_offset: int) -> int:
    """Turn an offset in UTF-8 bytes, as servers give it, into one in characters."""
    before = text.encode("utf-8", "replace")[: max(0, byte_offset)]
    return len(before.decode("utf-8", "ignore"))


def caret(text: str, offset: int, *, width: int = 76) -> str:
    """Draw the line that holds a character offset, with a caret below the place.

    A long line is cut to ``width`` characters around the place; tabs and other control characters show as blanks.
    """
    number, column = position(text, offset)
    line = "".join(" " if char < " " else char for char in text.split("\n")[number - 1])
    cut = max(0, column - width // 2) if len(line) > width else 0
    shown = line[cut : cut + width].rstrip() if column < len(line.rstrip()) else line[cut : cut + width]
    return f"{shown}\n{' ' * display_width(line[cut:column])}^"


def display_width(text: str) -> int:
    """Tell how many columns of a terminal the text takes: two for East Asian letters and emoji, none for accents."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def unquote(name: str) -> str:
    """Return the name that a word of SQL stands for, without its quotes; the closing one may still be missing."""
    end = _CLOSING_QUOTES.get(name[:1])
    if end is None:
        return name
    inside = name[1:-1] if len(name) > 1 and name.endswith(end) else name[1:]
    return inside if end == "]" else inside.replace(end * 2, end)


def quote(name: str) -> str:
    """Quote a name for use in SQL: any text without NUL becomes one identifier."""
    if "\0" in name or not name:
        raise ValueError(f"{name!r} cannot be a name in SQL")
    return '"' + name.replace('"', '""') + '"'
