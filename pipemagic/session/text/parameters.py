"""``:name``, ``@name`` and ``$name``: values for the server to bind. No value becomes text of the statement.

A list goes after IN: each element is bound as a parameter of its own. SQLite takes 32766 parameters, and servers look
each name up in the list of all of them; so a long list of integers and texts goes as one JSON text, which is exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pipemagic.client import arguments
from pipemagic.counts import plural
from pipemagic.errors import ParameterError, ProtocolError
from pipemagic.hrana.messages import NamedArg, Stmt
from pipemagic.hrana.values import to_sql
from pipemagic.session.text import names
from pipemagic.session.text.lookup import Values, Wish, listed, look_up
from pipemagic.session.text.woven import Edit, Woven
from pipemagic.sql import Token, tokens
from pipemagic.sql.statement import HIGHEST_PARAMETER

JSON_FROM = 1000
"""A list of more values than these goes as JSON, if it can."""

_MARKS = re.compile(r"[:@$?#{]")

_NOT_LISTED = "a list goes after IN: x IN {0}; as one value it needs a form in SQL, such as json.dumps gives"


def bind(woven: Woven, values: Values | None) -> tuple[Woven, Stmt]:
    """Give the statement as it is sent, with its arguments.

    Raises ParameterError for a ``?``, a name without a value, a list that is not after IN, and a value that SQL cannot
    hold.
    """
    text = woven.text
    if not _MARKS.search(text):
        return woven, Stmt(text)
    found = tuple(tokens(text))
    words = [token for token in found if token.kind not in ("space", "comment")]
    bound = _Bound(woven, {token.text for token in words if token.kind == "param"})
    for number, token in enumerate(words):
        if token.kind == "param":
            _refuse_cast(woven, words, number)
            bound.add(words, number, values)
    made = sorted([*bound.edits, *names.edits(woven, found, values)], key=lambda edit: edit.start)
    if made:
        woven = woven.edited(made)
    return woven, bound.statement(woven.text)


def _refuse_cast(woven: Woven, words: Sequence[Token], number: int) -> None:
    """ParameterError for the type in ``x::type``: SQLite has no such cast, and it is no parameter."""
    token, before = words[number], words[max(0, number - 1) : number]
    if before and before[0].text == ":" and before[0].start == token.start - 1:
        where = woven.place(token.start).where
        raise ParameterError(f"{where}: SQLite has no :{token.text}", hint=f"write CAST(... AS {token.text[1:]})")


class _Bound:
    """The arguments of one statement, and the edits that expand its lists."""

    def __init__(self, woven: Woven, taken: set[str]) -> None:
        self.edits: list[Edit] = []
        self._woven = woven
        self._taken = taken
        self._args: dict[str, NamedArg] = {}
        self._forms: dict[str, str] = {}  # what a list's parameter becomes, without the parentheses
        self._longest = (0, "")

    def statement(self, sql: str) -> Stmt:
        """Give the statement; ParameterError if it has more parameters than SQLite takes."""
        if len(self._args) > HIGHEST_PARAMETER:
            count, name = self._longest
            raise ParameterError(
                f"{name} has {count} values, and a statement takes {HIGHEST_PARAMETER}",
                hint="load them into a table (%pipedb load) and write IN (SELECT ...), or give integers or texts",
            )
        return Stmt(sql, named_args=list(self._args.values())) if self._args else Stmt(sql)

    def add(self, words: Sequence[Token], number: int, values: Values | None) -> None:
        """Take in the parameter that stands at a place among the words."""
        token, before = words[number], [word.text.upper() for word in words[max(0, number - 2) : number]]
        wish = self._wish(token)
        value = look_up(wish, values)
        elements, bare = listed(value), before[-1:] == ["IN"]
        if elements is None:
            if bare:
                what = f"is one value ({type(value).__name__}), and IN wants a list"
                raise wish.refusal(what, _one_value_hint(value, token.text))
            self._bind(token.text, value, wish)
            return
        alone = before == ["IN", "("] and [word.text for word in words[number + 1 : number + 2]] == [")"]
        if not bare and not alone:
            many = f"{plural(len(elements), 'value')} ({type(value).__name__})"
            raise wish.refusal(f"holds {many}", _NOT_LISTED.format(token.text))
        form = self._form(token.text, elements, wish)
        self.edits.append(Edit(token.start, token.start + len(token.text), f"({form})" if bare else form))

    def _wish(self, token: Token) -> Wish:
        where = self._woven.place(token.start).where
        if token.text.startswith("?"):
            raise ParameterError(
                f"{where}: the parameter {token.text} has no name",
                hint="write :name; its value is that of the variable name",
            )
        return Wish(token.text[1:], token.text, where)

    def _form(self, name: str, elements: list[Any], wish: Wish) -> str:
        """Bind the elements of a list, once; gives what stands for them in the statement."""
        if name not in self._forms:
            text = _json(elements, wish) if len(elements) > JSON_FROM else None
            if text is not None:
                self._bind(name, text, wish)
                self._forms[name] = f"SELECT +value FROM json_each({name})"
            else:
                self._forms[name] = ", ".join(self._each(name, elements, wish))
        return self._forms[name]

    def _each(self, name: str, elements: list[Any], wish: Wish) -> list[str]:
        prefix = f"{name}_"
        while any(other.startswith(prefix) for other in self._taken):
            prefix += "_"
        self._longest = max(self._longest, (len(elements), f"{wish.where}: {name}"))
        for number, element in enumerate(elements):
            self._bind(f"{prefix}{number + 1}", element, wish, f"{name}[{number}]")
        return [f"{prefix}{number}" for number in range(1, len(elements) + 1)]

    def _bind(self, name: str, value: Any, wish: Wish, shown: str = "") -> None:
        if name not in self._args:
            try:
                self._args[name] = NamedArg(name, arguments.wire(value, shown or name))
            except ParameterError as error:
                raise ParameterError(f"{wish.where}: {error.message}", hint=error.hint) from None


def _one_value_hint(value: Any, name: str) -> str:
    """Say what to write instead of IN with what is no list."""
    try:
        arguments.wire(value, name)
    except ParameterError:
        return "a list, tuple, set, array or Series goes there; of a frame, one column: ids = frame['id']"
    return f"write = {name}, or IN ({name})"


def _json(elements: Sequence[Any], wish: Wish) -> str | None:
    """Give a list as JSON text; None if that could change a value: floats and bytes."""
    plain = []
    for number, element in enumerate(elements):
        try:
            value = to_sql(element)
        except ProtocolError as error:
            message = f"{wish.where}: parameter {wish.shown}[{number}]: {error.message}"
            raise ParameterError(message, hint=error.hint) from None
        if isinstance(value, float | bytes):
            return None
        plain.append(value)
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
