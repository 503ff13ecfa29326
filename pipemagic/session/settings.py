"""Settings of a server-side connection, which are lost when it is reopened."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipemagic.session import temporary_tables
from pipemagic.session.temporary_tables import TemporaryTables
from pipemagic.sql import ParsedStatement

CHANGED_BY = temporary_tables.CHANGED_BY | {"PRAGMA"}
"""The first words of statements to record."""


@dataclass
class Settings:
    """The user's settings of a connection: pragmas by name, in the order in which they were first set."""

    pragmas: dict[str, str] = field(default_factory=dict)
    temporary: TemporaryTables = field(default_factory=TemporaryTables)

    def update(self, statement: ParsedStatement, *, inside: bool = False) -> None:
        """Record a statement that ran without an error, possibly ``inside`` a transaction."""
        if statement.keyword != "PRAGMA":
            self.temporary.update(statement)
        elif statement.connection_setting and not (inside and statement.is_ignored_in_transaction):
            self.pragmas[statement.connection_setting] = statement.text

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
