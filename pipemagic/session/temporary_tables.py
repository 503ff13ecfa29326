"""The temporary tables, views and triggers of a stream, by the text of the statements that ran on it."""

from __future__ import annotations

from collections.abc import Sequence

from pipemagic.sql import ParsedStatement, Token, normalize, unquote

CHANGED_BY = frozenset(
    ["CREATE", "DROP", "ALTER", "BEGIN", "SAVEPOINT", "COMMIT", "END", "ROLLBACK", "RELEASE"]
)  # fmt: skip
"""The first words of statements that may create, remove or restore temporary tables."""

_TEMPORARY = ("TEMP", "TEMPORARY")
_KINDS = ("TABLE", "VIEW", "TRIGGER")
_SHOWN = 3

_Key = tuple[bool, str]
"""Whether it is a trigger, and its name in lower case: tables and views share their names."""


class TemporaryTables:
    """Tracks which temporary tables, views and triggers exist; a rollback restores the earlier ones.

    ``by_key`` are their names as they are written, in the order of their creation. ``marks`` are earlier states: at
    BEGIN ('') and at savepoints, outermost first.
    """

    def __init__(self) -> None:
        self.by_key: dict[_Key, str] = {}
        self._table_of: dict[_Key, str] = {}  # of triggers, which are dropped with their table
        self.marks: list[tuple[str, dict[_Key, str]]] = []

    def __bool__(self) -> bool:
        return bool(self.by_key)

    @property
    def names(self) -> list[str]:
        """Their names as they are written, in the order of their creation."""
        return list(self.by_key.values())

    @property
    def listing(self) -> str:
        """The first few names, and how many more there are."""
        names = self.names
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return ", ".join(names[:_SHOWN]) + more

    def clear(self) -> None:
        """Forget all of them, because their stream has ended."""
        self.by_key, self._table_of, self.marks = {}, {}, []

    def update(self, statement: ParsedStatement) -> None:
        """Apply a statement that ran without an error."""
        match statement.keyword:
            case "CREATE":
                self._create(statement.tokens)
            case "DROP":
                self._drop(statement.tokens)
            case "ALTER":
                self._rename(statement.tokens)
            case _:
                self._follow_transaction(statement)

    def restore_if_rolled_back(self, *, still_open: bool) -> None:
        """Restore the earlier ones if a transaction ended without a statement that ends it: it was rolled back."""
        if self.marks and not still_open:
            self._restore(0)
            self.marks = []

    def _follow_transaction(self, statement: ParsedStatement) -> None:
        if statement.opens_transaction:
            self.marks.append((statement.savepoint or "", dict(self.by_key)))
        elif statement.commits:
            self.marks = []
        elif statement.rolls_back:
            self.restore_if_rolled_back(still_open=False)
        elif (name := statement.rollback_to) is not None:
            if (at := self._savepoint(name)) is not None:
                self._restore(at)
                del self.marks[at + 1 :]
        elif (name := statement.release) is not None and (at := self._savepoint(name)) is not None:
            del self.marks[at:]

    def _savepoint(self, name: str) -> int | None:
        places = [at for at, (marked, _) in enumerate(self.marks) if marked == name]
        return places[-1] if places else None

    def _restore(self, at: int) -> None:
        if self.marks:
            self.by_key = dict(self.marks[at][1])

    def _create(self, tokens: Sequence[Token]) -> None:
        is_temporary = tokens[1].word in _TEMPORARY
        at = 1 + is_temporary
        at += tokens[at].word == "VIRTUAL"
        if tokens[at].word not in _KINDS:
            return
        schema, name, rest = _qualified_name(tokens, at + 1)
        if not (is_temporary or schema == "temp"):
            return
        key = tokens[at].word == "TRIGGER", normalize(name)
        self.by_key.setdefault(key, unquote(name))
        if key[0]:
            self._table_of[key] = _table_of_trigger(rest)

    def _drop(self, tokens: Sequence[Token]) -> None:
        if not self.by_key or tokens[1].word not in _KINDS:
            return
        schema, name, _ = _qualified_name(tokens, 2)
        if schema not in ("", "temp"):
            return
        key = tokens[1].word == "TRIGGER", normalize(name)
        if self.by_key.pop(key, None) is None or key[0]:
            return
        for trigger in [trigger for trigger, table in self._table_of.items() if table == key[1]]:
            self.by_key.pop(trigger, None)

    def _rename(self, tokens: Sequence[Token]) -> None:
        schema, name, rest = _qualified_name(tokens, 2)
        key = False, normalize(name)
        if schema in ("", "temp") and [token.word for token in rest[:2]] == ["RENAME", "TO"] and key in self.by_key:
            del self.by_key[key]
            self.by_key[False, normalize(rest[2].text)] = unquote(rest[2].text)


def _qualified_name(tokens: Sequence[Token], at: int) -> tuple[str, str, Sequence[Token]]:
    """Return the schema in lower case or '', the name as it is written, and the tokens after it."""
    if tokens[at].word == "IF":
        at += 3 if tokens[at + 1].word == "NOT" else 2
    if tokens[at + 1 : at + 2] and tokens[at + 1].text == ".":
        return normalize(tokens[at].text), tokens[at + 2].text, tokens[at + 3 :]
    return "", tokens[at].text, tokens[at + 1 :]


def _table_of_trigger(rest: Sequence[Token]) -> str:
    at = next(at for at, token in enumerate(rest) if token.word == "ON")
    return normalize(_qualified_name(rest, at + 1)[1])
