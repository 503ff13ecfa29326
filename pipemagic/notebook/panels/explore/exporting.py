"""Export of all rows that a page is one of: into a variable of the notebook, or a file."""

from __future__ import annotations

import keyword
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from traitlets import Bool, Int

from pipemagic.client.cursor import Cursor
from pipemagic.counts import plural
from pipemagic.errors import SessionError
from pipemagic.frames import arrow_polars, files, to_frame
from pipemagic.frames.columnar import RowsBuilder
from pipemagic.hrana.messages import StmtResult
from pipemagic.notebook.panels.explore import paging
from pipemagic.notebook.panels.explore.questions import AskingModel
from pipemagic.notebook.panels.ground.parts import button, check, choice, field, state, submit
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.session.profiles import word

if TYPE_CHECKING:
    from pipemagic.client.database import Database
    from pipemagic.notebook.panels.explore.paging import Page
    from pipemagic.session import Session

FORMS = {"variable": "DataFrame variable", "csv": "CSV file", "parquet": "Parquet file"}

_TELL_EVERY = 0.5  # seconds

Variables = MutableMapping[str, Any]


class ExportingModel(AskingModel):
    """Fetches all rows of a table, as filtered and sorted, and puts them where they are wanted.

    ``variables`` are those of the notebook.
    """

    asking = Bool(help="whether the form is open")
    opened = Int(help="how many times it was opened; a new form for each")

    def __init__(self, session: Session, variables: Variables) -> None:
        super().__init__(session)
        self.variables = variables

    def export(self, page: Page, form: str, target: str, *, replace: bool) -> None:
        """Begin to export; refused in words if it cannot be, or would replace something without ``replace``."""
        if self.busy:
            return
        try:
            self._check(form, target, replace=replace)
        except SessionError as error:
            self.refuse(error.message, error.hint)
            return
        look = page.look
        self.line = line(page, form, target)

        def ask(database: Database) -> tuple[Any, str]:
            text, values = paging.statement(
                database, lambda write: paging.rows_sql(look, page.relation, write, limit=False)
            )
            with database.cursor(text, values) as cursor:
                return self._delivered(cursor, form, target)

        def take(found: tuple[Any, str]) -> str:
            if form == "variable":
                self.variables[target] = found[0]
            self.asking = False
            return found[1]

        self.ask("Exporting ...", look.connection, ask, take)

    def show(self, *, asking: bool) -> None:
        """Open the form, or close it."""
        with self.hold_trait_notifications():
            self.asking = asking
            self.opened += asking
            if not self.busy:
                self.message, self.error, self.code, self.hint, self.line = "", "", "", "", ""

    def _check(self, form: str, target: str, *, replace: bool) -> None:
        if form == "variable":
            if not target.isidentifier() or keyword.iskeyword(target):
                raise SessionError(f"{target!r} is not a name that a variable can have")
            if target in self.variables and not replace:
                raise SessionError(f"there is a variable {target} already", hint="tick Replace, or take another name")
            return
        if not target:
            raise SessionError("the file needs a name")
        path = Path(target).expanduser()
        files.check_path(path)
        if form == "parquet":
            arrow_polars.check_type("arrow")
        if path.exists() and not replace:
            raise SessionError(f"there is a file {target} already", hint="tick Replace, or take another name")

    def _delivered(self, cursor: Cursor, form: str, target: str) -> tuple[Any, str]:
        """Give the table, if one is wanted, and what to say."""
        notes: list[str] = []
        if form == "csv":
            path = Path(target).expanduser()
            count = files.write_csv(path, cursor.cols, self._told(cursor), note=notes.append)
            return None, _said(f"Wrote {plural(count, 'row')} to {target}.", notes)
        rows = RowsBuilder(cursor.cols)
        for batch in self._told(cursor):
            rows.add(batch)
        result = StmtResult(list(cursor.cols), rows.build())
        if form == "parquet":
            count = files.write_parquet(Path(target).expanduser(), result, note=notes.append)
            return None, _said(f"Wrote {plural(count, 'row')} to {target}.", notes)
        frame = to_frame(result, note=notes.append)
        return frame, _said(f"{target} is a DataFrame of {plural(len(result.rows), 'row')}.", notes)

    def _told(self, cursor: Cursor) -> Iterator[Sequence[Any]]:
        """Give the rows as they come, and tell how many that were, now and then."""
        count, told = 0, monotonic()
        for batch in cursor:
            count += len(batch)
            if monotonic() - told > _TELL_EVERY:
                self.tell(f"Exporting: {plural(count, 'row')} so far ...")
                told = monotonic()
            yield batch


def line(page: Page, form: str, target: str) -> str:
    """Give the cell that does the same, whatever connection is the current one by then."""
    options = f" -o {target}" if form == "variable" else f" --to-{form} {word(target)}"
    rows = paging.rows_sql(page.look, page.relation, limit=False)
    return f"%%sql --on {word(page.look.connection)}{options}\n{rows}"


def drawn(model: ExportingModel, table: str) -> Node:
    """Draw the form if it is open, and how the last export ended."""
    stop = h("div", button("Stop the export", ("stop_export",)), class_="pm-row") if model.busy else None
    told = state(model) if model.asking or model.busy or model.message or model.error else None
    inside = (_form(model, table) if model.asking else None, stop, told)
    return h("div", inside, class_="pm-box" if model.asking else None, key="export")


def _form(model: ExportingModel, table: str) -> Node:
    return h(
        "form", h("h3", f"Export all rows of {table}, as they are filtered and sorted"),
        h("div",
          choice("To", "form", tuple(FORMS.items()), focus=True),
          field("Variable or file", "target"),
          check("Replace what is there", "replace"),
          submit("Export", disabled=bool(model.busy)),
          button("Cancel", ("export_form",)), class_="pm-row"),
        key=f"form {model.opened}", on={"submit": ["export"], "escape": ["export_form"]},
    )  # fmt: skip


def _said(words: str, notes: Sequence[str]) -> str:
    return "\n".join([words, *notes])
