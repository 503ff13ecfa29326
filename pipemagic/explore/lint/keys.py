"""Types of other databases that number the rows: for SQLite they are names of types, and the column stays NULL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipemagic.explore.lint.context import Context
from pipemagic.explore.lint.expressions import written
from pipemagic.explore.query import Group, nest
from pipemagic.explore.sqlite_reference import KEYWORDS

_NUMBERING = frozenset(["AUTO_INCREMENT", "SERIAL", "BIGSERIAL", "SMALLSERIAL", "IDENTITY"])


def numbering_types(context: Context) -> Iterator[str]:
    """Yield each column whose type numbers the rows in another database."""
    tokens = context.statement.tokens
    if context.statement.keyword != "CREATE" or _NUMBERING.isdisjoint(token.word for token in tokens):
        return
    top = nest((token for token in tokens if token.kind != "semi"), cases=True).top
    at = next((at for at, item in enumerate(top.items) if isinstance(item, Group)), len(top.items))
    columns = top.group(at)
    for column in columns.split() if columns is not None and _is_table(top.words()[:at]) else ():
        type_ = _type(column)
        if column.is_name(0) and not _NUMBERING.isdisjoint(type_.words()):
            name = written(column.slice(0, 1))
            yield f"SQLite does not number the rows for the type {written(type_)}: write {name} INTEGER PRIMARY KEY"


def _is_table(words: Sequence[str]) -> bool:
    """Return True for the words of CREATE TABLE before its list of columns."""
    return "TABLE" in words[1:3] and "AS" not in words


def _type(column: Group) -> Group:
    """Return the words of the type in the definition of a column."""
    words = column.words()
    end = next((at for at in range(1, len(words)) if words[at] in KEYWORDS), len(words))
    return column.slice(1, end)
