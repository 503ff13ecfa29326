"""Settings of a server-side connection, which are lost when it is reopened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipemagic.hrana.messages import Entry, ErrorEntry, Execute, Request, Stmt
from pipemagic.session import temporary_tables
from pipemagic.session.temporary_tables import TemporaryTables
from pipemagic.sql import ParsedStatement, parse

if TYPE_CHECKING:
    from pipemagic.client.transaction import TransactionContent
    from pipemagic.session.cell import Cell

CHANGED_BY = temporary_tables.CHANGED_BY | {"PRAGMA"}
"""The first words of statements to record."""

EFFECTS: Mapping[str, tuple[bool, str]] = {
    "foreign_keys": (True, "foreign keys are not checked"),
    "ignore_check_constraints": (False, "CHECK constraints are not checked"),
    "recursive_triggers": (False, "triggers can fire themselves"),
    "case_sensitive_like": (False, "LIKE is case-sensitive"),
    "query_only": (False, "statements that write fail"),
    "reverse_unordered_selects": (False, "rows without ORDER BY are in reverse order"),
    "legacy_alter_table": (False, "ALTER TABLE RENAME leaves views and triggers unchanged"),
}
"""Settings that change what is stored or returned: their normal value, and the effect of the other one."""

CHECKED_AGAIN = {
    "foreign_keys": "Foreign keys are on again, after the script that switched them off.",
    "ignore_check_constraints": "CHECK constraints are checked again, after the script that switched them off.",
}
"""The settings that dumps change for themselves, and the line that reports their end."""

DEFERRED = "foreign keys are checked only at COMMIT, until the transaction ends"
"""The effect of ``PRAGMA defer_foreign_keys``, which SQLite resets at the end of a transaction."""


@dataclass
class Settings:
    """The user's settings of a connection: pragmas by name, in the order in which they were first set."""

    pragmas: dict[str, str] = field(default_factory=dict)
    temporary: TemporaryTables = field(default_factory=TemporaryTables)
    deferred: bool = False

    def update(self, statement: ParsedStatement, *, inside: bool = False) -> None:
        """Record a statement that ran without an error, possibly ``inside`` a transaction."""
        if statement.keyword != "PRAGMA":
            self.temporary.update(statement)
            self.deferred = self.deferred and not (statement.commits or statement.rolls_back)
        elif statement.connection_setting and not (inside and statement.is_ignored_in_transaction):
            self.pragmas[statement.connection_setting] = statement.text
        elif statement.pragma[0] == "defer_foreign_keys" and statement.pragma[1] in ("=", "("):
            self.deferred = statement.switches_on

    def note_ran(self, cell: Cell, before: TransactionContent, count: int, *, atomic: bool, undone: bool) -> None:
        """Record the first ``count`` statements of a cell, which ran without an error, PRAGMAs alone if ``undone``."""
        for index, statement in enumerate(cell.statements[:count]):
            if statement.keyword in CHANGED_BY and not (undone and statement.keyword != "PRAGMA"):
                inside = atomic or (statement.keyword == "PRAGMA" and before.ahead(cell.statements[:index]).open)
                self.update(cell.as_sent(index), inside=inside)

    def replay(self) -> list[Request]:
        """Return the requests that set them on another server-side connection."""
        return [Execute(Stmt(pragma)) for pragma in self.pragmas.values()]

    def reopened(self, replayed: Sequence[Entry]) -> list[str]:
        """Return the lines on a server-side connection that replaces one: what was set again, or not, and is gone.

        ``replayed`` are the entries of `replay`.
        """
        lines = [self.note()]
        self.temporary.clear()
        self.deferred = False
        for name, entry in zip(list(self.pragmas), replayed, strict=False):
            if isinstance(entry, ErrorEntry):
                lines.append(f"Not set again: {entry.error.message}")
                del self.pragmas[name]
        return [line for line in lines if line]

    def check_again(self, earlier: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the names of the constraints that a script switched off, each with the PRAGMA that ends that.

        It is the one of ``earlier``, if it checks them; otherwise the one with which every connection begins.
        """
        for name, text in earlier.items():
            if name in self.effects() and not (text and changes(name, text)):
                self.pragmas.pop(name)
                self.pragmas |= {name: text} if text else {}
                yield name, text or ending(name)

    def effects(self) -> dict[str, str]:
        """Return what the settings change, by their names, each with the PRAGMA that ends it."""
        changed = {
            name: f"{EFFECTS[name][1]} on this connection until {ending(name)}"
            for name, text in self.pragmas.items()
            if changes(name, text)
        }
        return changed | ({"defer_foreign_keys": DEFERRED} if self.deferred else {})

    def left_since(self, before: Iterable[str]) -> list[str]:
        """Return a sentence for each effect that was not in effect ``before``."""
        left = (text for name, text in self.effects().items() if name not in before)
        return [f"{text[:1].upper()}{text[1:]}." for text in left]

    @property
    def any(self) -> bool:
        """Whether there is a setting or a temporary table, which is lost with the server-side connection."""
        return bool(self.pragmas or self.temporary or self.deferred)

    def note(self) -> str:
        """Return stable lines about restored settings and lost temporary tables; '' if there were none."""
        parts = []
        if self.pragmas:
            parts.append("set again: " + "; ".join(self.pragmas.values()))
        if self.temporary:
            parts.append(f"temporary tables are gone: {self.temporary.listing}")
        reopened = f"The connection was reopened ({'; '.join(parts)})." if parts else ""
        return f"{reopened} {self._way_out}" if self.temporary else reopened

    @property
    def _way_out(self) -> str:
        names = self.temporary.names
        them = "them" if len(names) > 1 else "it"
        return f"Create {them if names[1:] else names[0]} without TEMP, or create and use {them} in one cell."


def changes(name: str, text: str) -> bool:
    """Return True if a PRAGMA gives a setting another value than its normal one, with an effect."""
    return name in EFFECTS and parse(text).switches_on is not EFFECTS[name][0]


def ending(name: str) -> str:
    """Return the PRAGMA that gives a setting its normal value again."""
    return f"PRAGMA {name} = {'ON' if EFFECTS[name][0] else 'OFF'}"
