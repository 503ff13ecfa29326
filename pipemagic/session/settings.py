"""Settings that live on a server-side connection and are gone when it is opened anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipemagic.sql import ParsedStatement


@dataclass
class Settings:
    """What the user set on the connection: its pragmas by name, in the order in which they were first set."""

    pragmas: dict[str, str] = field(default_factory=dict)
    temporary: bool = False

    def follow(self, statement: ParsedStatement, *, inside: bool = False) -> None:
        """Take in a statement that ran without an error, be it ``inside`` a transaction."""
        if statement.connection_setting and not (inside and statement.is_ignored_in_transaction):
            self.pragmas[statement.connection_setting] = statement.text
        self.temporary |= statement.creates_temporary

    def note(self) -> str:
        """Return one stable line about what was set again and what is gone; '' if nothing was there."""
        parts = []
        if self.pragmas:
            parts.append("set again: " + "; ".join(self.pragmas.values()))
        if self.temporary:
            parts.append("temporary tables are gone")
        return f"The connection was opened anew ({'; '.join(parts)})." if parts else ""
