"""Tokens of a database: made, shown once behind a button that copies, and made invalid all at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from traitlets import Bool, Int, Unicode

from pipemagic.client.secrets import Secret
from pipemagic.notebook.panels.ground.parts import button, check, choice, confirm, field, state, submit
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.ground.widget import Values, View
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.session.organization import invalidate_tokens

if TYPE_CHECKING:
    from traitlets import HasTraits

    from pipemagic.notebook.panels.holdings import Holdings

OWN = "own"
LASTING = [("never", "never"), ("1h", "in 1 hour"), ("1d", "in 1 day"), ("7d", "in 7 days"), ("30d", "in 30 days"),
           (OWN, "after a time of your own")]  # fmt: skip

_LENGTH = re.compile(r"([0-9]+[wdhms])+")


class TokensModel(WorkingModel):
    """Makes tokens of one database. The value of the last one is in no trait: it is taken once, by the page."""

    database = Unicode()
    asking = Unicode(help="which form is open: create, invalidate or ''")
    own = Bool(help="whether the time until it expires is typed")
    shown = Unicode(help="under which name the page holds a value; '' if it holds none")
    about = Unicode(help="which token that is, in words")
    made = Int(help="how many were made here")

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings
        self._handed: dict[str, Secret | None] = {}

    def look(self, database: str) -> None:
        """Turn to a database."""
        self.put_away()
        with self.hold_trait_notifications():
            self.database, self.asking, self.own = database, "", False
            self.message = self.error = self.code = self.hint = self.line = ""

    def create(self, expiration: str, *, read_only: bool) -> None:
        """Make a token that expires after a time such as ``7d``, or ``never``."""
        expiration, database = expiration.strip().lower(), self.database
        if expiration != "never" and not _LENGTH.fullmatch(expiration):
            self.refuse(f"{expiration or 'nothing'!r} is not a length of time", "write 12h, 7d or 1w2d6h")
            return
        platform = self.holdings.platform

        def work() -> str:
            made = platform.create_token(database, expiration=expiration, read_only=read_only)
            self.made += 1
            name = f"token {self.made}"
            self._handed[name] = made
            with self.hold_trait_notifications():
                self.shown, self.asking, self.own = name, "", False
                self.about = _about(database, expiration, read_only=read_only)
            return "The token is made. It is shown only now."

        self.put_away()
        self.start(f"Making a token for {database} ...", work, _line(database, expiration, read_only=read_only))

    def put_away(self) -> None:
        """Take the value from the page."""
        if self.shown:
            self._handed[self.shown] = None
            with self.hold_trait_notifications():
                self.shown = self.about = self.message = ""

    def take(self) -> dict[str, Secret | None]:
        """Give the values that the page is to hold, or to forget; each once."""
        handed, self._handed = self._handed, {}
        return handed

    def invalidate(self, database: str, typed: str) -> None:
        """Make all tokens of a database invalid, if its name was typed."""
        if typed.strip() != database:
            self.refuse(f"nothing was done: what was typed is not {database}")
            return
        platform = self.holdings.platform

        def work() -> str:
            told = invalidate_tokens(self.holdings.session, database, platform)
            self.asking = ""
            return "\n".join(told)

        self.put_away()
        self.start(
            f"Invalidating the tokens of {database} ...", work, f"%pipedb invalidate-tokens {database} --confirm"
        )


class TokensView(View):
    """A form for a new token, its value once it is there, and a form to make all invalid."""

    title = "Tokens"

    def __init__(self, model: TokensModel) -> None:
        self.model = model

    def models(self) -> tuple[HasTraits, ...]:
        """Give what is drawn."""
        return (self.model,)

    def draw(self) -> Node:
        """Draw what is open."""
        model = self.model
        forms: Mapping[str, Callable[[], Node]] = {"create": self._creating, "invalidate": self._invalidating}
        return h(
            "div",
            h("h4", "Tokens"),
            h("p", "A token lets other programs into the database. Existing tokens cannot be listed.",
              class_="pm-faint"),
            self._value() if model.shown else None,
            forms[model.asking]() if model.asking else self._buttons(),
            state(model),
            key="tokens",
        )  # fmt: skip

    def _buttons(self) -> Node:
        return h(
            "div",
            button("New token ...", ("ask", "create")),
            button("Invalidate all tokens ...", ("ask", "invalidate"), kind="danger"),
            class_="pm-row", key="buttons",
        )  # fmt: skip

    def _creating(self) -> Node:
        model = self.model
        own = field("Expires after", "length", note="weeks, days, hours, minutes: 1w2d6h", focus=True, key="own")
        return h(
            "form",
            h("div",
              choice("Expires", "expires", LASTING, focus=True, on={"change": ["lasting"]}),
              own if model.own else None,
              check("Only for reading", "reading"), class_="pm-row"),
            h("div", submit("Make token", disabled=bool(model.busy)), button("Cancel", ("cancel",)), class_="pm-row"),
            key=f"create {model.database} {model.made}", on={"submit": ["create"], "escape": ["cancel"]},
        )  # fmt: skip

    def _value(self) -> Node:
        model = self.model
        return h(
            "div",
            h("p", model.about),
            h("div",
              h("code", secret=model.shown, class_="pm-secret"),
              h("button", type="button", show=model.shown),
              h("button", "Copy token", type="button", copy={"secret": model.shown}, class_="pm-main", focus=True),
              button("Done", ("done",)), class_="pm-row pm-acts"),
            h("p", "Copy it now: nobody can show it again. Keep it out of notebooks, in a variable or a file.",
              class_="pm-faint"),
            class_="pm-made", key=f"value {model.shown}", on={"escape": ["done"]}, live=True,
        )  # fmt: skip

    def _invalidating(self) -> Node:
        model = self.model
        words = (
            f"Every token of {model.database} stops working at once, wherever it is in use; some services do this to "
            "all databases of its group. The connections of this session get new tokens; a transaction that is open "
            "in one of them is rolled back."
        )
        return confirm("invalidate all its tokens", model.database, words, "invalidate", disabled=bool(model.busy))

    def take_secrets(self) -> Mapping[str, Secret | None]:
        """Give the value of a new token, once."""
        return self.model.take()

    def closed(self) -> None:
        """Forget the value with the panel."""
        self.model.put_away()

    def on_ask(self, _values: Values, form: str) -> None:
        """Open a form."""
        if form in ("create", "invalidate"):
            self.model.forget()
            self.model.asking = form

    def on_lasting(self, values: Values) -> None:
        """Offer a field for a time of one's own."""
        self.model.own = values.get("expires") == OWN

    def on_create(self, values: Values) -> None:
        """Make a token."""
        chosen = str(values.get("expires", "never"))
        lasting = str(values.get("length", "")) if chosen == OWN else chosen
        self.model.create(lasting, read_only=values.get("reading") is True)

    def on_done(self, _values: Values) -> None:
        """Take the value away."""
        self.model.put_away()

    def on_invalidate(self, values: Values, database: str) -> None:
        """Make all tokens invalid."""
        self.model.invalidate(database, str(values.get("confirmation", "")))

    def on_cancel(self, _values: Values) -> None:
        """Close the form."""
        self.model.forget()
        self.model.asking, self.model.own = "", False


def _about(database: str, expiration: str, *, read_only: bool) -> str:
    lasting = "never expires" if expiration == "never" else f"expires after {expiration}"
    return f"A token for {database} that {'reads only and ' if read_only else ''}{lasting}:"


def _line(database: str, expiration: str, *, read_only: bool) -> str:
    """Give the magic that makes such a token; it puts the value into a variable, since it shows none."""
    lasting = "" if expiration == "never" else f" --expiration {expiration}"
    return (
        f"%pipedb create-token {database}{lasting}{' --read-only' if read_only else ''} --to-env {variable(database)}"
    )


def variable(database: str) -> str:
    """Give the name of an environment variable for the token of a database."""
    name = re.sub(r"[^A-Z0-9]+", "_", database.upper()).strip("_")
    return f"{'DB_' if name[:1].isdigit() else ''}{name}_TOKEN"
