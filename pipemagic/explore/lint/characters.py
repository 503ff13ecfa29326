"""Characters that look like others, which made a part of the statement a name, and letters whose case stays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import is_call, text_of
from pipemagic.explore.query import Query
from pipemagic.explore.sqlite_reference import KEYWORDS
from pipemagic.explore.token_tree import ENDS
from pipemagic.sql import Token, quote, significant
from pipemagic.sql.lookalikes import Lookalike, lookalikes

_BRACKETS = {"（": "）", "［": "］", "｛": "｝"}
_SEPARATORS = (",", ";")
_MARKS = ("'", '"', "-", "*", "/", "<", ">", "=", "+", "%", "|", "<=", ">=", "<>", *_SEPARATORS)
"""What no name begins with on purpose."""

_PRIMES = "′″"
_WORD = re.compile(r"\w+")
_VALUES = ("quoted", "number", "string", "blob", "param")


@dataclass(frozen=True)
class Misread:
    """A word of a statement with characters that look like others, ``chars``, and are letters for SQLite."""

    text: str
    chars: Sequence[Lookalike]

    @cached_property
    def plain(self) -> str:
        """The text with what was meant instead of each of the characters."""
        instead = {char.offset: char.instead for char in self.chars}
        return "".join(instead.get(at, char) for at, char in enumerate(self.text)).strip()

    @property
    def pieces(self) -> list[str]:
        """The words between the characters, in capitals."""
        offsets = {char.offset for char in self.chars}
        return "".join(" " if at in offsets else char for at, char in enumerate(self.text)).upper().split()

    @property
    def cause(self) -> str:
        """The first of the characters, and where it is."""
        char = self.chars[0]
        before, after = (_WORD.findall(part) for part in (self.text[: char.offset], self.text[char.offset + 1 :]))
        place = f" after {before[-1]}" if before else f" before {after[0]}" if after else ""
        return f"SQLite reads {char.name}{place} as a letter"

    def fix(self, *, after_as: bool = False) -> str:
        """Return what to write instead; a name after AS that consists of several words needs quotes."""
        kinds = {char.instead for char in self.chars}
        if after_as and " " in self.plain and KEYWORDS.isdisjoint(self.pieces):
            return f"write {quote(self.plain)}"
        if kinds <= {"", " "}:
            return "write a space" if " " in kinds else "remove it"
        return f"write {self.plain}"


def misread_words(found: Sequence[Token]) -> Iterator[tuple[int, Misread]]:
    """Yield the words with characters that look like others, and their places among the tokens of a statement."""
    for at, token in enumerate(found):
        if token.kind == "word" and not token.text.isascii():
            chars = list(lookalikes(token.text))
            if chars:
                yield at, Misread(token.text, chars)


def hidden_where(text: str) -> Misread | None:
    """Return the word of a statement that contains WHERE, and a character that looks like another; None without one."""
    words = () if text.isascii() else misread_words(significant(text))
    return next((word for _, word in words if "WHERE" in word.pieces), None)


def lookalike_characters(context: Context) -> Iterator[str]:
    """Yield each name that the statement defines by accident.

    A name that a statement only reads exists, since the statement ran.
    """
    if context.text.isascii():
        return
    tokens = significant(context.text)
    names = {name.lower() for query in context.queries for source in query.sources for name in source.names}
    is_definition = context.statement.keyword in ("CREATE", "ALTER")
    for at, word in misread_words(tokens):
        what = "a name" if is_definition or _is_table(tokens, at) else "an alias" if _is_alias(tokens, at) else ""
        after_as = at > 0 and tokens[at - 1].word == "AS"
        if what and word.text.lower() not in names and _is_accident(word, after_as=after_as):
            yield f'{word.cause} and "{word.text}" as {what}: {word.fix(after_as=after_as)}'


def _is_alias(tokens: Sequence[Token], at: int) -> bool:
    """Return True if the word at an index can only be an alias: it follows AS, a name, or the end of an expression."""
    before = tokens[at - 1] if at else Token("semi", "", 0)
    if before.word == "AS":
        return not _is_in_cast(tokens, at)
    if before.kind == "word":
        return before.word in ENDS or before.word not in KEYWORDS
    return before.kind in _VALUES or before.text in (")", "}")


def _is_in_cast(tokens: Sequence[Token], at: int) -> bool:
    """Return True if the innermost parenthesis around a token is that of a CAST, where AS precedes a type."""
    depth = 0
    for index in range(at - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(tokens[index].text, 0)
        if depth < 0:
            return tokens[index - 1].word == "CAST"
    return False


def _is_table(tokens: Sequence[Token], at: int) -> bool:
    """Return True for the name of a common table expression."""
    before = tokens[at - 1].text.upper() if at else ""
    after = [token.text.upper() for token in tokens[at + 1 : at + 3]]
    return before in ("WITH", "RECURSIVE", ",") and after == ["AS", "("]


def _is_accident(word: Misread, *, after_as: bool) -> bool:
    """Return True if such a name is not chosen on purpose.

    Names of other scripts may contain signs and blanks of their own, such as a zero-width non-joiner, or brackets.
    """
    if not after_as and word.pieces and word.pieces[0] in KEYWORDS:
        return True
    return any(_is_accidental(word, char) for char in word.chars)


def _is_accidental(word: Misread, char: Lookalike) -> bool:
    text, at = word.text, char.offset
    is_start, is_end = at == 0, at == len(text) - 1
    between_letters = not (is_start or is_end or text[at - 1].isascii() or text[at + 1].isascii())
    if char.instead in ("", " ", *_SEPARATORS):
        return not between_letters
    if char.char in _BRACKETS or char.char in _BRACKETS.values():
        return any(text.count(opening) != text.count(closing) for opening, closing in _BRACKETS.items())
    if char.char in _PRIMES:
        return is_start
    return char.instead in _MARKS and (is_start or (is_end and char.instead in ("'", '"', "-")))


# -- letters beyond ASCII, whose case LIKE, lower() and upper() do not change: É is not é

_ELSEWHERE = "requires an embedded service started with PIPEMAGIC_UNICODE=1"


def letters_beyond_ascii(context: Context) -> Iterator[str]:
    """Yield the LIKE and the lower() or upper() that is compared with such a letter, if no rows were found."""
    if context.finds_rows is not False:
        return
    for query in context.queries:
        for text in _patterns(query, context):
            if letter := _letter(text):
                yield f"LIKE ignores case only for ASCII letters: {letter} {_ELSEWHERE}"
    for comparison in context.comparisons:
        name = comparison.other.name(0).lower() if is_call(comparison.other, 0) else ""
        letter = _letter(text_of(comparison.operand, context.args))
        if letter and name in ("lower", "upper") and len(comparison.other.items) == 2:
            yield f"{name}() changes only ASCII letters: {letter} {_ELSEWHERE}"


def _patterns(query: Query, context: Context) -> Iterator[str | None]:
    """Yield the pattern of each LIKE that is a string or a parameter."""
    for index, word in enumerate(query.part.words()):
        if word == "LIKE":
            yield text_of(query.part.slice(index + 1, index + 2), context.args)


def _letter(text: str | None) -> str:
    """Return the first letter beyond ASCII that has another case; '' if there is none."""
    return next((letter for letter in text or "" if not letter.isascii() and letter.lower() != letter.upper()), "")
