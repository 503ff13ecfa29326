"""The messages of failed cells: which statement failed and where, what is applied, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pipemagic.client.arguments import ROWS_OF, values_of
from pipemagic.client.readonly import find_write
from pipemagic.client.transaction import Loss, TransactionContent
from pipemagic.errors import PipemagicError, StatementError
from pipemagic.explore.hints.syntax_errors import (
    LocatedMessage,
    cause,
    ends_early,
    is_correctable,
    unterminated_comment,
)
from pipemagic.hrana import faults
from pipemagic.session.cell import Cell
from pipemagic.session.results import CellResult, Outcome
from pipemagic.session.source_map import SourcePosition, SourceText
from pipemagic.session.transactions import END_IT, after_loss, shorten_statement, so_far, undone
from pipemagic.sql import ParsedStatement, caret, character_offset, normalize, quote, significant
from pipemagic.text import mask_passwords

if TYPE_CHECKING:
    from pipemagic.explore.schema import Relation
    from pipemagic.session.schema_cache import SchemaCache

_LONGEST = 40  # characters of a value in a hint

_ACTING = ("optimize", "incremental_vacuum", "wal_checkpoint", "shrink_memory")
"""Pragmas that do more than return a value, even without an argument."""

_NEAR = re.compile(r'\Anear "(.+)": ', re.DOTALL)
_NAMED = re.compile(
    r"no such (?:table|column|function|view|index|trigger|collation sequence|savepoint): (?:main\.)?(.+)$"
)


@dataclass(frozen=True)
class HintNames:
    """What a hint can name: tables of this and other connections, saved SELECTs, values as SQL.

    In a ``generated`` statement, of a command or a panel, aliases are not the user's.
    """

    schema: SchemaCache
    others: Mapping[str, SchemaCache] = field(default_factory=dict)
    saved: Sequence[str] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    generated: bool = False

    @property
    def tables(self) -> dict[str, Relation]:
        """The tables by their names in lower case."""
        return {relation.name.lower(): relation for relation in self.schema.tables_soon()}


@dataclass(frozen=True)
class FailedStatement:
    """A failed statement of a cell, with everything that its error needs.

    ``error`` comes from the client: its ``index`` counts from 0 within the cell. ``ran`` statements ran before
    it; none if the server parsed the whole cell first. ``before`` is the transaction as it was when the cell began;
    ``open_after`` is how many statements the transaction holds that is open now, None if none is or it is not said.
    ``loss`` is that of a transaction of earlier cells that the database ended. ``schema`` and ``others``, the schemas
    of the session's other connections by name, are for hints.
    """

    cell: Cell
    error: StatementError
    ran: int
    before: TransactionContent
    schema: SchemaCache
    others: Mapping[str, SchemaCache]
    open_after: int | None = None
    loss: Loss | None = None
    atomic: bool = False


# -- a statement that failed


def statement_error(failure: FailedStatement, done: Sequence[Outcome], notes: Sequence[str] = ()) -> StatementError:
    """Return the error that a failed cell raises.

    ``done`` are the outcomes of the statements that ran, ``notes`` the lines that the cell would have shown.
    """
    error, cell = failure.error, failure.cell
    if failure.atomic and (outside := _outside(failure)):
        return _error(failure, done, LocatedMessage(error.message), [outside, *notes], [error.hint])
    if error.code == faults.RESPONSE_TOO_LARGE and len(cell.statements) > 1 and failure.ran == error.index == 0:
        undone = "; a transaction that they had left open was rolled back" if not failure.before.open else ""
        lines = [f"The results of the cell are too large. Its statements may have run{undone}."]
        hint = "request fewer rows with LIMIT, or run each query in a cell of its own"
        return _error(failure, done, LocatedMessage(error.message), lines, [hint])
    sent = cell.sent(error.index)
    fault = locate(error, sent)
    place = None if fault.offset is None else cell.position(error.index, fault.offset)
    comment = unterminated_comment(cell.text) if ends_early(error.message) else None
    if comment is not None and error.index == len(cell.statements) - 1:  # it was not sent
        fault = LocatedMessage("unterminated comment", fault.offset, of_line=True)
        place = SourcePosition(SourceText(cell.text, cell.source), comment)
    hints = [error.hint, "" if failure.loss is None else after_loss(failure.loss, refuses=True)]
    if fault.of_line and place is not None:
        fault = LocatedMessage(f"{place.where}: {fault.message}", fault.offset, of_line=True)
    still = failure.open_after
    lines = [*_where(failure, place, named=fault.of_line), *_fate(failure)]
    lines += [] if still is None else [f"The transaction is still open, {so_far(still)}: {END_IT}."]
    lines += notes
    return _error(failure, done, fault, lines, hints, cell.before + error.index, sent)


def locate(error: StatementError, sql: str) -> LocatedMessage:
    """Return the error of a statement: the cause if its text proves one, otherwise the server's message."""
    offset = _only_place(error.message, sql) if error.offset is None else character_offset(sql, error.offset)
    return cause(error.message, sql, offset) or LocatedMessage(error.message, offset)


def explained(error: StatementError, names: HintNames) -> StatementError:
    """Return an error of a statement outside of a cell with its cause as the message, and a hint."""
    from pipemagic.session.name_hints import name_hint

    if error.cell is not None:  # it has the message of a cell
        return error
    fault = locate(error, error.sql)
    hint = error.hint or name_hint(fault.message.split("\n")[0], error.sql, fault.offset, names)
    return error.replace(message=fault.message, hint=hint)


def _only_place(message: str, sql: str) -> int | None:
    """Return the offset of the name that the message quotes, if it occurs in the statement exactly once."""
    match = _NEAR.match(message) or _NAMED.search(message)
    if match is None:
        return None
    name = match[1].split(".")[-1].lower()
    places = [token.start for token in significant(sql) if normalize(token.text) == name]
    return places[0] if len(places) == 1 else None


def excerpt(text: str, offset: int) -> str:
    """Return the line that contains a character offset, with a caret below the position and without passwords.

    Passwords are masked first: later the caret would move, and a shortened line might contain half of one.
    """
    return caret(mask_passwords(text), len(mask_passwords(text[:offset])))


def _error(
    failure: FailedStatement, done: Sequence[Outcome], fault: LocatedMessage, lines: Sequence[str],
    hints: Iterable[str], index: int = 0, sent: str = "",
) -> StatementError:  # fmt: skip
    message, hint = "\n".join([fault.message, *lines]), "\n".join(filter(None, hints))
    first = fault.message.split("\n")[0]
    more = _name_hint(first, sent, fault.offset, failure) or limit_hint(failure.error.code, first, hint)
    if more and more not in f"{message}\n{hint}":
        hint = "\n".join(filter(None, [more, hint]))
    offset = None if fault.offset is None else len(sent[: fault.offset].encode())
    result = _cell_result(failure, done, first)
    return failure.error.replace(message=message, hint=hint, index=index, sql=sent, offset=offset, cell=result)


def _name_hint(message: str, sent: str, offset: int | None, failure: FailedStatement) -> str:
    """Return a hint on a name or on SQL of another database, in the words of the user's text."""
    from pipemagic.explore.hints.corrections import correction
    from pipemagic.session.name_hints import name_hint

    cell, index = failure.cell, failure.error.index
    if not 0 <= index < len(cell.statements):
        return ""
    text = cell.statements[index].text
    if text != sent and offset is not None:
        place = cell.position(index, offset)
        offset = place.offset - cell.statements[index].start
        if place.source != SourceText(cell.text, cell.source) or not 0 <= offset <= len(text):
            text, offset = sent, len(sent)  # the error is in a saved SELECT
    names = HintNames(failure.schema, failure.others, cell.saved, _values(cell, index))
    hint = name_hint(message, text, offset, names)
    return hint or (correction(sent) if is_correctable(message) else "")


def _values(cell: Cell, index: int) -> dict[str, str]:
    """Return the short values of the parameters of a statement as SQL, by their names."""
    texts = {}
    for name, value in values_of(cell.stmts[index]).items():
        if value is None:
            texts[name] = "NULL"
        elif isinstance(value, int | float):
            texts[name] = repr(value)
        elif isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST and ROWS_OF not in name:
            texts[name] = quote(value, "'")
    return texts


def _cell_result(failure: FailedStatement, done: Sequence[Outcome], fault: str) -> CellResult:
    """Return the result of the cell; the outcomes that were rolled back with the failure are marked.

    A setting of the connection, such as PRAGMA cache_size, stays in effect.
    """
    statements, index, ran = failure.cell.statements, failure.error.index, failure.cell.statements[: failure.ran]
    earlier = len(done) - failure.ran  # statements that ran before
    undone: int | None = 0
    if not failure.atomic:
        stays_open = failure.open_after is not None or not failure.before.ahead(ran).open
        undone = None if stays_open else failure.before.began_at(ran) or 0
    if undone is not None:
        for outcome in done[earlier + undone :]:
            outcome.undone = not outcome.statement.connection_setting
    failed = statements[index] if 0 <= index < len(statements) else None
    return CellResult(tuple(done), rest=statements[failure.ran :], failed=failed, fault=fault)


def _outside(failure: FailedStatement) -> str:
    """Return which other part of an atomic cell failed, as text; '' if a statement failed."""
    error = failure.error
    if error.sql.startswith("BEGIN") or error.index < 0:
        return "nothing was changed; the transaction could not begin"
    if error.sql == "COMMIT" or error.index >= len(failure.cell.statements):
        return "nothing was changed; all statements ran, and COMMIT failed"
    if error.code == faults.RESPONSE_TOO_LARGE and failure.cell.total > 1:
        return "nothing was changed; the results of the cell are too large together"
    return ""


def _where(failure: FailedStatement, place: SourcePosition | None, *, named: bool) -> list[str]:
    """Return the statement and its line, unless it is the only one and the line is ``named``, and an excerpt."""
    cell, index = failure.cell, failure.error.index
    statement, total = cell.statements[index], cell.total
    start = max(statement.start, 0)  # what is before the text of the cell was not typed
    position = place or SourcePosition(SourceText(cell.text, cell.source), start)
    number = f"statement {cell.before + index + 1} of {total}"
    if failure.atomic:
        head = [f"nothing was changed; {number} failed here, {position.where}:"]
    elif total > 1:
        head = [f"{number}, {position.where}:"]
    else:
        several = position.source.name or "\n" in cell.text.strip()
        head = [f"{position.where}:"] if several and not named else []
    if place is not None:
        return head + [f"  {text}" for text in excerpt(place.source.text, place.offset).split("\n")]
    written = statement.text[start - statement.start :]
    return [*head, f"  {shorten_statement(mask_passwords(written), 76)}"] if head else []


# -- the outcome of the other statements


def _fate(failure: FailedStatement) -> list[str]:
    """Return the outcome of the statements before the failed one, and that those after it did not run."""
    cell, index = failure.cell, failure.error.index
    if failure.atomic:
        return []
    if cell.total > 1 and failure.ran < index:
        return ["No statement of the cell ran."]
    parts = _fates(cell, failure.before, failure.ran, still_open=failure.open_after is not None)
    lines = _sentence([*parts, _were(cell, index + 1, len(cell.statements), "did not run")])
    return [*lines, *undone(failure.loss)] if failure.loss is not None else lines


def half_way(error: PipemagicError, cell: Cell, before: TransactionContent, *, still_open: bool, atomic: bool) -> str:
    """Return the outcome of a cell of which only some statements ran before a request was refused."""
    if atomic:
        return "nothing was changed"
    parts = _fates(cell, before, error.ran, still_open=still_open)
    return "\n".join(_sentence([*parts, _were(cell, error.ran, len(cell.statements), "did not run")]))


def _fates(cell: Cell, before: TransactionContent, ran: int, *, still_open: bool) -> list[str]:
    """Return the outcome of the first ``ran`` statements of a cell."""
    began = before.began_at(cell.statements[:ran])
    inside = "{} part of the open transaction" if still_open else "{} rolled back"
    if not before.ahead(cell.statements[:ran]).open:
        return [_applied(cell, before, ran)]
    if began is not None:
        return [_applied(cell, before, began), _were(cell, began, ran, inside)]
    if still_open:
        return [_were(cell, 0, ran, inside)]
    return ["the database rolled back the whole transaction, including the statements of earlier cells"]


def _were(cell: Cell, first: int, end: int, fate: str) -> str:
    subject = span(cell, first, end)
    return f"{subject} {fate.format('was' if end - first == 1 else 'were')}" if subject else ""


def _applied(cell: Cell, before: TransactionContent, end: int) -> str:
    """Return that the statements before index ``end`` were applied; '' if none of them changed anything.

    Statements that only read, and those that a ROLLBACK undid, are left out.
    """
    lasting = [index for index in _not_undone(cell, before, end) if not _reads(cell.statements[index])]
    statements = [cell.statements[index] for index in lasting]
    ends_earlier = before.open and any(statement.commits for statement in statements)
    if not ends_earlier and all(statement.controls_transaction for statement in statements):
        return ""
    numbers = [cell.before + index + 1 for index in lasting]
    return f"{_numbered(numbers)} {'was' if len(numbers) == 1 else 'were'} applied"


def _not_undone(cell: Cell, before: TransactionContent, end: int) -> list[int]:
    """Return the indexes of the statements before index ``end`` without those that a ROLLBACK undid."""
    lasting: list[int] = []
    ahead, start = before.copy(), 0
    for index, statement in enumerate(cell.statements[:end]):
        was_open = ahead.open
        start = start if was_open else len(lasting)
        lasting.append(index)
        ahead.apply(statement)
        if was_open and statement.rolls_back:
            del lasting[start:]
    return lasting


def _reads(statement: ParsedStatement) -> bool:
    if statement.controls_transaction:
        return False
    name, value = statement.pragma
    is_value = bool(name) and not value and name not in _ACTING
    return statement.only_reads or is_value or find_write(statement.text) is None


def _numbered(numbers: Sequence[int]) -> str:
    """Return the statements with these numbers: ``statements 1-3, 5 and 7``."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    texts = ["-".join(map(str, ends)) for ends in ranges]
    enumeration = f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]
    return f"statement{'s' if len(numbers) > 1 else ''} {enumeration}"


def _sentence(parts: Iterable[str]) -> list[str]:
    text = "; ".join(filter(None, parts))
    return [f"{text[0].upper()}{text[1:]}."] if text else []


def span(cell: Cell, first: int, end: int) -> str:
    """Return the numbers of the statements from index ``first`` up to, not including, ``end``; '' for none."""
    if end <= first:
        return ""
    last = cell.before + end
    return f"statement {last}" if end - first == 1 else f"statements {cell.before + first + 1}-{last}"


# -- limits

_LIMITS_BY_CODE = {
    faults.TRANSACTION_TIMEOUT: "a transaction has a time limit: put BEGIN to COMMIT into one cell, or use --atomic",
    faults.STREAM_EXPIRED: "the server closes a connection that is idle for too long; run the cell again",
    faults.STATEMENT_TIMEOUT: "read fewer rows, or add an index: EXPLAIN QUERY PLAN shows how tables are read",
    faults.RESPONSE_TOO_LARGE: "request fewer rows with LIMIT, or fewer columns",
}
_LIMITS_BY_TEXT = {
    "too many SQL variables": "a statement can have 32766 parameters: load more values into a table and join it",
    "string or blob too big": "a value, row or statement is larger than the server accepts: store it in parts",
    "database or disk is full": "the database has reached its size limit: delete rows, or raise the limit",
    "ROLLBACK and begin again": "",  # the message of a snapshot conflict, whose remedy is complete
    "database is locked": "another connection is writing, or wrote meanwhile: run the cell again; in a transaction, "
    "ROLLBACK first, and begin with BEGIN IMMEDIATE",
    "unsupported statement": "this server does not support the statement",
}


def limit_hint(code: str, message: str, hint: str = "") -> str:
    """Return how to stay below a limit of the server; '' for other errors, or if there is a ``hint`` for that code."""
    if code in _LIMITS_BY_CODE:
        return "" if hint else _LIMITS_BY_CODE[code]
    return next((advice for text, advice in _LIMITS_BY_TEXT.items() if text in message), "")
