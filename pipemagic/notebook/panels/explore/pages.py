"""How a page of rows is drawn: the table, where one is in it, and a value shown whole."""

from __future__ import annotations

from pipemagic.explore.schema import Column
from pipemagic.explore.values import one_line
from pipemagic.notebook.panels.explore import paging
from pipemagic.notebook.panels.explore.cells import Cell, Whole
from pipemagic.notebook.panels.explore.paging import COLUMNS, Page
from pipemagic.notebook.panels.ground.parts import button, choice, empty, field, row, submit, table
from pipemagic.notebook.panels.ground.tree import Node, h

_ORDERS = {False: ("ascending", " ▲"), True: ("descending", " ▼")}


def rows_table(page: Page, *, live: bool, busy: bool) -> Node:
    """Draw the rows; with ``live`` the headings sort, and a long value has a button that shows it whole."""
    headings = [
        h("th", "#", scope="col", class_="pm-number"),
        *(_heading(page, one, live=live) for one in page.columns),
    ]
    rows = [
        row(f"row {number}", h("th", f"{page.look.offset + number + 1:,}", scope="row", class_="pm-number"),
            *(_cell(page, cell, number, place, live=live, busy=busy) for place, cell in enumerate(cells)))
        for number, cells in enumerate(page.rows)
    ]  # fmt: skip
    none = "No row fits the filters." if page.look.conditions or page.look.where else "The table is empty."
    beyond = "There are no rows so far down." if page.look.offset else none
    shown = table(headings, rows, label=f"Rows of {one_line(page.relation.name)}")
    return h("div", shown, None if rows else empty(beyond), _columns(page))


def _heading(page: Page, column: Column, *, live: bool) -> Node:
    words, is_sorted = one_line(column.name) or "(no name)", page.look.sort == column.name
    order, mark = _ORDERS[page.look.descending] if is_sorted else ("none", "")
    about = " ".join(filter(None, [one_line(column.type), column.generated and f"{column.generated} generated"]))
    kind = h("small", about, class_="pm-faint") if about else None
    if not live:
        return h("th", words + mark, scope="col")
    sort = button(words + mark, ("sort", column.name), kind="plain", label=f"Sort by {words}")
    profile = button("profile", ("profile", column.name), kind="plain", label=f"Profile {words}")
    return h("th", sort, h("div", kind, profile, class_="pm-under"), scope="col", aria_sort=order, key=column.name)


def _cell(page: Page, cell: Cell, number: int, place: int, *, live: bool, busy: bool) -> Node:
    if not cell.cut or not live:
        return h("td", cell.words, class_=f"pm-{cell.kind}")
    label = f"Whole value of {one_line(page.columns[place].name)} in row {page.look.offset + number + 1}"
    whole = button("whole", ("value", str(number), str(place)), kind="plain", label=label, disabled=busy)
    return h("td", cell.words, " ", whole, class_=f"pm-{cell.kind}")


def _columns(page: Page) -> Node | None:
    """Tell which columns are shown where not all are."""
    every, first = page.relation.visible, page.look.first
    hidden = len(page.relation.columns) - len(every)
    lines = []
    if len(every) > COLUMNS:
        last = first + len(page.columns)
        before = button("Columns before", ("columns", str(max(0, first - COLUMNS)))) if first else None
        after = button("Columns after", ("columns", str(first + COLUMNS))) if last < len(every) else None
        words = f"Columns {first + 1:,} to {last:,} of {len(every):,}."
        lines.append(h("div", h("span", words), before, after, class_="pm-row"))
    if hidden:
        lines.append(h("p", f"{hidden} hidden column{'s' * (hidden > 1)} of the virtual table not shown.",
                       class_="pm-faint"))  # fmt: skip
    return h("div", lines) if lines else None


def pager(page: Page, total: int | None, uncounted: str) -> Node:
    """Tell which rows are shown of how many, and turn the pages."""
    look, last = page.look, page.end
    words = f"Rows {look.offset + 1:,} to {last:,}" if page.rows else "No rows"
    turns = [
        button("First", ("turn", "0"), disabled=not look.offset),
        button("Previous", ("turn", str(_before(page, total))), disabled=not look.offset),
        button("Next", ("turn", str(look.offset + look.size)), disabled=not page.more),
        _last(page, total),
    ]
    sizes = [(str(size), str(size)) for size in paging.SIZES]
    go = h("form", h("div", field("Go to row", "row", inputmode="numeric"), submit("Go", kind=""), class_="pm-row"),
           on={"submit": ["go"]}, key="go")  # fmt: skip
    size = choice("Rows on a page", "size", sizes, value=str(look.size), on={"change": ["size"]})
    return h(
        "div", h("p", words, _of(page, last, total, uncounted), key="where"),
        h("div", h("div", [h("span", one, key=f"turn {at}") for at, one in enumerate(turns)], class_="pm-turns"),
          size, go, class_="pm-row pm-pager", live=True), key="pager",
    )  # fmt: skip


def _of(page: Page, last: int, total: int | None, uncounted: str) -> Node | str:
    if total is not None:
        return f" of {total:,}" if total else ""
    more = f" of more than {last:,}" if page.more else ""
    return h("span", f"{more}; {uncounted}" if uncounted else more, live=True)


def _before(page: Page, total: int | None) -> int:
    """Give where the page before begins: before a page that is beyond all rows comes the last one."""
    before = max(0, page.look.offset - page.look.size)
    return before if page.rows or total is None else min(before, _last_offset(page, total))


def _last(page: Page, total: int | None) -> Node:
    """Give the button to the last page, which is known where the rows were counted."""
    offset = 0 if total is None else _last_offset(page, total)
    there = bool(page.rows) and page.look.offset >= offset
    return button("Last", ("turn", str(offset)), disabled=total is None or there or page.look.offset == offset)


def _last_offset(page: Page, total: int) -> int:
    return max(0, (total - 1) // page.look.size * page.look.size)


def whole_value(page: Page, whole: tuple[int, str, Whole]) -> Node:
    """Show a value whole, or its beginning if it is very long."""
    number, column, value = whole
    words = f"{one_line(column)} in row {page.look.offset + number + 1:,}: {value.size}"
    return h(
        "div", h("div", h("h4", words),
                 h("div", h("button", "Copy", type="button", copy=value.text, aria_label="Copy the value"),
                   button("Close", ("close_value",), label="Close the value"), class_="pm-row"), class_="pm-head"),
        h("pre", value.text, tabindex=0, focus=True, class_="pm-whole"),
        key=f"whole {number} {column}", class_="pm-box", on={"escape": ["close_value"]}, live=True,
    )  # fmt: skip
