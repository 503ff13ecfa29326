"""Tokens of a database: create one, show it once, and invalidate all."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import ipywidgets

from pipemagic.notebook.panels.base import ConfirmForm, Field, Form, Line, button, column, row, show
from pipemagic.notebook.panels.components import SecretText, Status
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.tasks import Action

if TYPE_CHECKING:
    from pipemagic.client.secrets import Secret

CUSTOM = "custom"
EXPIRATIONS = [
    ("never", "never"), ("in 1 hour", "1h"), ("in 1 day", "1d"), ("in 7 days", "7d"), ("in 30 days", "30d"),
    ("after a custom time", CUSTOM),
]  # fmt: skip

_DURATION = re.compile(r"([0-9]+[wdhms])+")

INVALIDATED = (
    "Every token of {} stops working at once, wherever it is in use; some services do this for all databases of its "
    "group. The connections of this session get new tokens; an open transaction in one of them is rolled back."
)


class Tokens(ipywidgets.VBox):
    """Forms that create a token or invalidate all; the value of a new token is in no trait, only on the page."""

    def __init__(self, state: OrganizationState, changed: Callable[[], None]) -> None:
        self.state, self.changed = state, changed
        self.action = Action("tokens", changed)
        self.database, self.open_form, self.about = "", "", ""
        self.status = Status()
        self.new = button("New token ...", lambda: self.show_form("create"))
        self.revoke = button("Invalidate all tokens ...", lambda: self.show_form("invalidate"), kind="danger")
        self.buttons = row(self.new, self.revoke)
        self.expires = Field("Expires", ipywidgets.Dropdown(options=EXPIRATIONS))
        self.expires.widget.observe(lambda _: changed(), "value")
        self.duration = Field("Expires after", ipywidgets.Text())
        self.duration.explain("weeks, days, hours, minutes: 1w2d6h")
        self.read_only = ipywidgets.Checkbox(description="Read-only", indent=False)
        self.create = Form(
            "", [self.expires, self.duration, self.read_only], "Create token", self.create_token, cancel=self.cancel
        )
        self.invalidate = ConfirmForm(
            "invalidate all its tokens", "Invalidate all tokens", self.invalidate_all, self.cancel
        )
        self.about_line, self.secret = Line(), SecretText()
        self.done = button("Done", self.forget)
        note = Line(
            "Copy it now: it cannot be shown again. Keep it in a variable or a file, not in a notebook.", "pm-faint"
        )
        self.value = column(self.about_line, row(self.secret, self.done), note, class_="pm-box")
        intro = Line(
            "A token gives other programs access to the database. Existing tokens cannot be listed.", "pm-faint"
        )
        super().__init__(
            [Line("Tokens", tag="h4"), intro, self.value, self.buttons, self.create, self.invalidate, self.status]
        )

    def select(self, database: str) -> None:
        """Show the forms of another database."""
        if database != self.database:
            self.forget()
            self.action.clear()
            self.database, self.open_form = database, ""

    def update(self) -> None:
        """Update the widgets."""
        show(self.value, bool(self.about))
        self.about_line.set_text(self.about)
        show(self.buttons, not self.open_form)
        show(self.create, self.open_form == "create")
        show(self.invalidate, self.open_form == "invalidate")
        show(self.duration, self.expires.widget.value == CUSTOM)
        self.create.submit.disabled = self.invalidate.submit.disabled = bool(self.action.busy)
        if self.database:
            self.invalidate.update(self.database, INVALIDATED.format(self.database))
        self.status.update(self.action)

    def show_form(self, form: str) -> None:
        """Open a form, or close the open one."""
        self.action.clear()
        self.open_form = form
        self.changed()
        if form:
            (self.create if form == "create" else self.invalidate).focus_first()

    def cancel(self) -> None:
        """Close the form that is open."""
        self.show_form("")

    def create_token(self) -> None:
        """Create the token of the form."""
        chosen, database, read_only = self.expires.widget.value, self.database, self.read_only.value
        expiration = self.duration.text.lower() if chosen == CUSTOM else chosen
        if expiration != "never" and not _DURATION.fullmatch(expiration):
            self.action.refuse(f"{expiration or 'nothing'!r} is not a duration", "write 12h, 7d or 1w2d6h")
            return
        organization = self.state.organization

        def apply(made: Secret) -> str:
            if self.database != database:  # its details were closed in the meantime
                return f"A token for {database} was created, but it is not shown: its details were closed."
            lasts = "never expires" if expiration == "never" else f"expires after {expiration}"
            self.open_form, self.about = "", f"A {'read-only ' if read_only else ''}token for {database} that {lasts}:"
            self.secret.send_secret(made)
            return "The token was created. It is shown only once."

        self.forget()
        options = ("" if expiration == "never" else f" --expiration {expiration}") + (
            " --read-only" if read_only else ""
        )
        self.action.start(
            f"Creating a token for {database} ...",
            lambda: organization.create_token(database, expiration=expiration, read_only=read_only), apply,
            line=f"%pipedb create-token {database}{options} --to-env {variable(database)}",
        )  # fmt: skip

    def forget(self) -> None:
        """Clear the token on all pages."""
        if self.about:
            self.about = ""
            self.secret.send_secret(None)
            self.action.clear()
            self.changed()

    def invalidate_all(self, database: str, typed: str) -> None:
        """Invalidate all tokens of a database if the typed name matches."""
        if typed != database:
            self.action.refuse(f"no token was invalidated: the typed name is not {database}")
            return
        organization = self.state.organization

        def work() -> str:
            notes = self.state.session.invalidate_tokens(database, organization)
            self.open_form = ""
            return "\n".join(notes)

        self.forget()
        self.action.start(
            f"Invalidating the tokens of {database} ...", work, line=f"%pipedb invalidate-tokens {database} --confirm"
        )


def variable(database: str) -> str:
    """Return an environment variable name for the token of a database."""
    name = re.sub(r"[^A-Z0-9]+", "_", database.upper()).strip("_")
    return f"{'DB_' if name[:1].isdigit() else ''}{name}_TOKEN"
