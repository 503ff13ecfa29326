"""What the open transaction of a connection holds, told from the statements that ran.

The server says only whether a transaction is open. People also want to know which statements a rollback undid,
and which of a cell's statements stay applied: that is what the ledger is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipemagic.client.nesting import Nesting
from pipemagic.sql import Statement, tokens

SHOWN = 5
"""So many statements of a lost transaction are listed; the rest are counted."""


@dataclass
class Ledger:
    """The statements of the open transaction, oldest first; none if no transaction is open."""

    statements: list[str] = field(default_factory=list)
    _nesting: Nesting = field(default_factory=Nesting)

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self._nesting.open

    def follow(self, statement: Statement) -> None:
        """Take in a statement that ran without an error."""
        self._nesting.see(statement.text)
        if self.open:
            self.statements.append(statement.text)
        else:
            self.statements.clear()

    def clear(self) -> None:
        """Forget the transaction: it is over."""
        self._nesting.clear()
        self.statements.clear()

    def ahead(self, statements: Iterable[Statement]) -> Ledger:
        """Give what the ledger would be if all these statements ran without an error."""
        ledger = Ledger(list(self.statements), self._nesting.after(()))
        for statement in statements:
            ledger.follow(statement)
        return ledger

    def began_at(self, statements: Sequence[Statement]) -> int | None:
        """Give the index of the statement that opens the transaction which is open after all of them.

        None if no transaction is open then, or if it is the one that was open before.
        """
        ledger, index = self.ahead(()), None
        for number, statement in enumerate(statements):
            was_open = ledger.open
            ledger.follow(statement)
            if not ledger.open:
                index = None
            elif not was_open:
                index = number
        return index


def opens(statement: Statement) -> bool:
    """Tell whether the statement opens a transaction where there is none."""
    return statement.keyword in ("BEGIN", "SAVEPOINT")


def is_rollback(statement: Statement) -> bool:
    """Tell a ROLLBACK of the whole transaction from one TO a savepoint."""
    if statement.keyword != "ROLLBACK":
        return False
    return not any(token.text.upper() == "TO" for token in tokens(statement.text) if token.kind == "word")


def listing(statements: Sequence[str], *, width: int = 72) -> str:
    """List statements one a line, indented, shortened to ``width`` characters; at most SHOWN of them."""
    shown = statements if len(statements) <= SHOWN + 1 else statements[:SHOWN]
    lines = [f"  {shorten(text, width)}" for text in shown]
    if len(shown) < len(statements):
        lines.append(f"  and {len(statements) - len(shown)} more")
    return "\n".join(lines)


def shorten(text: str, width: int) -> str:
    """Give a statement as one line of at most ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3] + "..."
