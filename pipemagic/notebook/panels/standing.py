"""What panels of an organization have in common: what they show before one is in use, and when it cannot be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pipemagic.notebook.panels.ground.parts import button, empty, not_connected, problem, section, state
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.ground.widget import Turn, Values, View

if TYPE_CHECKING:
    from traitlets import HasTraits

    from pipemagic.client.secrets import Secret
    from pipemagic.notebook.panels.holdings import Holdings


class InOrganization(View):
    """Another view, once an organization is in use; before that, what to do.

    Opening a panel starts no service. When the organization cannot be asked any more, what is known stays, with the
    error above it. A view that can stand ``alone`` needs only the name of the organization, not what there is in it.
    """

    title: ClassVar[str] = ""

    def __init__(self, view: View, holdings: Holdings, *, alone: bool = False) -> None:
        self.view, self.holdings, self.alone = view, holdings, alone

    @property
    def name(self) -> str:
        """That of the view."""
        return self.view.name

    def models(self) -> tuple[HasTraits, ...]:
        """Give those of the view, and the holdings."""
        return tuple(dict.fromkeys((*self.view.models(), self.holdings)))

    def draw(self) -> Node:
        """Draw the view, or what to do first."""
        has = self.holdings
        drawn = has.known or (self.alone and has.organization)
        return self._around(self.view.draw()) if drawn else self._before()

    def saved(self) -> Node:
        """Draw the same for the saved faces."""
        if not self.holdings.known and self.holdings.busy:
            return section(self.name, empty("No answer had come when this was saved: run the cell again."))
        return self._around(self.view.saved()) if self.holdings.known else self._before()

    def act(self, action: list[str], values: Values) -> None:
        """Connect, ask again, or pass an event on."""
        if action == ["connect-organization"]:
            self.holdings.connect()
        elif action == ["ask-organization"]:
            self.holdings.refresh()
        else:
            self.view.act(action, values)

    def take_secrets(self) -> Mapping[str, Secret | None]:
        """Give those of the view."""
        return self.view.take_secrets()

    def placed(self, turn: Turn) -> None:
        """Tell the view."""
        self.view.placed(turn)

    def opened(self) -> None:
        """Open the view."""
        self.view.opened()

    def closed(self) -> None:
        """Close the view."""
        self.view.closed()

    def _before(self) -> Node:
        has = self.holdings
        if has.asked:
            again = button("Ask again", ("ask-organization",), disabled=bool(has.busy))
            return section(self.name, state(has), h("div", again, class_="pm-row") if has.error else None)
        return section(self.name, not_connected(has))

    def _around(self, drawn: Node) -> Node:
        has = self.holdings
        if not has.error:
            return drawn
        again = button("Ask again", ("ask-organization",), label="Ask the organization again", disabled=bool(has.busy))
        words = h("p", "What is below may be out of date: the organization could not be asked.")
        strip = h("div", problem(has), words, again, key="out of date", live=True)
        return Node(drawn.tag, drawn.attributes, (strip, *drawn.children))
