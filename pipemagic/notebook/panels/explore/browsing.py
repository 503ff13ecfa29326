"""What the panel Explore browses: the tables of a connection, and one of them by pages."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from traitlets import Any as AnyTrait
from traitlets import Bool, Unicode

from pipemagic.errors import AnswerTimeout, PipemagicError
from pipemagic.explore.schema import Schema, read_schema
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.panels.explore import paging
from pipemagic.notebook.panels.explore.paging import Condition, Look, Page, Whole
from pipemagic.notebook.panels.explore.questions import AskingModel, Questions
from pipemagic.notebook.panels.holdings import Holdings

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.explore.schema import Relation

COUNTING = 5.0
"""Seconds that the server may take to count rows; then the panel says that there are more than it has shown."""


GONE = "A column is not there any more: what was sorted or filtered by it no longer is."


class BrowsingModel(AskingModel):
    """Which connection and table is looked at, and the page of it that came last.

    ``page`` changes when an answer is there: what is asked meanwhile is kept aside, so that an error, or giving up,
    leaves what is shown as it is.
    """

    connection = Unicode(help="whose tables are shown; '' if nothing is connected")
    schema = AnyTrait(Schema(0), help="the tables and views of the connection, as they were read last")
    pattern = Unicode(help="what a table's name has to contain to be listed")
    page = AnyTrait(None, allow_none=True, help="paging.Page; None while the tables are listed")
    total = AnyTrait(None, allow_none=True, help="how many rows there are; None if that is not known")
    uncounted = Unicode(help="why it is not known: it is being counted, or could not be")
    whole = AnyTrait(None, allow_none=True, help="(row on the page, column, paging.Whole) of a value shown whole")
    uncommitted = Bool(help="whether the cells have a transaction open, of which nothing is seen here")

    def __init__(self, holdings: Holdings, *, counting: float = COUNTING) -> None:
        super().__init__(holdings.session)
        self.holdings = holdings
        self._patience = counting
        self._wanted = Look()
        self._counting = Questions(holdings.session)
        self._counted: tuple[Any, ...] | None = None  # what `total` is of

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
            schema = read_schema(database)
            relation = schema.relation(look.table)
            return schema, paging.read_page(database, paging.fitting(look, relation), relation)

        def take(found: tuple[Schema, Page]) -> str:
            schema, page = found
            self.connection, self.schema, self._counted = look.connection, schema, None
            self._take(page)
            asked, kept = (look.conditions, look.sort), (page.look.conditions, page.look.sort)
            return "" if asked == kept else GONE

        self._wanted = look
        self.ask(what, look.connection, ask, take)

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
            paging.check_where(text)
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
        cell, name = page.rows[row][column], page.columns[column].name
        if cell.whole is not None:
            self.whole = (row, name, cell.whole)
            return

        def take(found: Whole) -> str:
            self.whole = (row, name, found)
            return ""

        self.ask(
            "Reading the value ...", page.look.connection,
            lambda database: paging.read_value(database, page.look, page.relation, row, name), take,
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
        if self.error and self.page is not None:  # the table may not be what it was
            self._look_anew(f"Reading {look.table} ...", look)
            return
        relation: Relation = self.schema.relation(look.table)
        self._wanted = look
        self.ask(
            f"Reading {look.table} ...", look.connection,
            lambda database: paging.read_page(database, look, relation), self._take,
        )  # fmt: skip

    def _take(self, page: Page) -> str:
        self.page, self.whole, self._wanted = page, None, page.look
        self.look_at_transaction()
        filtered = (*page.look.filtered, page.relation)
        if self._counted != filtered:
            self._counted, self.total = filtered, None
            self._count(page, filtered)
        return ""

    def _count(self, page: Page, filtered: tuple[Any, ...]) -> None:
        self._counting.hang_up()
        self.uncounted = ""
        if not page.more and (page.rows or page.look.offset == 0):
            self.total = page.look.offset + len(page.rows)
            return
        self.uncounted = "counting ..."
        threading.Thread(
            target=self._counted_rows, args=(page, filtered), name="pipemagic: counting rows", daemon=True
        ).start()

    def _counted_rows(self, page: Page, filtered: tuple[Any, ...]) -> None:
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
                if self._counted == filtered:
                    self.total, self.uncounted = total, why
