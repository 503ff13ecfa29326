"""The list of panels; open one of them, or all in tabs."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets

from pipemagic import plugins
from pipemagic.notebook.display import warn
from pipemagic.notebook.panels.base import Panel
from pipemagic.notebook.panels.databases import DatabasesPanel
from pipemagic.notebook.panels.explore import ExplorePanel
from pipemagic.notebook.panels.groups import GroupsPanel
from pipemagic.notebook.panels.locations import LocationsPanel
from pipemagic.notebook.panels.organization_state import OrganizationState, state_of
from pipemagic.notebook.panels.session import SessionPanel
from pipemagic.notebook.panels.static_html import Block, Displayable

if TYPE_CHECKING:
    from pipemagic.plugins import Plugin
    from pipemagic.session import Session

Variables = MutableMapping[str, Any]
"""The variables of the notebook."""

PANELS: dict[str, Callable[[OrganizationState, Variables], Panel]] = {
    "databases": lambda state, _: DatabasesPanel(state),
    "explore": ExplorePanel,
    "groups": lambda state, _: GroupsPanel(state),
    "locations": lambda state, _: LocationsPanel(state),
    "session": lambda state, _: SessionPanel(state),
}
"""The panels in the order of their tabs; commands/status.py repeats the names, so that it need not import this.

Plugins have more panels.
"""

NAMES = tuple(PANELS)


class Tabs(Displayable, ipywidgets.Tab):
    """Panels in tabs. Only the selected one follows changes and sends requests, and is in the static form."""

    title = "pipemagic"

    def __init__(self, panels: Sequence[Panel], selected: int = 0) -> None:
        self.panels = panels
        super().__init__(children=panels, titles=[panel.title for panel in panels], selected_index=selected)
        self.add_class("pipemagic-tabs")
        for panel in panels:
            panel.in_front = partial(self._is_in_front, panel)
            if isinstance(panel, DatabasesPanel):
                panel.explore = self.explore
        self.observe(self._selected, "selected_index")

    @property
    def front(self) -> Panel:
        """The panel of the selected tab."""
        return self.panels[self.selected_index or 0]

    def explore(self, connection: str, table: str) -> None:
        """Select the Explore tab and show a table of a connection."""
        panel = self.select(ExplorePanel.title)
        if isinstance(panel, ExplorePanel):
            panel.open_table(connection, table)

    def mount(self) -> None:
        """Start following changes in the selected panel."""
        self.front.mount()

    def unmount(self) -> None:
        """Stop following changes."""
        for panel in self.panels:
            panel.unmount()

    def wait(self) -> None:
        """Wait for the first data of the selected panel."""
        self.front.wait()

    def sections(self) -> Sequence[tuple[str, Sequence[Block]]]:
        """Return the sections of the selected panel."""
        return self.front.sections()

    def select(self, title: str) -> Panel:
        """Select the tab of a panel and return the panel."""
        self.selected_index = [panel.title for panel in self.panels].index(title)
        return self.front

    def close(self) -> None:
        """Close all panels."""
        for panel in self.panels:
            panel.close()
        super().close()
        self.layout.close()

    def _is_in_front(self, panel: Panel) -> bool:
        return panel is self.front

    def _selected(self, _change: Any) -> None:
        self.front.mount()  # before the others unmount, so that shared work continues
        for panel in self.panels:
            if panel is not self.front:
                panel.unmount()
        self.save_again()


def open_panel(session: Session, name: str = "all", variables: Variables | None = None) -> Panel | Tabs:
    """Return the panel of one of `NAMES` or of a plugin, or ``all`` in tabs; exports go into ``variables``.

    The tabs open on Explore if there is a current connection, otherwise on Databases. Return at once; the panel shows
    what it is loading.
    """
    state, variables = state_of(session), {} if variables is None else variables
    state.refresh()
    if name == "all":
        panels = [create(state, variables) for create in PANELS.values()]
        first = NAMES.index("explore" if session.current else "databases")
        opened: Panel | Tabs = Tabs([*panels, *_panels_of_plugins(state)], first)
    elif name in PANELS:
        opened = PANELS[name](state, variables)
    else:
        opened = plugins.load(plugins.named("panels")[name])(state)
    opened.mount()
    return opened


def _panels_of_plugins(state: OrganizationState) -> list[Panel]:
    """Return the panels of plugins that have a tab now."""

    def panels(plugin: Plugin) -> list[Panel]:
        return [kind(state) for kind in map(plugins.load, plugin.panels.values()) if kind.has_tab()]

    return [panel for group in plugins.for_each(panels, warn) for panel in group]
