"""Remove namespaces from the nodes, in the order that sqld bears, and again until it has worked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from pipemagic.service.sqld.admin import Admin, NodeDown, NoNamespace, Settings
from pipemagic.service.sqld.keys import nobodys_key
from pipemagic.service.sqld.namespaces import Namespaces, Removal

TRIES = 3
"""A request that comes while a replica removes a namespace makes it again, and the removal fails."""


class Removals:
    """Carries out what `Namespaces` says is to be removed. ``on_down`` is told of nodes that cannot be reached."""

    def __init__(
        self, namespaces: Namespaces, admins: Mapping[str, Admin], primary: str,
        on_down: Callable[[str, NodeDown], None],
    ) -> None:  # fmt: skip
        self._namespaces, self._admins, self._primary, self._on_down = namespaces, admins, primary, on_down
        self._nobodys_key = nobodys_key()

    def primary_has(self, label: str) -> bool:
        """Tell whether the primary still has to remove a namespace of this name."""
        return any(self._is_primary(removal) for removal in self._namespaces.removals(label))

    def lock_out(self, label: str) -> None:
        """Let no token open the namespace any more where the nodes can be reached, at the primary first."""
        for removal in sorted(self._namespaces.removals(label), key=lambda one: not self._is_primary(one)):
            if admin := self._admins.get(removal.code):  # else its node left the nodes' file
                with suppress(NodeDown, NoNamespace):
                    admin.configure(label, Settings(self._nobodys_key, block_reads=True))

    def finish(self, label: str | None = None) -> None:
        """Let the nodes remove what they still have to (of one name), replicas first.

        A replica that follows a namespace when its primary loses it goes on answering from its copy, and asks for
        more without a pause. One that is gone follows nothing.
        """
        followed: set[str] = set()
        for removal in sorted(self._namespaces.removals(label), key=self._is_primary):
            if removal.database in followed or removal.code not in self._admins:
                continue
            try:
                self._remove(removal)
            except NodeDown as down:
                self._on_down(removal.code, down)
                if not down.gone:
                    followed.add(removal.database)

    def _remove(self, removal: Removal) -> None:
        for last in (False,) * (TRIES - 1) + (True,):
            try:
                self._admins[removal.code].delete(removal.label)
                break
            except NodeDown as down:
                if last or down.gone:
                    raise
        self._namespaces.removed(removal)

    def _is_primary(self, removal: Removal) -> bool:
        return removal.code == self._primary
