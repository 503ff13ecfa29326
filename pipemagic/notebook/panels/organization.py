"""The Organization panel: usage and quotas, overages."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets

from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.forms import show
from pipemagic.notebook.panels.static_html import Block
from pipemagic.notebook.panels.usage import OrganizationUsage


class OrganizationPanel(Panel):
    """The usage, which other panels show by a button in their heading."""

    title = "Organization"

    @property
    def ready(self) -> bool:
        """Whether an organization is in use, even if its groups and databases cannot be listed."""
        return any(self.state.identity)

    def build(self) -> Sequence[ipywidgets.Widget]:
        """Create the widgets."""
        show(self.usage_button, False)
        self.usage_part = OrganizationUsage(self.state, self.changed)
        self.tasks = [self.state.task, self.usage_part.reading]
        return [self.usage_part]

    def update(self) -> None:
        """Update the widgets."""
        self.usage_part.update()

    def static(self) -> Sequence[Block]:
        """Return the name of the organization and its service."""
        return [" \u2013 ".join(self.state.identity)]
