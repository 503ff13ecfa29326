"""What is done with databases: made, connected, deleted. Their view is in `view`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from traitlets import Any as Anything
from traitlets import Bool, Int, Unicode

from pipemagic.client.database import Database
from pipemagic.errors import ConnectError, NotFound, PipemagicError, SessionError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook.panels.databases.pacing import Pacing
from pipemagic.notebook.panels.databases.preview import ANSWER, PreviewModel
from pipemagic.notebook.panels.databases.sizes import SizesModel
from pipemagic.notebook.panels.databases.tokens import TokensModel
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.holdings import Holdings
from pipemagic.session.organization import connections_of, database_of
from pipemagic.session.profiles import word

if TYPE_CHECKING:
    from pipemagic.session.connection import Connection
    from pipemagic.session.organization import Platform

PAUSES = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0)
"""Seconds between attempts to connect: hosted services answer 404 for a while after a database was made."""

FRESH = 3.0
"""Seconds between two looks at sizes and tables, however often cells write."""

FIRST_GROUP = "default"

NOW_IN_USE = "%%sql cells use it now."


class DatabasesModel(WorkingModel):
    """What is done with databases. What there is, is in the Holdings.

    ``pauses`` are the seconds between attempts to connect to a database that does not answer yet, ``fresh`` those
    between two looks at sizes and tables.
    """

    wrong = Unicode(help="what is wrong with the name typed so far")
    made = Int(help="how many were created here; a new form for each")
    created: Any = Anything(help="management_api.models.DatabaseInfo of the last one created here, None for none")
    filter = Unicode(help="part of the names that are listed")
    chosen = Unicode(help="the database whose details are shown, '' for none")
    deleting = Bool(help="whether the form to delete the chosen one is open")
    place = Unicode(help="where the work was begun: '', details or deletion")

    def __init__(self, holdings: Holdings, pauses: Sequence[float] = PAUSES, fresh: float = FRESH) -> None:
        super().__init__()
        self.holdings = holdings
        self.sizes = SizesModel(holdings)
        self.preview = PreviewModel(self._open_for_reading)
        self.tokens = TokensModel(holdings)
        self._pauses = pauses
        self._leaving = threading.Event()
        self._shown_of = ("", "")
        self._listed: set[str] = set()
        self._gone: set[str] = set()
        self._written: set[str] = set()
        self._follows = False
        self._again = Pacing(self._look_at_what_was_written, fresh)
        holdings.session.written.connect(self._heard_of_rows)
        for one in (self, self.preview, self.tokens):
            one.observe(self._failed, "code")

    # -- making

    def problem(self, name: str) -> str:
        """Say why no database can be made under a name, '' if nothing is known against it."""
        has = self.holdings
        if name in {one.name for one in has.databases}:
            return f"{name} exists already"
        return has.platform.name_problem("database", name) if has.known else ""

    def check(self, name: str) -> None:
        """Say what is wrong with a name that is being typed; an empty field says nothing."""
        self.wrong = self.problem(name.strip()) if name.strip() else ""

    def create(self, name: str, group: str) -> None:
        """Create a database in a group."""
        name, group = name.strip(), group.strip()
        self.place = ""
        if wrong := self.problem(name) or ("" if group else "a database belongs to a group: name it"):
            self.refuse(wrong)
            return
        platform = self.holdings.platform

        def work() -> str:
            made = platform.create_database(name, group)
            self._gone.discard(made.name)
            with self.hold_trait_notifications():
                self.created, self.wrong = made, ""
                self.made += 1
                if not self.holdings.shows(platform):  # asked after it is set: `_moved` may have been before
                    self.created = None
            return f"Database {made.name} is in group {made.group}."

        self.start(f"Creating {name} ...", work, f"%pipedb create-database {name} --group {word(group)}")

    def create_group(self, location: str) -> None:
        """Create a first group."""
        self.place = ""
        platform = self.holdings.platform

        def work() -> str:
            group = platform.create_group(FIRST_GROUP, location)
            return f"Group {group.name} is in {', '.join(group.locations)}."

        line = f"%pipedb create-group {FIRST_GROUP} --location {word(location)}"
        self.start(f"Creating group {FIRST_GROUP} ...", work, line)

    # -- connecting

    def connections(self, name: str) -> list[Connection]:
        """Give the connections to a database."""
        has = self.holdings
        return connections_of(has.session, name, has.organization, has.where)

    def connect(self, name: str, place: str = "") -> None:
        """Make a database the current connection."""
        self.place = place
        platform = self.holdings.platform

        def work() -> str:
            self._check_free(name, platform)
            return f"{self._patiently(name, platform).greeting} {NOW_IN_USE}"

        self.start(f"Connecting to {name} ...", work, f"%pipedb connect {word(name)}")

    def use(self, connection: str, place: str = "") -> None:
        """Make another connection the current one."""
        self.place = place

        def work() -> str:
            return f"Using {self.holdings.session.use(connection).name}. {NOW_IN_USE}"

        self.start(f"Turning to {connection} ...", work, f"%pipedb use {word(connection)}")

    def close(self, connection: str, place: str = "") -> None:
        """Close a connection."""
        self.place = place
        self.start(f"Closing {connection} ...", lambda: self._close(connection), f"%pipedb close {word(connection)}")

    def _check_free(self, name: str, platform: Platform) -> None:
        """Let a name that means something else lead nowhere: SessionError."""
        session = self.holdings.session
        other = session.connections.get(name)
        if other is not None and database_of(other, platform.organization, platform.where) != name:
            raise SessionError(
                f"the connection {name} leads to another database ({other.description})",
                hint=f"%pipedb close {word(name)} makes the name free",
            )
        profile = session.profiles.get(name) if other is None else None
        if profile is not None and (
            profile.database != name
            or profile.organization not in (None, platform.organization)
            or profile.at not in (None, platform.address)
        ):
            raise SessionError(f"the profile {name} leads to another database ({profile.where})")

    def _patiently(self, name: str, platform: Platform) -> Connection:
        """Connect; what was made just now may need some seconds until it can be found."""
        new = self.created is not None and self.created.name == name
        early: tuple[type[PipemagicError], ...] = (NotFound,)
        if new:
            early = (NotFound, ConnectError, SessionError) if self.holdings.complete else (NotFound, ConnectError)
        for pause in self._pauses:
            try:
                return self.holdings.session.connect(name, platform=platform)
            except early:
                self.busy = f"{name} does not answer yet, as new databases do for some seconds. Trying again ..."
            if self._leaving.wait(pause):
                break
        return self.holdings.session.connect(name, platform=platform)

    def _close(self, name: str) -> str:
        session = self.holdings.session
        was_open = session.connection(name).transaction is Tx.OPEN
        return self._closed(session.close(name), was_open=was_open)

    def _closed(self, name: str, *, was_open: bool) -> str:
        closed = f"Closed {name}{', which rolled its transaction back' if was_open else ''}."
        return closed if self.holdings.session.current else f"{closed} %%sql cells have no connection now."

    # -- details

    def choose(self, name: str) -> None:
        """Show the details of a database; '' shows none."""
        with self.hold_trait_notifications():
            self.chosen, self.deleting = name, False
        self._look_into(name)

    def is_gone(self, name: str) -> bool:
        """Tell whether a database was there and is no longer; one that is being deleted here is not gone yet."""
        return name in self._gone and not (self.busy and self.place == "deletion")

    def _look_into(self, name: str) -> None:
        self.tokens.look(name)
        if name:
            self.preview.look(name)
        else:
            self.preview.leave()

    def delete(self, name: str, typed: str) -> None:
        """Delete a database, if its name was typed."""
        self.place = "deletion"
        if typed.strip() != name:
            self.refuse(f"nothing was deleted: what was typed is not {name}")
            return
        platform = self.holdings.platform

        def work() -> str:
            leading = {one.name: one.transaction is Tx.OPEN for one in self.connections(name)}
            platform.delete_database(name)  # closes them
            told = [self._closed(one, was_open=was_open) for one, was_open in leading.items()]
            self._forget(name)
            return "\n".join([f"Database {name} is deleted.", *told])

        self.start(f"Deleting {name} ...", work, f"%pipedb delete-database {word(name)} --confirm")

    def _forget(self, name: str) -> None:
        if self.chosen == name:
            self.choose("")  # first: without its place it would be called gone
        self.place = ""
        if self.created is not None and self.created.name == name:
            self.created = None

    def look_again(self) -> None:
        """Ask for everything anew."""
        self.holdings.refresh()
        self.sizes.ask()
        if self.chosen:
            self.preview.look_again()

    def follow(self, *, on: bool) -> None:
        """Begin or stop to follow what changes."""
        self.sizes.follow(on=on)
        self._follows = on
        if on:
            self._leaving.clear()
            self.holdings.observe(self._moved, ["organization", "where"])
            self.holdings.observe(self._list_changed, "databases")
            self._moved()
            self._list_changed()
        else:
            self.holdings.unobserve(self._moved, ["organization", "where"])
            self.holdings.unobserve(self._list_changed, "databases")
            self._leaving.set()
            self._again.stop()

    def _list_changed(self, _change: Any = None) -> None:
        """Look no more into the chosen database when it is gone, and again when it is back."""
        has = self.holdings
        now = {one.name for one in has.databases} if has.known else set()
        self._gone = (self._gone | self._listed) - now if has.known else set()
        self._listed = now
        there = self.chosen if self.chosen in now else ""
        if there != self.preview.database:
            self.deleting = False
            self._look_into(there)

    def _heard_of_rows(self, connection: Connection) -> None:
        """Look again at what a cell wrote, when it is committed."""
        has = self.holdings
        name = database_of(connection, has.organization, has.where)
        if self._follows and name is not None and connection.transaction is not Tx.OPEN:
            self._written.add(name)
            self._again.ask()

    def _look_at_what_was_written(self) -> None:
        names, self._written = self._written, set()
        self.sizes.ask()
        if self.chosen in names:
            self.preview.look_again()

    def _failed(self, change: Any) -> None:
        """Look whether what was not found is still in the list."""
        if change.new == NotFound.code and self.holdings.asked:
            self.holdings.refresh()

    def _moved(self, _change: Any = None) -> None:
        """Show nothing of another organization, where the same name is another database."""
        now = (self.holdings.organization, self.holdings.where)
        if now == self._shown_of:
            return
        first, self._shown_of = not any(self._shown_of), now
        if first:
            return
        self.sizes.sizes = {}
        with self.hold_trait_notifications():
            self.created, self.filter, self.wrong, self.place = None, "", "", ""
        self.choose("")
        self.forget()

    def _open_for_reading(self, name: str) -> Database:
        """Open a database beside its connection, or with a token that reads only."""
        connected = self.connections(name)
        if connected and not connected[0].refused:
            connection = connected[0]
            return connection.once(lambda database: _answering(database.sibling(timeout=ANSWER)))
        return self.holdings.platform.open(name, ANSWER, read_only=True)


def _answering(database: Database) -> Database:
    """Give a database that answers; it is closed if it does not."""
    ask: Callable[[str], object] = database.execute
    try:
        ask("SELECT 1")
    except BaseException:
        database.close()
        raise
    return database
