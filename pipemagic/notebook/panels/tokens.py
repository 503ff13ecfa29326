"""Tokens: create one of a database, show it once, and invalidate all; create platform tokens with limits."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import ipywidgets

from pipemagic.errors import SessionError
from pipemagic.notebook.panels.components import SecretText
from pipemagic.notebook.panels.forms import (
    Choice,
    ClearedText,
    ConfirmForm,
    Field,
    Form,
    Line,
    PanelPart,
    button,
    column,
    row,
    show,
)
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.tasks import Action
from pipemagic.scopes import SCOPES, summary
from pipemagic.text import word

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


class NewToken(PanelPart):
    """A part with the value of a new token, which is in no trait, only on the page."""

    def __init__(self, state: OrganizationState, changed: Callable[[], None], name: str) -> None:
        super().__init__(Action(name, changed))
        self.state, self.about = state, ""
        self.about_line, self.secret = Line(), SecretText()
        self.done = button("Done", self.forget)
        note = Line(
            "Copy it now: it cannot be shown again. Keep it in a variable or a file, not in a notebook.", "pm-faint"
        )
        self.value = column(self.about_line, row(self.secret, self.done), note, class_="pm-box")

    def show_value(self) -> None:
        """Show the value of the new token, if there is one."""
        show(self.value, bool(self.about))
        self.about_line.set_text(self.about)

    def present(self, token: Secret, about: str) -> str:
        """Send a new token to the pages, and close its form; return the message."""
        self.open_form, self.about = None, about
        self.secret.send_secret(token)
        return "The token was created. It is shown only once."

    def forget(self) -> None:
        """Clear the token on all pages."""
        if self.about:
            self.about = ""
            self.secret.send_secret(None)
            self.action.clear()
            self.action.changed()


class TokenForms(NewToken):
    """Forms that create a token of a database, or invalidate all of them."""

    def __init__(self, state: OrganizationState, changed: Callable[[], None]) -> None:
        super().__init__(state, changed, "tokens")
        self.database = ""
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
        self.show_value()
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
            return self.present(made, f"A {'read-only ' if read_only else ''}token for {database} that {lasts}:")

        self.forget()
        options = ("" if expiration == "never" else f" --expiration {expiration}") + (
            " --read-only" if read_only else ""
        )
        create = partial(organization.create_token, database, expiration=expiration, read_only=read_only)
        command = f"create-token {database}{options} --to-env {variable(database)}"
        self.run(f"Creating a token for {database} ...", command, create, apply)

    def invalidate_all(self, database: str) -> None:
        """Invalidate all tokens of a database."""
        organization = self.state.organization

        def work() -> str:
            notes = self.state.session.invalidate_tokens(database, organization)
            self.open_form = None
            return "\n".join(notes)

        self.forget()
        self.run(f"Invalidating the tokens of {database} ...", f"invalidate-tokens {database} --confirm", work)


class PlatformTokenForms(NewToken):
    """A form that creates a platform token, limited to the organization, or to a group and scopes."""

    def __init__(self, state: OrganizationState, changed: Callable[[], None]) -> None:
        super().__init__(state, changed, "platform tokens")
        self.new = button("New platform token ...", lambda: self.show_form(self.create))
        self.name = Field("Token name", ClearedText())
        self.reach = Field("Limited to", Choice())
        self.reach.widget.observe(lambda _: changed(), "value")
        self.scopes = {
            scope: ipywidgets.Checkbox(
                description=f"{scope}: {meaning}", indent=False, value=scope == "read"
            ).add_class("pm-line")
            for scope, meaning in SCOPES.items()
        }
        fields = [self.name, self.reach, *self.scopes.values()]
        self.create = Form(self, "", fields, "Create platform token", self.create_token, opens=True)
        intro = Line(
            "A platform token lets other programs manage databases. %pipedb api-tokens lists the existing ones.",
            "pm-faint",
        )
        heading = Line("Platform tokens", tag="h4")
        self.children = [heading, intro, self.value, self.new, self.create, self.status]

    def update(self) -> None:
        """Update the widgets."""
        self.show_value()
        show(self.new, self.open_form is None)
        groups = [(f"group {group.name}", group.name) for group in self.state.groups]
        self.reach.set_options([("the whole organization", ""), *groups])
        for box in self.scopes.values():
            show(box, bool(self.reach.widget.value))
        self.enable_controls()
        self.update_forms()

    def create_token(self) -> None:
        """Create the token of the form."""
        name, group, organization = self.name.text, self.reach.widget.value or None, self.state.organization
        scopes = [scope for scope, box in self.scopes.items() if box.value] if group else []
        if not name:
            raise SessionError("the token has no name")
        reach = f"group {group} ({summary(scopes)})" if group else f"organization {organization.slug}"

        def apply(made: Secret) -> str:
            self.name.widget.clear(name)
            return self.present(made, f"The platform token {name} for {reach}:")

        self.forget()
        options = "".join([f" --group {word(group)}" if group else "", *(f" --scope {scope}" for scope in scopes)])
        create = partial(organization.create_api_token, name, group=group, scopes=scopes)
        command = f"create-api-token {word(name)}{options} --to-env {variable(name)}"
        self.run(f"Creating the platform token {name} ...", command, create, apply)


def variable(database: str) -> str:
    """Return an environment variable name for the token of a database."""
    name = re.sub(r"[^A-Z0-9]+", "_", database.upper()).strip("_")
    return f"{'DB_' if name[:1].isdigit() else ''}{name}_TOKEN"
