"""Settings of a server-side connection, which are lost when it is reopened."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipemagic.sql import ParsedStatement


@dataclass
class Settings:
    """The user's settings of a connection: pragmas by name, in the order in which they were first set."""

    pragmas: dict[str, str] = field(default_factory=dict)
    temporary: bool = False

    def update(self, statement: ParsedStatement, *, inside: bool = False) -> None:
        """Record a statement that ran without an error, possibly ``inside`` a transaction."""
        if statement.connection_setting and not (inside and statement.is_ignored_in_transaction):
            self.pragmas[statement.connection_setting] = statement.text
        self.temporary |= statement.creates_temporary

    def note(self) -> str:
        """Return one stable line about restored settings and lost temporary tables; '' if there were none."""
        parts = []
        if self.pragmas:
            parts.append("set again: " + "; ".join(self.pragmas.values()))
        if self.temporary:
            parts.append("temporary tables are gone")
        return f"The connection was reopened ({'; '.join(parts)})." if parts else ""
