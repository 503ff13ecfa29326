"""ALTER TABLE of other databases: another type for a column, several columns at once."""

from __future__ import annotations

from collections.abc import Iterator

from pipemagic.explore.hints.stopped import Change, Stopped
from pipemagic.explore.hints.words import Span

_CHANGES = ("MODIFY", "ALTER", "CHANGE")
_BEFORE_TYPE = ("SET", "DATA", "TYPE")


def column_changed(stopped: Stopped) -> str:
    """Return a hint on how to change the definition of a column; '' for any other statement.

    SQLite does not have the statement to write, so its grammar cannot prove it. libSQL and the embedded service do.
    """
    words = [stopped.word(index) for index in range(len(stopped.tokens))]
    if words[:2] != ["ALTER", "TABLE"] or len(words) < 6 or words[3] not in _CHANGES:
        return ""
    column = 5 if words[4] == "COLUMN" else 4
    first = column + 1
    if words[3] == "CHANGE" and first < len(words):
        if words[first] != words[column]:
            return ""
        first += 1
    if words[first : first + 2] == ["SET", "DATA"] or words[first : first + 1] == ["TYPE"]:
        while first < len(words) and words[first] in _BEFORE_TYPE:
            first += 1
    if first >= len(words) or words[first] in ("SET", "DROP", "TO", "ADD"):
        return ""
    table, name = stopped.tokens[2].text, stopped.tokens[column].text
    definition = stopped.written(first, len(words) - 1)
    return f"write ALTER TABLE {table} ALTER COLUMN {name} TO {name} {definition}\nStored values do not change."


def columns_added(stopped: Stopped) -> Iterator[Change]:
    """Propose a statement for each of several columns."""
    words = [stopped.word(index) for index in range(min(len(stopped.tokens), 6))]
    if words[:2] != ["ALTER", "TABLE"] or words[3:4] != ["ADD"]:
        return
    first, last = 4, len(stopped.tokens)
    if words[4:5] == ["("] and stopped.word(last - 1) == ")":
        first, last = 5, last - 1
    commas = [index for index in stopped.outer(Span(first, last)) if stopped.word(index) == ","]
    if not commas:
        return
    starts, ends = [first, *(index + 1 for index in commas)], [*commas, last]
    definitions = [_definition(stopped, start, end) for start, end in zip(starts, ends, strict=True) if start < end]
    text = "; ".join(f"ALTER TABLE {stopped.tokens[2].text} ADD COLUMN {definition}" for definition in definitions)
    yield Change(f"write {text}", text)


def _definition(stopped: Stopped, first: int, end: int) -> str:
    """Return the definition of a column, without the words that each of several ones may begin with."""
    while first < end - 1 and stopped.word(first) in ("ADD", "COLUMN"):
        first += 1
    return stopped.written(first, end - 1)
