"""Corrections of characters: those that look like others, # for comments, operators of other languages, quotes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pipemagic.explore.hints.broken_statement import BrokenStatement, Suggestion
from pipemagic.explore.hints.keywords import COMPARISONS, compares, is_name
from pipemagic.explore.sqlite_reference import BEFORE_OPERAND
from pipemagic.sql import normalize, significant
from pipemagic.sql.lookalikes import Lookalike, lookalikes

COMMENT = "SQL comments begin with --, not with #"

_MOST = 3  # characters that a hint names
_MOST_COMMENTS = 50  # a text in quotes may begin in each, so the text is read again after each


def _of_lookalikes(text: str, found: Iterable[Lookalike]) -> str:
    """Return a hint that names characters of a text that look like others, each once; '' for none."""
    lines: dict[str, str] = {}
    for lookalike in found:
        if lookalike.char not in lines and len(lines) < _MOST:
            lines[lookalike.char] = _line(text, lookalike)
    return "\n".join(lines.values())


def _line(text: str, lookalike: Lookalike) -> str:
    if lookalike.instead.strip():
        return f"{lookalike.char} is {lookalike.name}: write {lookalike.instead}"
    before = re.search(r"\w+\W?\Z|[!-~]\Z", text[: lookalike.offset].rstrip())
    name = f"{'an' if lookalike.name[0] in 'AEIO' else 'a'} {lookalike.name}"
    where = f"{name} follows {before[0].strip()}" if before else f"the text begins with {name}"
    return f"{where}: {'write a space' if lookalike.instead else 'remove it'}"


def of_lookalikes_in_name(text: str, name: str) -> str:
    """Return a hint for a name that the server does not know, and that contains characters that look like others.

    The message may have lost blanks at the ends of the name.
    """
    places = [
        token
        for token in significant(text)
        if token.kind == "word" and not token.text.isascii() and normalize(token.text).strip() == name.lower().strip()
    ]
    inside = [sign for sign in lookalikes(text) if any(token.start <= sign.offset < token.end for token in places)]
    return _of_lookalikes(text, inside)


def lookalikes_replaced(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest replacing all characters that look like others."""
    if characters := list(lookalikes(broken.text)):
        yield _replaced(broken.text, characters)


def lookalikes_separating(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest blanks for the characters that are not seen, where they separate two words."""
    if characters := [lookalike._replace(instead=lookalike.instead or " ") for lookalike in lookalikes(broken.text)]:
        yield _replaced(broken.text, characters)


def _replaced(text: str, characters: Sequence[Lookalike]) -> Suggestion:
    pieces, end = [], 0
    for lookalike in characters:
        pieces += [text[end : lookalike.offset], lookalike.instead]
        end = lookalike.offset + 1
    return Suggestion(_of_lookalikes(text, characters), "".join([*pieces, text[end:]]))


def comments_removed(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest removing everything from each # to the end of its line."""
    text = broken.text
    for _ in range(_MOST_COMMENTS):
        start = next((token.start for token in significant(text) if token.text[0] == "#"), None)
        if start is None:
            break
        end = text.find("\n", start)
        text = text[:start] + ("" if end < 0 else text[end:])
    if text != broken.text:
        yield Suggestion(COMMENT, text)


_OPERATORS = {
    "=>": ">=", "=<": "<=", "=!": "!=", "!>": "<=", "!<": ">=", "&&": "AND", "===": "=", "!==": "!=", "<=>": "IS",
}  # fmt: skip


def operators_replaced(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest another operator for one of other languages, and for one with a blank inside."""
    tokens, at, replaced = broken.tokens, broken.at, False
    for first in range(max(0, at - 2), at + 1):
        for last in range(first + 1, min(first + 3, len(tokens))):
            operator = tokens[first : last + 1]
            if not first <= at <= last or any(token.kind != "op" for token in operator):
                continue
            joined, written = "".join(token.text for token in operator), broken.written(first, last)
            instead = _OPERATORS.get(joined) or (joined if joined != written and joined in BEFORE_OPERAND else "")
            if instead:
                end, replaced = tokens[last].end, True
                yield Suggestion(f"write {instead} instead of {written}", broken.replace(first, last, instead), end)
    if broken.word(at) == "!" and not replaced and not _follows_operand(broken):
        yield Suggestion("write NOT instead of !", broken.replace(at, at, "NOT"), tokens[at].end)


def _follows_operand(broken: BrokenStatement) -> bool:
    before = broken.at - 1
    return broken.kind(before) in ("number", "string", "param") or is_name(broken, before) or broken.word(before) == ")"


_APOSTROPHE = re.compile(r"(?<=\w)'(?=\w)")
_MOST_APOSTROPHES = 20


def quotes_mended(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest doubling the apostrophes between letters, and ending a text with the mark that it begins with."""
    places = [match.start() for match in _APOSTROPHE.finditer(broken.text)]
    for chosen in [*([place] for place in places[:_MOST_APOSTROPHES]), places]:
        yield from _doubled(broken.text, chosen)
    last = broken.tokens[-1] if broken.tokens else None
    if last is not None and not last.is_finished and last.text[0] in "'\"":
        end = last.text.find("'" if last.text[0] == '"' else '"')
        literal = f"'{last.text[1:end]}'"
        if end > 0:
            text = f"{broken.text[: last.start]}{literal}{broken.text[last.start + end + 1 :]}"
            yield Suggestion(f"write {literal}, with the same quotation mark at both ends", text)


def text_quoted(broken: BrokenStatement) -> Iterator[Suggestion]:
    """Suggest quotes around the words after a comparison: a text without them."""
    first = last = broken.at - 1
    while last + 1 < len(broken.tokens) and is_name(broken, last + 1):
        last += 1
    if last > first > 1 and is_name(broken, first) and broken.word(first - 1) in COMPARISONS:
        literal = f"'{broken.written(first, last)}'"
        if not compares(broken, last):
            yield Suggestion(
                f"if {broken.written(first, last)} is a string, write {literal}", broken.replace(first, last, literal)
            )


def _doubled(text: str, places: Sequence[int]) -> Iterator[Suggestion]:
    for place in reversed(places):
        text = f"{text[:place]}'{text[place:]}"
    literals = [token.text for token in significant(text) if token.kind == "string"]
    changed = [literal for literal in literals if _APOSTROPHE.search(literal[1:-1].replace("''", "'"))]
    if places and changed:
        yield Suggestion(f"write {changed[0]}, with the apostrophe doubled", text)
