"""Settings that live on a server-side connection and are gone when it is opened anew."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pipemagic.sql import ParsedStatement, tokens

_OF_CONNECTION = re.compile(
    r"(analysis_limit|automatic_index|busy_timeout|cache_size|cache_spill|case_sensitive_like|cell_size_check"
    r"|checkpoint_fullfsync|foreign_keys|full_column_names|fullfsync|hard_heap_limit|ignore_check_constraints"
    r"|legacy_alter_table|locking_mode|mmap_size|query_only|read_uncommitted|recursive_triggers"
    r"|reverse_unordered_selects|short_column_names|soft_heap_limit|synchronous|temp_store|threads"
    r"|trusted_schema)\Z"
)
"""PRAGMAs that set something of the connection. The others are questions, or change the database file itself:
to repeat ``user_version = 3`` on another connection could undo somebody's work."""


@dataclass
class Settings:
    """What the user set on the connection, in the order in which it was first set."""

    pragmas: dict[str, str] = field(default_factory=dict)
    temporary: bool = False

    def follow(self, statement: ParsedStatement, *, inside: bool = False) -> None:
        """Take in a statement that ran without an error, be it ``inside`` a transaction."""
        if inside and without_effect_inside(statement):
            return
        if statement.keyword == "PRAGMA":
            if name := _setting(statement):
                self.pragmas[name] = statement.text
        elif statement.keyword == "CREATE" and _makes_temporary(statement):
            self.temporary = True

    def replay(self) -> list[str]:
        """Give the statements that bring a new connection to where the old one was."""
        return list(self.pragmas.values())

    def note(self) -> str:
        """Say in one stable line what was set again and what is gone; '' if nothing was there."""
        parts = []
        if self.pragmas:
            parts.append("set again: " + "; ".join(self.pragmas.values()))
        if self.temporary:
            parts.append("temporary tables are gone")
        return f"The connection was opened anew ({'; '.join(parts)})." if parts else ""


def without_effect_inside(statement: ParsedStatement) -> bool:
    """Tell whether SQLite ignores the statement in a transaction, without an error."""
    return statement.keyword == "PRAGMA" and _setting(statement) == "foreign_keys"


def _words(statement: ParsedStatement) -> list[str]:
    return [token.text for token in tokens(statement.text) if token.kind not in ("space", "comment")]


def _setting(statement: ParsedStatement) -> str:
    """Give the name of the setting that a PRAGMA changes; '' if it only asks or changes the file."""
    words = _words(statement)[1:]
    if words[1:2] == ["."]:
        words = words[2:]
    name = words[0].lower() if words else ""
    return name if _OF_CONNECTION.match(name) and words[1:2] in (["="], ["("]) else ""


def _makes_temporary(statement: ParsedStatement) -> bool:
    return [word.upper() for word in _words(statement)[1:2]] in (["TEMP"], ["TEMPORARY"])
