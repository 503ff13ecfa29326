"""The widget of every panel: sends a view's tree to the page, and what people do there back to the view.

The page's part is panel.js and panel.css, which anywidget puts there: no build, nothing from another host.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import anywidget
from IPython.core.getipython import get_ipython
from IPython.display import publish_display_data
from traitlets import HasTraits, List

from pipemagic.client.secrets import Secret
from pipemagic.notebook.panels import faces
from pipemagic.notebook.panels.tree import Node

HERE = Path(__file__).parent
STYLE = (HERE / "panel.css").read_text("utf-8")
WIDGET = "application/vnd.jupyter.widget-view+json"

Values = Mapping[str, Any]
"""What the named fields around the place of an event hold: text, or True and False of a checkbox."""


class View:
    """Draws models as a tree, and does what people ask for there.

    An action ("create", "edge") calls ``on_create(values, "edge")``. It must not wait: it starts work of a model. What
    comes from a page can call the methods of that form and nothing else.
    """

    title: ClassVar[str]

    @property
    def name(self) -> str:
        """What its tab, and its element on the page, are called."""
        return self.title

    def models(self) -> tuple[HasTraits, ...]:
        """Give the models whose changes change the picture."""
        raise NotImplementedError

    def draw(self) -> Node:
        """Draw the models as they are now."""
        raise NotImplementedError

    def saved(self) -> Node:
        """Draw what saved notebooks and terminals show; the saved faces leave out what is ``live`` in it."""
        return self.draw()

    def act(self, action: list[str], values: Values) -> None:
        """Do what an event asks for."""
        name, *arguments = action
        getattr(self, f"on_{name.replace('-', '_')}")(values, *arguments)

    def take_secrets(self) -> Mapping[str, Secret | None]:
        """Give the secrets that the page is to hold from now on, by name; None takes one away. Called once for each."""
        return {}

    def opened(self) -> None:
        """Begin to follow what changes by itself; called when the panel is shown."""

    def closed(self) -> None:
        """Stop following."""


class Panel(anywidget.AnyWidget):
    """A panel on the page. ``tree`` is all that it holds, and all that a saved notebook keeps of it."""

    _esm = (HERE / "panel.js").read_text("utf-8")
    _css = STYLE
    tree: List[Any] = List().tag(sync=True)

    def __init__(self, view: View) -> None:
        self.view = view
        self._drawing = threading.RLock()  # models change in threads of their own
        self._following = True
        super().__init__(tree=view.draw().wire())
        for model in view.models():
            model.observe(self._changed)
        self.on_msg(self._heard)
        view.opened()

    def close(self) -> None:
        """Take the panel off the page, and follow nothing any more."""
        if self._following:  # ipywidgets may close what is closed
            self._following = False
            for model in self.view.models():
                model.unobserve(self._changed)
            self.view.closed()
        super().close()

    def __repr__(self) -> str:
        return f"<panel {self.view.name}>"  # what traitlets writes into logs

    def __str__(self) -> str:
        return faces.text(self.view.saved())

    def _changed(self, _change: Any) -> None:
        with self._drawing:
            tree = self.view.draw().wire()
            if tree != self.tree:
                self.tree = tree
            for name, secret in self.view.take_secrets().items():
                # A message, not a trait: what is in traits is kept, and may be saved.
                self.send({"secret": name, "value": None if secret is None else str(secret)})

    def _heard(self, _widget: Any, message: Any, _buffers: Any) -> None:
        if "action" in message:
            self.view.act(message["action"], message.get("values", {}))
        elif message.get("clock"):
            self.send({"now": time.time()})

    def _ipython_display_(self, **_options: Any) -> None:
        """Show the panel: its saved face, which the page hides while the next output, the live one, is there."""
        saved = self.view.saved()
        text = faces.text(saved)
        if getattr(get_ipython(), "kernel", None) is None:
            sys.stdout.write(f"{text}\n")
            return
        page = f'<div class="pipemagic-panel pipemagic-saved"><style>{STYLE}</style>{faces.html(saved)}</div>'
        publish_display_data({"text/html": page, "text/plain": text})  # type: ignore[no-untyped-call]
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
        publish_display_data({WIDGET: view, "text/plain": ""})  # type: ignore[no-untyped-call]
