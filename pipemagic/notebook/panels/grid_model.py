"""What a grid shows: the rows of a table or a SELECT in pages, and the actions on them. It knows no widgets."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipemagic.errors import AnswerTimeout, SessionError
from pipemagic.explore import conditions, page_query
from pipemagic.explore.page_query import Filter, Page, PageQuery, SelectedRows, filter_sql, rows_sql
from pipemagic.explore.page_values import NUMBER
from pipemagic.explore.profile import profile, profile_sql
from pipemagic.explore.profile_result import ColumnProfile, Profile
from pipemagic.notebook.panels import filtered_rows
from pipemagic.notebook.panels.browsed_database import BrowsedDatabase, CellsDatabase, Request
from pipemagic.notebook.panels.tasks import STOPPED, Action, LatestTask
from pipemagic.sql.type_affinity import is_boolean
from pipemagic.text import column_list, escape_controls, plural, word

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.explore.page_query import ExportKind
    from pipemagic.explore.page_values import FullValue
    from pipemagic.explore.schema import Relation

COUNT_TIMEOUT = 5.0
"""Timeout of the request that counts rows, in seconds."""

GONE = "A column no longer exists: its sorting and filters were removed."

EXPORTS: dict[ExportKind, str] = {
    "variable": "-o {}", "csv": "--to-csv {}", "excel": "--to-csv {} --excel", "parquet": "--to-parquet {}",
}  # fmt: skip
"""The option of a cell that does the same as an export."""


class GridModel:
    """The rows of a table or a SELECT, a page at a time.

    ``changed`` is called after each change, from any thread. Exports are assigned in ``variables``; if it is None,
    export and profiles are not offered. ``line_on`` returns the magic option that selects a connection,
    and ``options`` are others that the copied cells need.
    ``uncommitted`` is True while cells have an open transaction.
    """

    def __init__(
        self, changed: Callable[[], None], *, variables: MutableMapping[str, Any] | None = None,
        line_on: Callable[[str], str] = lambda _: "", options: str = "",
    ) -> None:  # fmt: skip
        self.changed, self.variables, self.line_on, self.options = changed, variables, line_on, options
        self.reading = LatestTask("table", self._reading_changed)
        self.counting = LatestTask("counting rows", self._counting_changed)
        self.profiling, self.exporting = LatestTask("profile", changed), Action("export", changed)
        self.source: BrowsedDatabase | None = None
        self.uncommitted = self._followed = self._outdated = False
        self.relation: Relation | None = None
        self.page: Page | None = None
        self.notes: Sequence[str] = ()
        """Notes on the condition of the page."""
        self.total: int | None = None
        self.full: tuple[int, str, FullValue] | None = None
        """Row on the page, column, value."""
        self.profiles: dict[str, ColumnProfile] = {}
        self.profile: Profile | None = None
        self.profiles_where, self.profiles_outdated = "", False
        self._last_query = PageQuery()
        self._counted: tuple[object, ...] | None = None
        self._uncounted: Page | None = None

    def clear(self) -> None:
        """Show no rows."""
        self.relation = self.page = self.total = self.full = self._counted = self._uncounted = None
        self.notes, self._last_query = (), PageQuery()
        self.counting.stop("")
        self.clear_profiles()

    @property
    def query(self) -> PageQuery:
        """The query that the next action modifies: the running one, or that of the page."""
        return self._last_query if self.reading.busy or self.page is None else self.page.query

    @property
    def offers_more(self) -> bool:
        """Whether export and profiles are offered."""
        return self.page is not None and self.variables is not None and bool(self.source and self.source.is_connection)

    # -- requests

    def request(self, title: str, query: Callable[[Database], Any], apply: Callable[[Any], str]) -> None:
        """Start a request that replaces the running one; ``apply`` gets its result, unless the source has changed."""
        source = self.source
        if source is None:
            return
        self._outdated = self._outdated or self.reading.is_quiet  # that ends now
        Request(source, query).start(self.reading, title, lambda result: apply(result) if source is self.source else "")

    def read(self, query: PageQuery, *, refresh: bool = False) -> None:
        """Read a page and show it; with ``refresh``, also the columns of its table."""
        refresh = refresh or self.reading.error is not None  # after an error the table may have changed
        relation = self.relation
        if not isinstance(relation, SelectedRows):
            if not query.table:  # the click of a page that was just closed
                return
            relation = None if refresh or relation is None or relation.name != query.table else relation
        self._last_query = query

        def apply(result: tuple[Page, Sequence[str]]) -> str:
            page, self.notes = result
            if refresh or relation is None or self._counted != page.count_key or page.contradicts(self.total):
                self.total, self._uncounted = None, page
            self.page, self.relation, self.full = page, page.relation, None
            return _missing(query, page)

        title = f"Reading {escape_controls(query.table) or 'the rows'} ..."
        self.request(title, partial(filtered_rows.read_page, query=query, relation=relation), apply)

    def open_select(self, source: BrowsedDatabase, rows: SelectedRows, timeout: float | None) -> None:
        """Show the first page of a SELECT, which is read now; raise the errors of the request."""
        self.source, self.relation = source, rows
        read_page = partial(filtered_rows.read_page, query=PageQuery(), relation=rows)
        self.page, self.notes = source.read(read_page, timeout=timeout)
        self._uncounted = self.page
        self._count()

    def reload(self) -> None:
        """Read the page and the columns of its table again, and remove profiles."""
        if self.page is not None:
            self.clear_profiles()
            self.read(self.page.query, refresh=True)

    def _count(self) -> None:
        """Count the rows of a page that was just read."""
        source, page = self.source, self._uncounted
        if page is None or source is None:
            return
        self._uncounted, self._counted = None, page.count_key
        if page.is_last:
            self.total = page.end
            self.counting.stop("")
            self.counting.clear()
            return

        def count_rows(database: Database) -> int | None:
            if isinstance(database, CellsDatabase):  # it would hold up cells, and might outlast their transaction
                return None
            return page_query.count_rows(database, page.query, page.relation)

        def apply(total: int | None) -> str:
            self.total = total
            return ""

        Request(source, count_rows, COUNT_TIMEOUT).start(self.counting, "counting ...", apply)

    def _reading_changed(self) -> None:
        if not self.reading.busy:
            self._count()
        self.changed()
        self._read_again()

    def _counting_changed(self) -> None:
        if self.counting.error is not None:
            self.total = None
        self.changed()

    # -- following the writes of cells

    def follow(self, on: bool) -> None:
        """Start or stop reading again after writes of cells; stopping also ends running requests."""
        before, self._followed = self._followed, on
        if on:
            self._read_again()
        elif before:
            self._outdated = self._outdated or self.reading.is_quiet
            self.stop_reading()

    def outdate(self) -> None:
        """Read the displayed data again, since they may have changed."""
        self._outdated = True
        self.profiles_outdated = bool(self.profiles)
        self._read_again()

    def stop(self, message: str = STOPPED) -> None:
        """Stop running requests; the displayed data stay."""
        self.stop_reading(message)
        for task in (self.profiling, self.exporting):
            task.stop(message)

    def close(self) -> None:
        """Stop running requests, and forget the source and the arguments of the SELECT, which may be large."""
        self.stop()
        self.source = self.relation = None
        if self.page is not None and isinstance(self.page.relation, SelectedRows):
            self.page = replace(self.page, relation=replace(self.page.relation, sent="", args={}))

    def stop_reading(self, message: str = STOPPED) -> None:
        """Stop reading the page; profiles and exports, which the user started, continue."""
        for task in (self.reading, self.counting):
            task.stop(message)

    def _read_again(self) -> None:
        """Read outdated data again in the background, when no other request is running."""
        source = self.source
        if source is None or self.uncommitted or not (self._outdated and self._followed):
            return
        query, apply = self._reading_again()
        request = Request(source, query)
        self._outdated = False
        if not self.reading.start_quietly(request.run, apply, request.abort):
            self._outdated = True

    def _reading_again(self) -> tuple[Callable[[Database], Any], Callable[[Any], str]]:
        """Return the request that reads the displayed data again, and what applies its result."""
        before = self.page
        assert before is not None

        def apply(result: tuple[Page, Sequence[str]]) -> str:
            page, self.notes = result
            if self.full is not None:  # it stays if its row has not changed
                number = self.full[0]
                if page.columns != before.columns or page.rows[number : number + 1] != before.rows[number : number + 1]:
                    self.full = None
            self.page = self._uncounted = page
            self.relation = page.relation
            return _missing(before.query, page)

        return partial(filtered_rows.read_page, query=before.query, relation=None), apply

    # -- which rows

    def sort(self, name: str) -> None:
        """Sort by a column: ascending, then descending, then not at all."""
        self.read(self.query.sort_by(name))

    def turn(self, offset: int) -> None:
        """Show the page at an offset."""
        self.read(replace(self.query, offset=offset))

    def resize(self, size: int) -> None:
        """Show pages of another number of rows, beginning with the same row."""
        query = self.query
        if size != query.size:
            self.read(replace(query, size=size, offset=query.offset // size * size))

    def add_filter(self, name: str, operator: str, value: str) -> None:
        """Show only the rows that match one more comparison."""
        query, value = self.query, "" if operator.startswith("is ") else value
        if operator in page_query.OPERATORS[:6]:
            value = self._typed(name, value)
        added = Filter(name, operator, value)
        if added not in query.filters:
            conditions.literal(added.value)
            self.read(replace(query, filters=(*query.filters, added), offset=0))

    def remove_filter(self, removed: Filter) -> None:
        """Show also the rows that a filter has removed."""
        query = self.query
        filters = tuple(condition for condition in query.filters if condition != removed)
        self.read(replace(query, filters=filters, offset=0))

    def set_condition(self, where: str) -> None:
        """Show only the rows that match a condition in SQL; '' for all."""
        if where:
            conditions.check_form(where)  # the server finds other errors, as those of a cell
        self.read(replace(self.query, where=where, offset=0))

    def _typed(self, name: str, value: str) -> str:
        """Return a typed value as the values of a column on the page suggest: 1 for true, and a text in quotes.

        A number is a text if the column, of a SELECT, has no type and only texts.
        """
        page, typed = self.page, value.strip()
        if page is None:
            return value
        type_ = page.relation.column(name).type
        places = [place for place, column in enumerate(page.columns) if column.name == name]
        kinds = {row[place].kind for row in page.rows for place in places} - {"null"}
        if typed.lower() in ("true", "false") and (kinds == {"number"} or (not kinds and is_boolean(type_))):
            return str(int(typed.lower() == "true"))
        is_text = isinstance(page.relation, SelectedRows) and not type_ and kinds == {"text"}
        return f"'{value}'" if is_text and NUMBER.fullmatch(typed) else value

    # -- a long value

    def open_value(self, row: int, place: int, shown: Callable[[], None]) -> None:
        """Show the full value of a cell, given by its row and column on the page; ``shown`` is called then."""
        page = self.page
        if page is None or self.reading.busy:  # this page is about to be replaced
            return

        def apply(value: FullValue) -> str:
            self.full = (row, page.columns[place].name, value)
            self.changed()
            shown()
            return ""

        full = page.rows[row][place].full
        if full is not None:
            apply(full)
        else:
            self._last_query = page.query
            read_value = partial(page_query.read_value, page=page, row=row, place=place)
            self.request("Reading the value ...", read_value, apply)

    def close_value(self) -> None:
        """Hide the full value."""
        self.full = None
        self.changed()

    # -- profiles of columns

    def start_profile(self, names: Sequence[str] = ()) -> None:
        """Profile some or all displayed columns of the filtered rows; keep other profiles of the same rows."""
        page, source = self.page, self.source
        if page is None or source is None:
            return
        relation, where = page.relation, filter_sql(page.query, page.relation)
        if where != self.profiles_where:
            self.clear_profiles()
            self.profiles_where = where
        names = names or [column.name for column in page.columns]

        def apply(result: Profile) -> str:
            self.profiles_outdated = self.profiles_outdated and len(result.columns) < len(self.profiles)
            profiles = self.profiles | {profiled.name: profiled for profiled in result.columns}
            listed = [column.name for column in relation.columns if column.name in profiles]
            self.profiles = {name: profiles[name] for name in listed}
            self.profile = replace(result, columns=tuple(self.profiles.values()))
            return ""

        only = f" --where {word(where)}" if where else ""
        # It names the connection, since another one may be current when it is copied.
        line = f"%pipedb profile {word(relation.name)} --columns {column_list(names)}{only} --on {word(source.name)}"
        request = Request(source, lambda database: profile(database, relation, names, where=where))
        what = names[0] if len(names) == 1 else plural(len(names), "column")
        is_select = isinstance(relation, SelectedRows)
        request.start(self.profiling, f"Profiling {what} ...", apply, "" if is_select else line)

    def clear_profiles(self) -> None:
        """Remove all profiles and stop a running one."""
        self.profiles, self.profile, self.profiles_where, self.profiles_outdated = {}, None, "", False
        self.profiling.stop("")
        self.profiling.clear()

    @property
    def profile_cell(self) -> str:
        """The cell that computes the displayed profiles, '' without any."""
        if self.page is None or self.source is None or not self.profiles:
            return ""
        return self._cell(profile_sql(self.page.relation, self.profiles, where=self.profiles_where))

    # -- export

    def export(self, kind: ExportKind, target: str, *, replaces: bool, done: Callable[[], None]) -> None:
        """Export all rows to a variable or a file; raise SessionError if it exists and must not be replaced.

        ``done`` is called after the export.
        """
        page, source, variables = self.page, self.source, self.variables
        if page is None or source is None or variables is None:
            raise SessionError("there are no rows to export")
        page_query.check_target(kind, target, variables, replace=replaces)

        def apply(result: tuple[Any, str]) -> str:
            if kind == "variable":
                variables[target] = result[0]
            done()
            return result[1]

        # It names the connection, since another one may be current when it is copied.
        option = EXPORTS[kind].format(word(target))
        head = f"%%sql --on {word(source.name)}{self.options} {option}"
        line = f"{head}\n{rows_sql(page.query, page.relation, limit=False)}"
        report = self.exporting.report
        request = Request(source, lambda database: page_query.export_rows(database, page, kind, target, report))
        request.start(self.exporting, "Exporting ...", apply, line)

    # -- texts

    @property
    def cell(self) -> str:
        """The cell that returns the displayed rows, '' if it cannot be run."""
        page, source = self.page, self.source
        return self._cell(rows_sql(page.query, page.relation)) if page and source and source.is_connection else ""

    def _cell(self, sql: str) -> str:
        return f"%%sql{self.line_on(self.source.name if self.source else '')}{self.options}\n{sql}"

    @property
    def position(self) -> str:
        """Which rows are displayed, and how many there are."""
        page = self.page
        if page is None:
            return ""
        shown = f"Rows {page.query.offset + 1:,} to {page.end:,}" if page.rows else "No rows"
        if self.total is not None:
            return f"{shown} of {self.total:,}" if self.total else shown
        error, more = self.counting.error, f" of more than {page.end:,}" if page.more else ""
        if isinstance(error, AnswerTimeout):
            return f"{shown}{more}; the server did not count them in {COUNT_TIMEOUT:g} s"
        return f"{shown}{more}; {error.code}: {error.message}" if error else f"{shown}{more}"

    @property
    def hidden_columns(self) -> str:
        """A line on columns that are not displayed, '' if all are."""
        page = self.page
        if page is None:
            return ""
        every, hidden = len(page.relation.visible), len(page.relation.columns) - len(page.relation.visible)
        lines = [f"The first {len(page.columns)} of {every:,} columns."] if len(page.columns) < every else []
        lines += [f"{plural(hidden, 'hidden column')} of the virtual table not shown."] if hidden else []
        return "\n".join(lines)


def _missing(query: PageQuery, page: Page) -> str:
    return "" if (query.filters, query.sort) == (page.query.filters, page.query.sort) else GONE
