"""Colours of notebook cells: SQL below a magic for SQL, IPython elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from IPython.lib.lexers import IPython3Lexer
from pygments.lexer import Lexer
from pygments.lexers.sql import SqlLexer
from pygments.token import Error, Name, Punctuation, _TokenType
from sphinx.application import Sphinx

_SQL_CELL = re.compile(r"\s*(%%(?:sql|check|exercise)\b[^\n]*\n?)")


class CellLexer(Lexer):
    """The lexer of one or more notebook cells."""

    name = "IPython with SQL"
    aliases = ["ipython", "ipython3"]  # noqa: RUF012 -- as in Pygments

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        """Yield position, type and text of the tokens."""
        found = _SQL_CELL.match(text)
        if not found:
            yield from IPython3Lexer(**self.options).get_tokens_unprocessed(text)
            return
        yield 0, Name.Decorator, text[: found.end()]
        for at, kind, value in SqlLexer(**self.options).get_tokens_unprocessed(text[found.end() :]):
            # Braces of names and templates are no SQL.
            yield found.end() + at, Punctuation if kind is Error else kind, value


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the lexer under the names that fences and notebooks use."""
    for name in CellLexer.aliases:
        app.add_lexer(name, CellLexer)
    return {"parallel_read_safe": True}
