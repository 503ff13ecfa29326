"""The place of the cursor in SQL: what is typed there already, and the statement around it, cut at the cursor.

The text before and the text after the cursor are read apart, so that a quote which is still open does not swallow
the rest of the statement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipemagic.explore.token_tree import Group
from pipemagic.sql import Token, tokens, unquote

_MEANINGLESS = ("space", "comment")
_CLOSING = {'"': '"', "`": "`", "[": "]"}


@dataclass
class Place:
    """``fragment`` is what the completion replaces: the text right before the cursor, with its opening quote.

    ``typed`` is the same without the quote, ``quote`` the opening quote or ''. ``closed`` tells that the closing
    quote stands behind the cursor. ``inside`` holds the cursor; ``top`` is the whole statement. ``before`` are the
    statements before it in the cell. ``trigger`` is the table of the CREATE TRIGGER that the cursor is in, or ''.
    """

    fragment: str
    typed: str
    quote: str
    closed: bool
    calls: bool  # an opening parenthesis stands right behind the cursor
    top: Group
    inside: Group
    before: list[str]
    lower: bool  # the keywords of the cell are written small
    trigger: str

    def can_hold(self, name: str) -> bool:
        """Whether the name can stand in the quotes that are typed: brackets around it have no way to write ``]``."""
        return not (self.quote == "[" and self.closed and "]" in name)


def find(text: str, at: int) -> Place | None:
    """Find the place of the cursor at the offset ``at``; None inside a string or a comment."""
    ahead, behind = list(tokens(text[:at])), text[at:]
    last = ahead[-1] if ahead else None
    fragment = ""
    if text[:at].endswith("/*") and last is not None and last.text in ("*", "/*"):
        return None  # SQL has a comment only from the next sign on
    if last is not None and last.start + len(last.text) == at and last.kind not in ("space", "semi"):
        if _swallows(last):
            return None
        if last.kind in ("word", "param", "number") or _is_open(last) or _is_prefix(last):
            fragment = last.text
            ahead.pop()
    quote = fragment[0] if fragment[:1] in _CLOSING else ""
    rest = _after(behind, quote)
    top, inside = _tree(_statement_before(ahead), _until_semicolon(rest))
    return Place(
        fragment, _unquoted(fragment, quote), quote,
        closed=bool(quote) and behind.startswith(_CLOSING[quote]),
        calls=rest.lstrip(" \t").startswith("("),
        top=top, inside=inside, before=_earlier(ahead), lower=_writes_small(ahead),
        trigger=_trigger(ahead),
    )  # fmt: skip


def name_at(text: str, at: int) -> tuple[Place, Token | None] | None:
    """Find the name or parameter that the offset ``at`` is in or right behind, with the place where it begins.

    The token is None where there is no name. The result is None inside a string or a comment.
    """
    touched = [token for token in tokens(text) if token.start <= at <= token.start + len(token.text)]
    found = next((token for token in touched if token.kind in ("word", "quoted", "param")), None)
    for token in touched:
        inside = token.start < at and (at < token.start + len(token.text) or token.text.startswith("--"))
        if inside and token.kind in ("string", "blob", "comment"):
            return None
    start = at if found is None else found.start
    ahead, rest = list(tokens(text[:start])), text[start:]
    top, inside_of = _tree(_statement_before(ahead), _until_semicolon(rest))
    place = Place(
        "", "", "", closed=False, calls=False, top=top, inside=inside_of, before=_earlier(ahead),
        lower=_writes_small(ahead), trigger=_trigger(ahead),
    )  # fmt: skip
    return place, found


def _swallows(token: Token) -> bool:
    """Whether the cursor right after the token is inside it: of a comment to the end of the line, an open string."""
    if token.kind == "comment":
        return token.text.startswith("--") or not token.text.endswith("*/") or len(token.text) < 4
    if token.kind in ("string", "blob"):
        return token.text.count("'") % 2 == 1
    return token.kind == "number"


def _is_open(token: Token) -> bool:
    if token.kind != "quoted":
        return False
    if token.text[0] == "[":
        return not token.text.endswith("]")
    return token.text.count(token.text[0]) % 2 == 1


def _is_prefix(token: Token) -> bool:
    """Whether the token is the sign that a parameter begins with."""
    return token.kind == "op" and token.text in (":", "@", "$")


def _unquoted(fragment: str, quote: str) -> str:
    if not quote:
        return fragment
    return fragment[1:].replace(quote * 2, quote) if quote != "[" else fragment[1:]


def _after(behind: str, quote: str) -> str:
    """Give the text after what the cursor stands in: the rest of the word, or up to a quote that closes it."""
    if quote:
        match = re.match(rf"[\w$]*{re.escape(_CLOSING[quote])}", behind)
        return behind[match.end() :] if match else behind
    return re.sub(r"\A[\w$]+", "", behind)


def _statement_before(ahead: list[Token]) -> list[Token]:
    start = max((index + 1 for index, token in enumerate(ahead) if token.kind == "semi"), default=0)
    return [token for token in ahead[start:] if token.kind not in _MEANINGLESS]


def _earlier(ahead: list[Token]) -> list[str]:
    """Give the texts of the statements before that of the cursor; those of a trigger's body do no harm."""
    text = "".join(token.text for token in ahead)
    ends = [token.start for token in ahead if token.kind == "semi"]
    return [text[start:end] for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False)]


def _trigger(ahead: list[Token]) -> str:
    found = [token for token in ahead if token.kind not in _MEANINGLESS]
    words = [token.text.upper() if token.kind in ("word", "semi") else "" for token in found]
    start = next((at for at in range(len(words) - 1, -1, -1) if words[at] == "CREATE"), None)
    if start is None or "TRIGGER" not in words[start + 1 : start + 3] or "ON" not in words[start:]:
        return ""
    if any(pair == ("END", ";") for pair in zip(words[start:], words[start + 1 :], strict=False)):
        return ""
    at = words.index("ON", start) + 1
    if at + 2 < len(found) and found[at + 1].text == ".":
        at += 2
    return unquote(found[at].text) if at < len(found) else ""


def _until_semicolon(rest: str) -> list[Token]:
    found = []
    for token in tokens(rest):
        if token.kind == "semi":
            break
        if token.kind not in _MEANINGLESS:
            found.append(token)
    return found


def _tree(before: list[Token], after: list[Token]) -> tuple[Group, Group]:
    """Put tokens into groups by their parentheses; gives the outermost group and that of the cursor."""
    top = group = Group()
    for token in before:
        group = group.grown(token)
    inside, group.cursor = group, len(group.items)
    for token in after:
        group = group.grown(token)
    return top, inside


_TELLING = frozenset(["select", "from", "where", "insert", "update", "delete", "create", "join", "with"])


def _writes_small(ahead: list[Token]) -> bool:
    for token in ahead:
        if token.kind == "word" and token.text.lower() in _TELLING:
            return token.text.islower()
    return False
