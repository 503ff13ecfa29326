"""How large the databases are, asked beside everything else: nothing waits for it, and some services do not tell."""

from __future__ import annotations

from typing import Any

from traitlets import Bool, Dict

from pipemagic import counts
from pipemagic.errors import UnsupportedError
from pipemagic.notebook.panels.ground.work import WorkingModel
from pipemagic.notebook.panels.holdings import Holdings


class SizesModel(WorkingModel):
    """The sizes, asked anew whenever the list of databases is another one."""

    sizes: Dict[str, int] = Dict(help="bytes by name of a database")
    told = Bool(True, help="whether the service tells sizes")

    def __init__(self, holdings: Holdings) -> None:
        super().__init__()
        self.holdings = holdings
        self._stale = False

    def follow(self, *, on: bool) -> None:
        """Begin or stop to ask when the list changes."""
        if on:
            self.holdings.observe(self._changed, "databases")
            self.ask()
        else:
            self.holdings.unobserve(self._changed, "databases")

    def ask(self) -> None:
        """Ask for the sizes, if there is an organization to ask."""
        self._stale = True
        if self.holdings.known:
            self.start("Asking for sizes ...", self._ask)

    def ended(self) -> None:
        """Ask once more if the list changed meanwhile."""
        if self._stale:
            self.ask()

    def _changed(self, _change: Any) -> None:
        self.ask()

    def _ask(self) -> str:
        self._stale = False
        platform = self.holdings.platform
        try:
            used = platform.usage().databases
        except UnsupportedError:
            self.told = False
            return ""
        sizes = {name: figures["storage_bytes"] for name, figures in used.items() if "storage_bytes" in figures}
        with self.hold_trait_notifications():
            self.sizes, self.told = sizes, True
            if not self.holdings.shows(platform):  # asked after they are set: else they could come after the move
                self.sizes = {}
        return ""


def words(size: int | None) -> str:
    """Give a number of bytes for people; '' for None."""
    return "" if size is None else counts.size(size)
