"""Which transaction statements are open, read from the text of what ran.

A server of version 3 says whether a transaction is open (``get_autocommit``); elsewhere, and for a request whose
answer was lost, the text is all there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from pipemagic import sql
from pipemagic.client.heads import TRANSACTION
from pipemagic.hrana.messages import (
    BatchResponse,
    Entry,
    Execute,
    OkCond,
    OkEntry,
    Request,
    RunBatch,
    Sequence,
)


@dataclass
class Nesting:
    """BEGIN and the savepoints that are open, outermost first."""

    begun: bool = False
    savepoints: list[str] = field(default_factory=list)

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self.begun or bool(self.savepoints)

    def clear(self) -> None:
        """Forget everything: the transaction ended."""
        self.begun = False
        self.savepoints.clear()

    def correct(self, *, autocommit: bool) -> None:
        """Take over what the server says."""
        if autocommit:
            self.clear()
        elif not self.open:
            self.begun = True

    def see(self, text: str) -> None:
        """Take in one statement that ran without an error."""
        keyword = sql.parse(text).keyword
        if keyword not in TRANSACTION:
            return
        words = [token.text for token in sql.tokens(text) if token.kind in ("word", "quoted", "string")]
        upper = [word.upper() for word in words]
        if keyword == "BEGIN":
            self.begun = True
        elif keyword == "SAVEPOINT":
            self.savepoints.append(_name(words[-1]))
        elif keyword == "RELEASE":
            self._unwind(_name(words[-1]), keep=False)
        elif keyword == "ROLLBACK" and "TO" in upper[1:3]:
            self._unwind(_name(words[-1]), keep=True)
        else:
            self.clear()

    def after(self, requests: Iterable[Request]) -> Nesting:
        """Give what would be open if all these requests ran without an error."""
        ahead = replace(self, savepoints=list(self.savepoints))
        for request in requests:
            for text in _texts(request):
                ahead.see(text)
        return ahead

    def answered(self, request: Request, entry: Entry) -> None:
        """Take in a request with its answer: only what ran without an error counts."""
        for text in _succeeded(request, entry):
            self.see(text)

    def _unwind(self, name: str, *, keep: bool) -> None:
        for number in range(len(self.savepoints) - 1, -1, -1):
            if self.savepoints[number] == name:
                del self.savepoints[number + keep :]
                return


def _name(word: str) -> str:
    """Give the name that a savepoint's word stands for; SQLite compares them without case."""
    return word.strip("\"'`[]").lower()


def _texts(request: Request) -> Iterator[str]:
    match request:
        case Execute(stmt):
            yield stmt.sql or ""
        case Sequence(text):
            yield from (piece.text for piece in sql.split(text or ""))
        case RunBatch(batch):
            for step in batch.steps:
                if step.condition is None or isinstance(step.condition, OkCond):  # not what runs on a failure
                    yield step.stmt.sql or ""


def _succeeded(request: Request, entry: Entry) -> Iterator[str]:
    if not isinstance(entry, OkEntry):
        return
    if isinstance(request, RunBatch) and isinstance(entry.response, BatchResponse):
        for step, result in zip(request.batch.steps, entry.response.result.step_results, strict=False):
            if result is not None:
                yield step.stmt.sql or ""
    else:
        yield from _texts(request)
