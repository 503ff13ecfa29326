"""A statement by its words: calls, operands, lists and clauses, each with its text for a hint.

A statement that was refused is no tree: it is read around the place of its error, and what cannot be read is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from pipemagic.explore.query import Query, query_at
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import BEFORE_OPERAND, FUNCTIONS, KEYWORDS, UNRESERVED
from pipemagic.explore.token_tree import COMPOUND, cursor_at
from pipemagic.sql import Token, significant, unquote

_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH",
            "RETURNING", "FOR")  # fmt: skip
_NO_OPERAND = KEYWORDS - UNRESERVED
AGGREGATES = frozenset(name for name, function in FUNCTIONS.items() if function.kind == "aggregate")


class Span(NamedTuple):
    """The words from the index ``start`` up to, not including, ``end``."""

    start: int
    end: int


class TokenList:
    """The tokens of a statement, by index, and the parentheses around them."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def token(self, index: int) -> Token | None:
        """Return the token at an index; None outside."""
        return self.tokens[index] if 0 <= index < len(self.tokens) else None

    def word(self, index: int) -> str:
        """Return the word or sign at an index in capitals; '' for quoted names, strings and outside."""
        token = self.token(index)
        return "" if token is None or token.kind in ("quoted", "string", "blob") else token.text.upper()

    # -- parentheses

    def closing(self, index: int) -> int | None:
        """Return the index of the parenthesis that closes the parenthesis at an index."""
        depth = 0
        for at in range(index, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.word(at), 0)
            if depth == 0:
                return at
        return None

    def opening(self, index: int) -> int | None:
        """Return the index of the parenthesis that the one at an index closes."""
        depth = 0
        for at in range(index, -1, -1):
            depth += {"(": -1, ")": 1}.get(self.word(at), 0)
            if depth == 0:
                return at
        return None

    def around(self, index: int) -> int | None:
        """Return the index of the parenthesis that is open before an index; None outside of parentheses."""
        depth = 0
        for at in range(index - 1, -1, -1):
            depth += {"(": -1, ")": 1}.get(self.word(at), 0)
            if depth < 0:
                return at
        return None

    def outer(self, span: Span) -> Iterator[int]:
        """Yield the indexes of the words outside of the parentheses in a span, with the parentheses."""
        depth = 0
        for at in range(span.start, span.end):
            word = self.word(at)
            depth -= word == ")"
            if depth == 0:
                yield at
            depth += word == "("

    def split(self, span: Span) -> list[Span]:
        """Return the parts between the commas of a span; none of an empty one."""
        if span.start >= span.end:
            return []
        cuts = [span.start - 1, *(at for at in self.outer(span) if self.word(at) == ","), span.end]
        return [Span(start + 1, end) for start, end in pairwise(cuts)]


class Words(TokenList):
    """The tokens of a statement without semicolons: its names, operands, calls and clauses."""

    def __init__(self, text: str) -> None:
        super().__init__([token for token in significant(text) if token.kind != "semi"])

    def at(self, offset: int) -> int:
        """Return the index of the token at an offset in characters, or of the next one."""
        return next((index for index, token in enumerate(self.tokens) if token.start >= offset), len(self.tokens))

    def words(self, start: int, count: int) -> list[str]:
        """Return some words from an index on."""
        return [self.word(start + step) for step in range(count)]

    def is_name(self, index: int) -> bool:
        """Return True if a name, which is no reserved word, is at an index."""
        token = self.token(index)
        if token is None:
            return False
        return token.kind == "quoted" or (token.kind == "word" and token.word not in _NO_OPERAND)

    def name(self, index: int) -> str:
        """Return the name at an index without quotes; '' if there is none."""
        token = self.token(index)
        return unquote(token.text) if token is not None and token.kind in ("word", "quoted") else ""

    def text(self, span: Span, replaced: Mapping[int, tuple[int, str]] = MappingProxyType({})) -> str:
        """Return the text of some words as one line, without comments, and without blanks inside of parentheses.

        ``replaced`` are texts to write instead of the words from an index to before another one.
        """
        parts, at = list[str](), span.start
        while at < min(span.end, len(self.tokens)):
            end, text = replaced.get(at, (at + 1, self.tokens[at].text))
            is_apart = at > span.start and self.tokens[at - 1].end < self.tokens[at].start
            is_inside = self.word(at) in (")", ",") or self.word(at - 1) == "("
            parts += [" " if is_apart and not is_inside else "", text]
            at = end
        return "".join(parts)

    def arguments(self, index: int) -> list[Span] | None:
        """Return the arguments of the call at an index; None if it is not a call."""
        end = self.closing(index + 1) if self.word(index + 1) == "(" else None
        return None if end is None else self.split(Span(index + 2, end))

    # -- operands

    def operand_after(self, start: int) -> Span | None:
        """Return the operand that begins at an index: a name, a literal, a call or parentheses."""
        at = start + 1 if self.word(start) in ("-", "+") else start
        token = self.token(at)
        if token is None:
            return None
        if token.text == "(":
            closing = self.closing(at)
            return None if closing is None else Span(start, closing + 1)
        if token.kind in ("string", "number", "param", "blob"):
            return Span(start, at + 1)
        if not self.is_name(at) and not (token.kind == "word" and self.word(at + 1) == "("):
            return Span(start, at + 1) if token.word in _LITERALS else None
        while self.word(at + 1) == "." and self.name(at + 2):
            at += 2
        if self.word(at + 1) == "(":
            closing = self.closing(at + 1)
            return None if closing is None else Span(start, closing + 1)
        return Span(start, at + 1)

    def operand_before(self, end: int) -> Span | None:
        """Return the operand that ends before an index."""
        start = end - 1
        token = self.token(start)
        if token is None:
            return None
        if token.text == ")":
            opening = self.opening(start)
            if opening is None:
                return None
            if self.word(opening - 1) in ("OVER", "FILTER"):
                call = self.operand_before(opening - 1)
                return None if call is None or self.word(call.end - 1) != ")" else Span(call.start, end)
            calls = self.is_name(opening - 1)
            start = opening - 1 if calls else opening
            if not calls:
                before = self.word(opening - 1)
                return None if before in KEYWORDS - BEFORE_OPERAND or before == "IN" else Span(start, end)
        elif token.word == "END":
            return self._case_before(end)
        elif token.kind not in ("string", "number", "param", "blob") and not self.is_name(start):
            return Span(start, end) if token.word in _LITERALS else None
        while self.word(start - 1) == "." and self.name(start - 2):
            start -= 2
        return Span(start, end)

    def _case_before(self, end: int) -> Span | None:
        """Return the CASE that ends before an index."""
        depth = 0
        for at in range(end - 1, -1, -1):
            depth += {"CASE": -1, "END": 1}.get(self.word(at), 0)
            if depth == 0:
                return Span(at, end)
        return None

    def is_operand(self, span: Span) -> bool:
        """Return True if a span is one operand, which needs no parentheses next to an operator."""
        return self.operand_after(span.start) == span and self.word(span.start) not in ("-", "+")

    def literal(self, span: Span) -> Token | None:
        """Return the number or string that a span consists of; None for any other one."""
        token = self.token(span.start)
        is_literal = span.end - span.start == 1 and token is not None and token.kind in ("number", "string")
        return token if is_literal else None

    def has_aggregate(self, span: Span) -> bool:
        """Return True if an aggregate function, which is no window function, is called in a span."""
        for at in range(span.start, span.end):
            arguments = self.arguments(at) if self.word(at).lower() in AGGREGATES else None
            if arguments is None or (self.word(at) in ("MIN", "MAX") and len(arguments) > 1):
                continue
            closing = self.closing(at + 1)
            assert closing is not None
            after = closing + 1
            if self.word(after) == "FILTER" and (filter_end := self.closing(after + 1)) is not None:
                after = filter_end + 1
            if self.word(after) != "OVER":
                return True
        return False

    # -- SELECT

    def select_around(self, index: int) -> Select | None:
        """Return the innermost SELECT that has a word at an index."""
        inside = self.around(index)
        while True:
            end = len(self.tokens) if inside is None else self.closing(inside)
            scope = Span(0 if inside is None else inside + 1, len(self.tokens) if end is None else end)
            select = self._select(scope, index)
            if select is not None or inside is None:
                return select
            inside = self.around(inside)

    def _select(self, scope: Span, index: int) -> Select | None:
        cuts = [at for at in self.outer(scope) if self.word(at) in COMPOUND and self.word(at + 1) != "("]
        start = max((at + 1 for at in cuts if at < index), default=scope.start)
        end = min((at for at in cuts if at >= index), default=scope.end)
        starts = [at for at in self.outer(Span(start, end)) if self._begins_clause(at)]
        while starts and self.word(starts[0]) != "SELECT":
            del starts[0]
        if not starts or starts[0] > index:
            return None
        clauses = {self.word(at): Span(at, after) for at, after in zip(starts, [*starts[1:], end], strict=True)}
        return Select(self, Span(starts[0], end), clauses, is_compound=bool(cuts))

    def _begins_clause(self, at: int) -> bool:
        word = self.word(at)
        if word not in _CLAUSES or self.word(at - 1) == ".":
            return False
        if word == "FROM":
            return self.word(at - 1) != "DISTINCT" or self.word(at - 2) not in ("IS", "NOT")
        if word in ("GROUP", "ORDER"):
            return self.word(at + 1) == "BY"
        return word != "FETCH" or self.word(at + 1) in ("FIRST", "NEXT")


_LITERALS = ("NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP")


class Select(NamedTuple):
    """A SELECT: its ``clauses`` by their first word, with that word."""

    words: Words
    span: Span
    clauses: dict[str, Span]
    is_compound: bool = False

    def clause(self, *keywords: str) -> str:
        """Return the text of some clauses, with a blank before it; '' without them."""
        spans = [self.clauses[keyword] for keyword in keywords if keyword in self.clauses]
        return "".join(f" {self.words.text(span)}" for span in spans)

    @property
    def result(self) -> Span:
        """The select list, without DISTINCT and without a TOP."""
        start, end = self.clauses["SELECT"]
        start += 1
        while self.words.word(start) in ("DISTINCT", "ALL"):
            start += 1
            if self.words.word(start) == "ON" and (closing := self.words.closing(start + 1)) is not None:
                start = closing + 1
        return Span(start, end)

    def items(self, keyword: str = "SELECT") -> list[Span]:
        """Return the expressions of the select list, or of GROUP BY or ORDER BY."""
        if keyword == "SELECT":
            return self.words.split(self.result)
        span = self.clauses.get(keyword)
        return [] if span is None else self.words.split(Span(span.start + 2, span.end))

    def expression(self, item: Span) -> Span:
        """Return an expression of the select list without its alias."""
        words, last = self.words, item.end - 1
        if item.end - item.start > 2 and words.word(last - 1) == "AS":
            return Span(item.start, last - 1)
        if item.end - item.start > 1 and words.is_name(last) and words.operand_before(last) is not None:
            return Span(item.start, last)
        return item

    @property
    def names(self) -> str:
        """The names of its columns for a query around it; ``*`` if one has none."""
        words, last = self.words, [item.end - 1 for item in self.items()]
        if any(words.word(at) == "*" or not words.is_name(at) for at in last):
            return "*"
        return ", ".join(words.text(Span(at, at + 1)) for at in last)

    def order_outside(self) -> str | None:
        """Return ORDER BY and LIMIT for a query around it, as far as it has the columns; None if the rows depend on it.

        The text begins with a blank.
        """
        words, terms, names = self.words, list[str](), self.names
        columns = {name.strip('"').lower() for name in names.split(", ")}
        items = self.items("ORDER")
        for item in items:
            column = words.operand_after(item.start)
            is_name = column is not None and column.end - column.start == 1
            if not is_name or (names != "*" and words.name(item.start).lower() not in columns):
                break
            terms.append(words.text(item))
        if len(terms) < len(items) and "LIMIT" in self.clauses:
            return None
        order = f" ORDER BY {', '.join(terms)}" if terms else ""
        return order + self.clause("LIMIT", "OFFSET")


# -- what a rule reads: the place of an error, a call of a function


@dataclass(frozen=True)
class Place:
    """The place of a syntax error: the index of the word at which the server stopped, in the words of a statement.

    ``of_sqlite`` is True if the message is SQLite's own, False for a server with another parser.
    """

    words: Words
    index: int
    text: str
    tables: Mapping[str, Relation]
    of_sqlite: bool = True

    @property
    def word(self) -> str:
        """The word at the place."""
        return self.words.word(self.index)

    @property
    def before(self) -> str:
        """The word before the place."""
        return self.words.word(self.index - 1)

    @property
    def select(self) -> Select | None:
        """The innermost SELECT around the place."""
        return self.words.select_around(self.index)

    @property
    def query(self) -> Query:
        """The same as the model of queries reads it."""
        token = self.words.token(self.index)
        return query_at(cursor_at(self.text, len(self.text) if token is None else token.start), self.tables)

    @property
    def function(self) -> int | None:
        """The index of the word before the innermost parenthesis that is open at the place."""
        opening = self.words.around(self.index)
        return None if opening is None or opening == 0 else opening - 1


PlaceRule = Callable[[Place], str]


@dataclass(frozen=True)
class FunctionCall:
    """A call of a function: its name in lower case, and its arguments as text and as words."""

    name: str
    arguments: Sequence[str]
    spans: Sequence[Span]
    words: Words
    index: int
    text: str
    tables: Mapping[str, Relation]
    rewrite: Callable[[Span], str]

    @property
    def select(self) -> Select | None:
        """The SELECT around it."""
        return self.words.select_around(self.index)

    def string(self, number: int) -> str | None:
        """Return the text of an argument that is a string; None for any other one."""
        token = self.words.literal(self.spans[number])
        return unquote(token.text) if token is not None and token.kind == "string" else None


FunctionRule = Callable[[FunctionCall], "str | list[str]"]
_T = TypeVar("_T")


def by_name(table: Mapping[str, _T]) -> dict[str, _T]:
    """Return a table whose keys are several names each as one with a key for each name."""
    return {name: value for names, value in table.items() for name in names.split()}


def as_operand(expression: str) -> str:
    """Return an expression that can stand next to an operator."""
    words = Words(expression)
    return expression if words.is_operand(Span(0, len(words))) else f"({expression})"
