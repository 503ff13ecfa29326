"""``{name}`` in a statement: the name of a table or column from a variable, checked and quoted.

No statement of SQLite has a brace outside of strings, comments and quoted names, so this takes nothing away from it.
Names are quoted with backticks. In double quotes SQLite takes a name that does not exist for a string, and a misspelt
column would become a column of the same word in each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipemagic.errors import ParameterError
from pipemagic.session.text.lookup import Values, Wish, listed, look_up
from pipemagic.session.text.woven import Edit, Woven
from pipemagic.sql import Token

_FORM = "write {table}, with the name in a variable table; braces in text go into '...'"
_ALONE = "put the whole name into the variable, or a blank between them"
_GLUE = ("word", "number", "string", "blob", "quoted", "param")


def edits(woven: Woven, found: Sequence[Token], values: Values | None) -> list[Edit]:
    """Give the edits that put the names in; ParameterError for a brace that means none, and for a bad name.

    ``found`` are all the tokens of the text, blanks and comments included.
    """
    made = []
    for number, token in enumerate(found):
        if token.text == "{" and token.kind == "op":
            made.append(_edit(woven, found, number, values))
    return made


def _edit(woven: Woven, found: Sequence[Token], number: int, values: Values | None) -> Edit:
    start = found[number].start
    where = woven.place(start).where
    end, inside = number + 1, ""
    while end < len(found) and found[end].text not in "{}":
        inside, end = inside + found[end].text, end + 1
    name = inside.strip()
    if end == len(found) or found[end].text != "}" or not name.isidentifier():
        doubled = " (templates need --jinja)" if _beside(found, number + 1).text in ("{", "%") else ""
        raise ParameterError(f"{where}: this brace does not begin a name{doubled}", hint=_FORM)
    wish = Wish(name, f"{{{name}}}", where)
    before, after = _beside(found, number - 1), _beside(found, end + 1)
    if before.kind in _GLUE or after.kind in _GLUE or before.text == "}" or after.text == "{":
        raise wish.refusal("is joined to what stands beside it", _ALONE)
    value = look_up(wish, values)
    text = quoted(value, wish)
    if "." in (before.text, after.text) and len(listed(value) or ()) > 1:
        raise wish.refusal("holds several names, and a dot goes with one", "write the names with their tables")
    return Edit(start, found[end].start + 1, text)


def _beside(found: Sequence[Token], number: int) -> Token:
    return found[number] if 0 <= number < len(found) else Token("space", "", 0)


def quoted(value: Any, wish: Wish) -> str:
    """Give a name quoted, or a list of them with commas between; ParameterError for what is none."""
    names = [value] if isinstance(value, str) else listed(value)
    if names is None:
        what = f"is of type {type(value).__name__}, and no name"
        raise wish.refusal(what, "a name is text, or a list of texts for several columns")
    if not names:
        raise wish.refusal("is an empty list", "name at least one column")
    return ", ".join(_quoted(name, wish) for name in names)


def _quoted(name: Any, wish: Wish) -> str:
    if not isinstance(name, str):
        raise wish.refusal(f"holds something of type {type(name).__name__} where a name belongs", "a name is text")
    text = str.__str__(name)  # also of a str that shows itself otherwise
    if not text or "\0" in text:
        raise wish.refusal(f"is {text!r}, which cannot be a name in SQL", "a name has a letter and no NUL")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise wish.refusal(f"is {text!r}, which is not valid Unicode", "a name has a UTF-8 form")
    return "`" + text.replace("`", "``") + "`"
