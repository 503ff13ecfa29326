"""Tokens of a database: create one, show it once, and invalidate all."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import ipywidgets

from pipemagic.errors import SessionError
from pipemagic.notebook.panels.components import SecretText
from pipemagic.notebook.panels.forms import ConfirmForm, Field, Form, Line, PanelPart, button, column, row, show
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


class TokenForms(PanelPart):
    """Forms that create a token or invalidate all; the value of a new token is in no trait, only on the page."""

    def __init__(self, state: OrganizationState, changed: Callable[[], None]) -> None:
        super().__init__(Action("tokens", changed))
        self.state = state
        self.database = self.about = ""
        new = button("New token ...", lambda: self.show_form(self.create))
        invalidate = button("Invalidate all tokens ...", lambda: self.show_form(self.invalidate), kind="danger")
        self.buttons = row(new, invalidate)
        self.expires = Field("Expires", ipywidgets.Dropdown(options=EXPIRATIONS))
        self.expires.widget.observe(lambda _: changed(), "value")
        self.duration = Field("Expires after", ipywidgets.Text(), "weeks, days, hours, minutes: 1w2d6h")
        self.read_only = ipywidgets.Checkbox(description="Read-only", indent=False)
        fields = [self.expires, self.duration, self.read_only]
        self.create = Form(self, "", fields, "Create token", self.create_token, opens=True)
        self.invalidate = ConfirmForm(
            self, "invalidate all its tokens", "Invalidate all tokens", self.invalidate_all,
            nothing="no token was invalidated",
        )  # fmt: skip
        self.about_line, self.secret = Line(), SecretText()
        self.done = button("Done", self.forget)
        note = Line(
            "Copy it now: it cannot be shown again. Keep it in a variable or a file, not in a notebook.", "pm-faint"
        )
        self.value = column(self.about_line, row(self.secret, self.done), note, class_="pm-box")
        intro = Line(
            "A token gives other programs access to the database. Existing tokens cannot be listed.", "pm-faint"
        )
        heading = Line("Tokens", tag="h4")
        self.children = [heading, intro, self.value, self.buttons, self.create, self.invalidate, self.status]

    def select(self, database: str) -> None:
        """Show the forms of another database."""
        if database != self.database:
            self.forget()
            self.action.clear()
            self.database, self.open_form = database, None

    def update(self) -> None:
        """Update the widgets."""
        show(self.value, bool(self.about))
        self.about_line.set_text(self.about)
        show(self.buttons, self.open_form is None)
        show(self.duration, self.expires.widget.value == CUSTOM)
        if self.database:
            self.invalidate.update(self.database, INVALIDATED.format(self.database))
        self.enable_controls()
        self.update_forms()

    def create_token(self) -> None:
        """Create the token of the form."""
        chosen, database, read_only = self.expires.widget.value, self.database, self.read_only.value
        expiration = self.duration.text.lower() if chosen == CUSTOM else chosen
        if expiration != "never" and not _DURATION.fullmatch(expiration):
            raise SessionError(f"{expiration!r} is not a duration", hint="write 12h, 7d or 1w2d6h")
        organization = self.state.organization

        def apply(made: Secret) -> str:
            if self.database != database:  # its details were closed in the meantime
                return f"A token for {database} was created, but it is not shown: its details were closed."
            lasts = "never expires" if expiration == "never" else f"expires after {expiration}"
            self.open_form, self.about = (
                None,
                f"A {'read-only ' if read_only else ''}token for {database} that {lasts}:",
            )
            self.secret.send_secret(made)
            return "The token was created. It is shown only once."

        self.forget()
        options = ("" if expiration == "never" else f" --expiration {expiration}") + (
            " --read-only" if read_only else ""
        )
        create = partial(organization.create_token, database, expiration=expiration, read_only=read_only)
        command = f"create-token {database}{options} --to-env {variable(database)}"
        self.run(f"Creating a token for {database} ...", command, create, apply)

    def forget(self) -> None:
        """Clear the token on all pages."""
        if self.about:
            self.about = ""
            self.secret.send_secret(None)
            self.action.clear()
            self.action.changed()

    def invalidate_all(self, database: str) -> None:
        """Invalidate all tokens of a database."""
        organization = self.state.organization

        def work() -> str:
            notes = self.state.session.invalidate_tokens(database, organization)
            self.open_form = None
            return "\n".join(notes)

        self.forget()
        self.run(f"Invalidating the tokens of {database} ...", f"invalidate-tokens {database} --confirm", work)


def variable(database: str) -> str:
    """Return an environment variable name for the token of a database."""
    name = re.sub(r"[^A-Z0-9]+", "_", database.upper()).strip("_")
    return f"{'DB_' if name[:1].isdigit() else ''}{name}_TOKEN"
