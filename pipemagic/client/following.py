"""What becomes of the transaction on a stream: with each answer, when none comes, and when the stream has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipemagic.client import answers
from pipemagic.client.nesting import Nesting
from pipemagic.errors import TransactionLost
from pipemagic.hrana.messages import Entry, GetAutocommitResponse, OkEntry, Request
from pipemagic.hrana.stream import IDLE_LIMIT, TRANSACTION_LIMIT, Transaction, Tx

AGAIN = "start again from BEGIN, or run the whole transaction in one cell"


class Following:
    """Keeps up with a transaction by what was sent and what came back; sends nothing itself."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.transaction = Transaction()
        self._clock = clock
        self._nesting = Nesting()
        self._opened_at = 0.0

    def age(self) -> float | None:
        """Seconds since the request that opened the transaction; None if none is open."""
        return self._clock() - self._opened_at if self.transaction.state is Tx.OPEN else None

    def settle(self) -> None:
        """Accept that the transaction was lost."""
        if self.transaction.state is Tx.LOST:
            self.transaction.move("settle")

    def observe(self, *, autocommit: bool) -> None:
        """Take in whether a transaction is open."""
        if autocommit:
            self._nesting.clear()
        self.transaction.observe(autocommit=autocommit)

    def answered(self, requests: Sequence[Request], entries: Sequence[Entry], *, sent_at: float, closed: bool) -> None:
        """Take in an answer, ``closed`` if the stream ended with it; TransactionLost if the transaction is lost."""
        late = next((number for number, entry in enumerate(entries) if answers.timed_out(entry)), None)
        if late is not None:
            self._time_out(requests, entries[late], entries[late + 1 : len(requests)])
        before = self.transaction.state
        for request, entry in zip(requests, entries, strict=False):
            self._nesting.answered(request, entry)
        if answers.closes(requests):
            self._nesting.clear()
        last = entries[-1] if entries else None
        autocommit = None
        if isinstance(last, OkEntry) and isinstance(last.response, GetAutocommitResponse):
            autocommit = last.response.is_autocommit
        if not closed and autocommit is not None:
            self._nesting.correct(autocommit=autocommit)
        elif closed and self._nesting.open:
            failure = answers.first_error(entries)
            if not autocommit or not failure:
                self._lose()
                why = "the server closed the connection and rolled the transaction back"
                raise TransactionLost(f"{why}; a statement failed: {failure}" if failure else why, hint=AGAIN)
            self._nesting.clear()  # the statement that failed ended the transaction, as INSERT OR ROLLBACK does
        self.observe(autocommit=not self._nesting.open)
        if before is Tx.NONE and self.transaction.state is Tx.OPEN:
            self._opened_at = sent_at

    def unanswered(self, requests: Sequence[Request]) -> bool:
        """Take in that the stream ended without an answer; tells whether an open transaction ended with it."""
        was_open, ahead = self.transaction.state is Tx.OPEN, self._nesting.after(requests)
        self._nesting.clear()
        if answers.closes(requests):
            ahead.clear()
        if was_open and not ahead.open:
            self.transaction.move("end")  # it held its own COMMIT, ROLLBACK or close: over, one way or the other
        elif ahead.open:
            self._lose()
        return ahead.open

    def expired(self, idle: float) -> None:
        """Take in that the stream has ended by itself, ``idle`` seconds after its last answer.

        Raises TransactionLost if a transaction was open.
        """
        age = self.age()
        self._nesting.clear()
        if age is None:
            return
        self.transaction.move("lose")
        limits = []
        if age > TRANSACTION_LIMIT:
            limits.append(f"it must be committed within {TRANSACTION_LIMIT:.0f} s and was open for longer")
        if idle > IDLE_LIMIT:
            limits.append(f"the connection was idle for more than {IDLE_LIMIT:.0f} s and is closed by then")
        else:
            limits.append("the server closed the connection (was it restarted, or are its limits shorter?)")
        raise TransactionLost(f"the server rolled the transaction back: {'; '.join(limits)}", hint=AGAIN)

    def found_over(self) -> TransactionLost:
        """Take in that a transaction which was open for too long is over; gives the error to raise."""
        self._lose()
        return TransactionLost(
            f"the server rolled the transaction back: it must be committed within {TRANSACTION_LIMIT:.0f} s "
            "and was open for longer",
            hint=AGAIN,
        )

    def _lose(self) -> None:
        self._nesting.clear()
        self.transaction.observe(autocommit=False)
        self.transaction.move("lose")

    def _time_out(self, requests: Sequence[Request], late: Entry, later: Sequence[Entry]) -> None:
        """Raise TransactionLost for a transaction that was rolled back before ``late`` ran."""
        still_open = self._nesting.after(requests).open and not answers.closes(requests)
        age = self.age()
        if still_open:
            self._lose()
        else:
            self.observe(autocommit=True)
        ran = sum(map(answers.written, later))
        why = f"it must be committed within {TRANSACTION_LIMIT:.0f} s"
        if age is not None and age > TRANSACTION_LIMIT:
            why += " and was open for longer"  # not for how long: a saved notebook holds no times
        if ran:
            why += f"; {ran} later statement(s) of the same request ran outside it and stay applied"
        error = TransactionLost(f"the server rolled the transaction back: {why}", hint=AGAIN)
        error.ran = answers.ran_in_time(late)
        raise error
