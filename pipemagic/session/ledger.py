"""What the open transaction of a connection holds, told from the statements that ran.

The server says only whether a transaction is open. People also want to know which statements a rollback undid,
and which of a cell's statements stay applied: that is what the ledger is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from pipemagic.client.heads import TRANSACTION
from pipemagic.client.nesting import Nesting
from pipemagic.hrana.messages import Stmt
from pipemagic.sql import ParsedStatement, parse, tokens

SHOWN = 5
"""So many statements of a lost transaction are listed; the rest are counted."""


@dataclass(frozen=True)
class Held:
    """A statement of a transaction, as it was sent: with the values that its parameters had."""

    text: str
    stmt: Stmt = field(repr=False)


@dataclass
class Ledger:
    """The statements of the open transaction, oldest first; none if no transaction is open.

    Those that ROLLBACK TO took back are not among them. ``incomplete`` tells that others may have run in it, too:
    the server said only that it could not send what they returned.
    """

    held: list[Held] = field(default_factory=list)
    incomplete: bool = False
    _nesting: Nesting = field(default_factory=Nesting)
    _marks: list[int] = field(default_factory=list)  # of each savepoint: how many are held when it is set

    @property
    def statements(self) -> list[str]:
        """Their texts."""
        return [one.text for one in self.held]

    @property
    def count(self) -> int:
        """How many there are beside those that begin, name and leave transactions."""
        return sum(not controls(one.text) for one in self.held)

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self._nesting.open

    def follow(self, statement: ParsedStatement, stmt: Stmt | None = None) -> None:
        """Take in a statement that ran without an error, and what was sent for it."""
        self._nesting.see(statement.text)
        del self._marks[len(self._nesting.savepoints) :]
        if not self.open:
            self.clear()
            return
        if self._marks and goes_back(statement):
            del self.held[self._marks[-1] :]
            return
        self.held.append(Held(statement.text, stmt or Stmt(statement.text)))
        if len(self._marks) < len(self._nesting.savepoints):
            self._marks.append(len(self.held))

    def correct(self, *, autocommit: bool) -> None:
        """Take over what the server says about the transaction after the last statement."""
        self._nesting.correct(autocommit=autocommit)
        if autocommit:
            self.held.clear()
            self._marks.clear()
            self.incomplete = False

    def clear(self) -> None:
        """Forget the transaction: it is over."""
        self.correct(autocommit=True)

    def ahead(self, statements: Sequence[ParsedStatement], stmts: Sequence[Stmt] = ()) -> Ledger:
        """Give what the ledger would be if all these statements ran without an error."""
        ledger = Ledger(list(self.held), self.incomplete, self._nesting.after(()), list(self._marks))
        for statement, stmt in zip_longest(statements, stmts[: len(statements)]):
            ledger.follow(statement, stmt)
        return ledger

    def began_at(self, statements: Sequence[ParsedStatement]) -> int | None:
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


def opens(statement: ParsedStatement) -> bool:
    """Tell whether the statement opens a transaction where there is none."""
    return statement.keyword in ("BEGIN", "SAVEPOINT")


def controls(text: str) -> bool:
    """Tell whether a statement only begins, names or ends transactions."""
    return parse(text).keyword in TRANSACTION


def is_rollback(statement: ParsedStatement) -> bool:
    """Tell a ROLLBACK of the whole transaction from one TO a savepoint."""
    return statement.keyword == "ROLLBACK" and not goes_back(statement)


def goes_back(statement: ParsedStatement) -> bool:
    """Tell a ROLLBACK TO a savepoint."""
    if statement.keyword != "ROLLBACK":
        return False
    return any(token.text.upper() == "TO" for token in tokens(statement.text) if token.kind == "word")


def listing(statements: Sequence[str], *, width: int = 72, most: int = SHOWN) -> str:
    """List statements one a line, indented, shortened to ``width`` characters; at most ``most`` of them."""
    shown = statements if len(statements) <= most + 1 else statements[:most]
    lines = [f"  {shorten(text, width)}" for text in shown]
    if len(shown) < len(statements):
        lines.append(f"  and {len(statements) - len(shown)} more")
    return "\n".join(lines)


def shorten(text: str, width: int) -> str:
    """Give a statement as one line of at most ``width`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 3] + "..."
