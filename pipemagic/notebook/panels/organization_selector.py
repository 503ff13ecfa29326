"""The selector of the organization in the heading of every panel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import ipywidgets

from pipemagic.errors import SessionError
from pipemagic.hrana.stream import Tx
from pipemagic.notebook import outcomes
from pipemagic.notebook.panels.forms import Choice, Field, Form, PanelPart
from pipemagic.notebook.panels.organization_state import OrganizationState
from pipemagic.notebook.panels.tasks import Action
from pipemagic.text import word

if TYPE_CHECKING:
    from pipemagic.management_api import models
    from pipemagic.session import Connection

STAY = (
    "Panels and %pipedb commands use this organization. Connections and open transactions are kept when it changes: "
    "%%sql uses the current connection."
)


class OrganizationSelector(PanelPart):
    """Switches to another organization of the service. The heading of the panel contains its ``field``.

    If the service does not list its organizations, a form takes the slug.
    """

    def __init__(self, state: OrganizationState, changed: Callable[[], None]) -> None:
        super().__init__(Action("organization", changed))
        self.state = state
        self._switching_to = ""
        self.field = Field("Organization", Choice(tooltip=STAY))
        self.field.on_choice(self._choose)
        self.slug = Field("Slug of the organization", ipywidgets.Text())
        self.other = Form(self, "", [self.slug], "Switch", lambda: self._switch(self.slug.text), opens=True)
        self.children = [self.other, self.status]

    def update(self) -> None:
        """Update the widgets."""
        state, present = self.state, self.state.identity[0]
        options = [(_name(organization), organization.slug) for organization in state.organizations]
        if present not in [slug for _, slug in options]:
            options.insert(0, (present, present))
        if state.no_organizations:
            options.append(("Other ...", ""))
        if self.busy and self._switching_to not in [slug for _, slug in options]:
            options.append((self._switching_to, self._switching_to))
        self.field.set_options(options, self._switching_to if self.busy else "" if self.open_form else present)
        self.field.widget.disabled = self.busy
        self.other.title.set_text(state.no_organizations)
        self.enable_controls()
        self.update_forms()

    def _choose(self, slug: str) -> None:
        if not slug:
            self.show_form(self.other)
        elif slug != self.state.identity[0]:
            self._switch(slug)
        else:
            self.close_form()

    def _switch(self, slug: str) -> None:
        """Use another organization of the same service."""
        if not slug:
            raise SessionError("no organization was given", hint="enter its slug")
        session, organization = self.state.session, self.state.organization

        def work() -> str:
            chosen = session.choose_organization(slug, beside=organization)
            connections = [_connection(connection) for connection in session.connections.values()]
            stay = f" The connections stay as they are: {', '.join(connections)}." if connections else ""
            return outcomes.describe_organization(chosen) + stay

        self.close_form()
        self._switching_to = slug
        self.run(f"Switching to {slug} ...", f"organization {word(slug)}", work)


def _name(organization: models.Organization) -> str:
    slug, name = organization.slug, organization.name
    return slug if name in ("", slug) else f"{slug} ({name})"


def _connection(connection: Connection) -> str:
    return f"{connection.name} (transaction open)" if connection.transaction is Tx.OPEN else connection.name
