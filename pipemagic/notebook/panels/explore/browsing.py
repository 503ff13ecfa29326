"""What the panel Explore browses: the tables of a connection, and one of them by pages."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from traitlets import Any as AnyTrait
from traitlets import Bool, Int, Unicode

from pipemagic.errors import AnswerTimeout, PipemagicError
from pipemagic.explore import conditions
from pipemagic.explore.schema import Schema, read_schema
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.panels.explore import paging
from pipemagic.notebook.panels.explore.cells import Whole
from pipemagic.notebook.panels.explore.following import FollowingModel, Quiet
from pipemagic.notebook.panels.explore.paging import Condition, Look, Page
from pipemagic.notebook.panels.explore.questions import Questions
from pipemagic.notebook.panels.holdings import Holdings

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.explore.schema import Relation
    from pipemagic.session import Connection

COUNTING = 5.0
"""Seconds that the server may take to count rows; then the panel says that there are more than it has shown."""


GONE = "A column is not there any more: what was sorted or filtered by it no longer is."


class BrowsingModel(FollowingModel):
    """Which connection and table is looked at, and the page of it that came last; asked anew after cells that wrote.

    ``page`` changes when an answer is there: what is asked meanwhile is kept aside, so that an error, or giving up,
    leaves what is shown as it is.
    """

    connection = Unicode(help="whose tables are shown; '' if nothing is connected")
    schema = AnyTrait(Schema(0), help="the tables and views of the connection, as they were read last")
    pattern = Unicode(help="what a table's name has to contain to be listed")
    page = AnyTrait(None, allow_none=True, help="paging.Page; None while the tables are listed")
    total = AnyTrait(None, allow_none=True, help="how many rows there are; None if that is not known")
    uncounted = Unicode(help="why it is not known: it is being counted, or could not be")
    whole = AnyTrait(None, allow_none=True, help="(row on the page, column, cells.Whole) of a value shown whole")
    added = Int(help="how many filters were added here; a new form for each")
    uncommitted = Bool(help="whether the cells have a transaction open, of which nothing is seen here")

    def __init__(self, holdings: Holdings, *, counting: float = COUNTING) -> None:
        super().__init__(holdings.session)
        self.holdings = holdings
        self._patience = counting
        self._wanted = Look()
        self._counting = Questions(holdings.session)
        self._counted: tuple[object, ...] | None = None  # what `total` is of
        self._newest_count = 0
        self.session.written.connect(self._written)

    def follow(self, *_: object) -> None:
        """Go to the current connection, unless a table of another one is being looked at."""
        if self.page is None and self.holdings.current != self.connection:
            self.list_tables(self.holdings.current)
        self.look_at_transaction()

    def list_tables(self, connection: str | None = None) -> None:
        """Read which tables a connection has, and list them."""
        name = self.connection if connection is None else connection
        if not name:
            with self.hold_trait_notifications():
                self.connection, self.schema, self.page, self.whole = "", Schema(0), None, None
            return

        def take(schema: Schema) -> str:
            self.connection, self.schema, self.page, self.whole, self.total = name, schema, None, None, None
            self._wanted, self._counted = Look(name), None
            self.look_at_transaction()
            return ""

        self.ask("Reading the tables ...", name, read_schema, take)

    def open(self, table: str) -> None:
        """Show the first page of a table."""
        if table in self.schema:
            self._show(Look(self.connection, table))

    def again(self) -> None:
        """Look again, also at how the table is made now."""
        if self.page is None:
            self.list_tables(self.connection or self.holdings.current)
            return
        self._look_anew("Looking again ...", self.page.look)

    def go_to(self, connection: str, table: str) -> None:
        """Show the first page of a table of any connection."""
        self._look_anew(f"Reading {table} ...", Look(connection, table))

    def _look_anew(self, what: str, look: Look) -> None:
        def ask(database: Database) -> tuple[Schema, Page]:
            return _read_anew(database, look)

        def take(found: tuple[Schema, Page]) -> str:
            schema, page = found
            self.connection, self.schema, self._counted = look.connection, schema, None
            self._take(page)
            return _what_is_gone(look, page)

        self._wanted = look
        self.ask(what, look.connection, ask, take)

    def quiet_question(self) -> Quiet | None:
        """Ask for the page, or the list of tables, that is shown; not while cells have a transaction open."""
        page: Page | None = self.page
        if self.uncommitted or not self.connection:
            return None
        if page is None:
            return self.connection, read_schema, partial(setattr, self, "schema")
        return self.connection, lambda database: _read_anew(database, page.look), partial(self._take_anew, page)

    def _take_anew(self, before: Page, found: tuple[Schema, Page]) -> None:
        """Show what is there now; a value that is shown whole stays if its row is as it was."""
        self.schema, page = found
        self.message = _what_is_gone(before.look, page) or self.message
        row = None if self.whole is None else self.whole[0]
        if row is not None and (page.columns, page.rows[row : row + 1]) != (before.columns, (before.rows[row],)):
            self.whole = None
        self.page, self._wanted = page, page.look
        self._count(page)

    def _written(self, connection: Connection) -> None:
        if connection.name == self.connection:
            self.look_at_transaction()
            self.outdate()

    def sort(self, column: str) -> None:
        """Sort by a column: ascending, then descending, then not at all."""
        look = self._base
        if look.sort != column:
            self._show(replace(look, sort=column, descending=False, offset=0))
        elif not look.descending:
            self._show(replace(look, descending=True, offset=0))
        else:
            self._show(replace(look, sort=None, descending=False, offset=0))

    def add(self, condition: Condition) -> None:
        """Show only the rows for which this holds, too."""
        kept = self._base.conditions
        if condition in kept:
            return
        try:
            paging.literal(condition.value)
        except PipemagicError as error:
            self.refuse(error.message, error.hint)
            return
        self._show(replace(self._base, conditions=(*kept, condition), offset=0))

    def remove(self, condition: Condition) -> None:
        """Take a condition away."""
        kept = tuple(one for one in self._base.conditions if one != condition)
        self._show(replace(self._base, conditions=kept, offset=0))

    def where(self, text: str) -> None:
        """Show only the rows for which a text of SQL holds; '' for all."""
        try:
            conditions.check(text)
        except PipemagicError as error:
            self.refuse(error.message, error.hint)
            return
        self._show(replace(self._base, where=text, offset=0))

    def turn(self, offset: int) -> None:
        """Show the page that begins at a row, from 0."""
        self._show(replace(self._base, offset=max(0, offset)))

    def resize(self, size: int) -> None:
        """Show so many rows on a page."""
        if size in paging.SIZES:
            self._show(replace(self._base, size=size, offset=self._base.offset // size * size))

    def shift(self, first: int) -> None:
        """Show other columns of a wide table, from that number on."""
        self._show(replace(self._base, first=max(0, first)))

    def open_value(self, row: int, column: int) -> None:
        """Show the whole of a long value on the page."""
        page: Page | None = self.page
        if page is None or self.busy:  # a page that is on its way goes first
            return
        if row >= len(page.rows) or column >= len(page.columns):  # pressed on the page before
            return
        cell, name = page.rows[row][column], page.columns[column].name
        if cell.whole is not None:
            self.whole = (row, name, cell.whole)
            return

        def take(found: Whole) -> str:
            self.whole = (row, name, found)
            return ""

        self.ask(
            "Reading the value ...", page.look.connection,
            lambda database: paging.read_value(database, page, row, column), take,
        )  # fmt: skip

    def close_value(self) -> None:
        """Show the rows alone."""
        self.whole = None

    def stop(self) -> None:
        """Give up what is under way; all stays as it is."""
        super().stop()
        self._wanted = self.page.look if self.page is not None else Look(self.connection)

    def look_at_transaction(self) -> None:
        """Note whether the cells have a transaction open on the connection."""
        connection = self.session.connections.get(self.connection)
        self.uncommitted = connection is not None and connection.transaction is Tx.OPEN

    @property
    def _base(self) -> Look:
        """What a next wish changes: what is on its way, or what is shown."""
        return self._wanted if self.busy or self.page is None else self.page.look

    def _show(self, look: Look) -> None:
        if not look.table:
            return
        if self.error:  # the table may not be what it was
            self._look_anew(f"Reading {look.table} ...", look)
            return
        relation: Relation = self.schema.relation(look.table)
        self._wanted = look
        self.ask(
            f"Reading {look.table} ...", look.connection,
            lambda database: paging.read_page(database, look, relation), self._take,
        )  # fmt: skip

    def _take(self, page: Page) -> str:
        before = () if self.page is None else self.page.look.conditions
        self.added += not set(page.look.conditions) <= set(before)
        self.page, self.whole, self._wanted = page, None, page.look
        self.look_at_transaction()
        if self._counted != _counted(page) or page.tells_otherwise(self.total):
            self.total = None
            self._count(page)
        return ""

    def _count(self, page: Page) -> None:
        """Find out how many rows there are; what was known before stays until then."""
        self._counting.hang_up()
        self._counted = _counted(page)
        self._newest_count += 1
        if page.is_last:
            self.total, self.uncounted = page.end, ""
            return
        self.uncounted = "counting ..."
        threading.Thread(
            target=self._counted_rows, args=(self._newest_count, page), name="pipemagic: counting rows", daemon=True
        ).start()

    def _counted_rows(self, number: int, page: Page) -> None:
        """Count in the background, for some seconds; the page is of use without it."""
        total, why = None, "BUG: see the kernel's log"
        try:
            total = self._counting.ask(
                page.look.connection,
                lambda database: paging.count_rows(database, page.look, page.relation),
                timeout=self._patience,
            )
            why = ""
        except AnswerTimeout:
            why = f"the server did not count them in {self._patience:g} s"
        except PipemagicError as error:
            why = f"{error.code}: {error.message}"
        finally:
            with self._starting, self.hold_trait_notifications():
                if number == self._newest_count:
                    self.total, self.uncounted = total, why


def _read_anew(database: Database, look: Look) -> tuple[Schema, Page]:
    """Read a page, and how the table is made now."""
    schema = read_schema(database)
    relation = schema.relation(look.table)
    return schema, paging.read_page(database, paging.fitting(look, relation), relation)


def _what_is_gone(asked: Look, page: Page) -> str:
    kept = page.look
    return "" if (asked.conditions, asked.sort) == (kept.conditions, kept.sort) else GONE


def _counted(page: Page) -> tuple[object, ...]:
    """Give what decides how many rows there are; how often the table was read anew aside."""
    return (*page.look.filtered, page.relation)
