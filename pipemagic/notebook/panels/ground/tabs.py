"""All panels in one, a tab for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from traitlets import HasTraits, Unicode

from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.ground.widget import Stranger, Values, View

if TYPE_CHECKING:
    from pipemagic.client.secrets import Secret


class TabsModel(HasTraits):
    """Which tab is in front."""

    front = Unicode(help="the title of its view; '' for the first")


class TabsView(View):
    """Draws the view of the tab in front. An event of it goes to that view by its title, also when it comes late."""

    title: ClassVar[str] = "pipemagic"

    def __init__(self, model: TabsModel, views: Sequence[View]) -> None:
        self.model = model
        self.views = {view.name: view for view in views}
        model.front = model.front or next(iter(self.views))
        for view in views:
            view.placed(self.turn)

    def turn(self, title: str, action: list[str]) -> None:
        """Put a view in front, and have it do an action."""
        self.model.front = title
        self.views[title].act(action, {})

    def models(self) -> tuple[HasTraits, ...]:
        """Give the models of all tabs, each once."""
        found = dict.fromkeys(model for view in self.views.values() for model in view.models())
        return (self.model, *found)

    def draw(self) -> Node:
        """Draw the row of tabs, and what is in front."""
        front = self.model.front
        tabs = [
            h("button", title, type="button", role="tab", id=f"@tab-{title}", aria_selected=str(title == front).lower(),
              aria_controls="@front", tabindex=0 if title == front else -1, on={"click": ["tab", title]}, key=title)
            for title in self.views
        ]  # fmt: skip
        inside = addressed(self.views[front].draw(), front)
        return h(
            "div", h("div", tabs, role="tablist", live=True),
            h("div", inside, role="tabpanel", id="@front", aria_labelledby=f"@tab-{front}", key=f"front {front}",
              keep=True),
        )  # fmt: skip

    def saved(self) -> Node:
        """Draw all of them, one below the other: without a kernel there are no tabs to choose."""
        return h("div", [view.saved() for view in self.views.values()])

    def act(self, action: list[str], values: Values) -> None:
        """Put another tab in front, or pass an event on to the view that it is for."""
        name, *rest = action
        if name == "tab" and len(rest) == 1 and rest[0] in self.views:
            self.model.front = rest[0]
            self.views[rest[0]].turned_to()
        elif name in self.views and rest:
            self.views[name].act(rest, values)
        else:
            raise Stranger(f"there is no tab for {name!r}")

    def take_secrets(self) -> Mapping[str, Secret | None]:
        """Give those of all tabs."""
        return {name: secret for view in self.views.values() for name, secret in view.take_secrets().items()}

    def opened(self) -> None:
        """Open all tabs."""
        for view in self.views.values():
            view.opened()

    def closed(self) -> None:
        """Close all tabs."""
        for view in self.views.values():
            view.closed()


def addressed(node: Node, title: str) -> Node:
    """Put the title of a view that is drawn inside another in front of every action of it."""
    attributes = dict(node.attributes)
    if "on" in attributes:
        attributes["on"] = {event: [title, *action] for event, action in attributes["on"].items()}
    inside = tuple(child if isinstance(child, str) else addressed(child, title) for child in node.children)
    return Node(node.tag, attributes, inside)
