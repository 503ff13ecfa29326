"""The widget of every panel: sends a view's tree to the page, and what people do there back to the view.

The page's part is panel.js and panel.css, which anywidget puts there: no build, nothing from another host.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import anywidget
from IPython.core.getipython import get_ipython
from IPython.display import publish_display_data
from traitlets import HasTraits, List

from pipemagic.client.secrets import Secret
from pipemagic.errors import PipemagicError
from pipemagic.notebook.panels.ground import faces
from pipemagic.notebook.panels.ground.tree import Node, h
from pipemagic.notebook.panels.ground.work import WorkingModel

HERE = Path(__file__).parent
STYLE = (HERE / "panel.css").read_text("utf-8")
WIDGET = "application/vnd.jupyter.widget-view+json"
IN_VSCODE = "__vsc_ipynb_file__"
"""The variable with the notebook's path that VS Code's Jupyter extension makes in every kernel."""
PATIENCE = 5.0
"""Seconds after its opening for which a face that is saved waits for the first answers, so that it has them."""
TURN = 1.0
"""Seconds to wait for another thread that draws: not for ever, since that one may wait for a lock of this one."""

INTERRUPTED = "KeyboardInterrupt: the panel is open, and no longer waited for"
"""What stands below a panel whose cell was interrupted."""

Values = Mapping[str, Any]
"""What the named fields around the place of an event hold: text, or True and False of a checkbox."""


class Stranger(Exception):
    """A page asked for what no panel of ours asks for: it is older than the kernel, or not ours."""


Turn: TypeAlias = Callable[[str, list[str]], None]
"""Puts the view of a title in front and has it do an action."""


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
        """Do what an event asks for; what a page has no right to ask for (see Stranger) is not done."""
        name, *arguments = action
        handler = getattr(type(self), f"on_{name.replace('-', '_')}", None)
        if handler is None:
            raise Stranger(f"the panel {self.name} has no action {name!r}")
        try:
            inspect.signature(handler).bind(self, values, *arguments)
        except TypeError as error:
            raise Stranger(f"the action {name!r} of the panel {self.name}: {error}") from None
        handler(self, values, *arguments)

    def take_secrets(self) -> Mapping[str, Secret | None]:
        """Give the secrets that the page is to hold from now on, by name; None takes one away. Called once for each."""
        return {}

    def placed(self, turn: Turn) -> None:
        """Learn how to put another view in front, where several are in tabs."""

    def turned_to(self) -> None:
        """Do what is due when its tab is put in front; most follow what changes anyway."""

    def opened(self) -> None:
        """Begin to follow what changes by itself; called when the panel is shown, also when it is shown again."""

    def closed(self) -> None:
        """Stop following: the panel was closed, or is on no page any more (its cell ran again)."""


class Panel(anywidget.AnyWidget):
    """A panel on the page. ``tree`` is all that it holds, and all that a saved notebook keeps of it."""

    _esm = (HERE / "panel.js").read_text("utf-8")
    _css = STYLE
    tree: List[Any] = List().tag(sync=True)

    def __init__(self, view: View) -> None:
        self.view = view
        self._bug: Exception | None = None
        self._drawing = threading.Lock()  # models change in threads of their own
        self._drawer: int | None = None
        self._stale = False
        self._following = False
        self._patient_until = time.monotonic() + PATIENCE
        super().__init__(tree=self._draw().wire())
        self.on_msg(self._heard)
        self._follow()

    def close(self) -> None:
        """Take the panel off the page, and follow nothing any more."""
        self._leave()
        super().close()

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Take no traits over from a page: it tells what people do, and nothing else."""

    def __repr__(self) -> str:
        return f"<panel {self.view.name}>"  # what traitlets writes into logs

    def __str__(self) -> str:
        self.settle()
        return faces.text(self.view.saved())

    def settle(self) -> None:
        """Wait until what was asked at the opening has its answers, but not for long; an interrupt is passed on."""
        models = [model for model in self.view.models() if isinstance(model, WorkingModel)]
        told = threading.Event()

        def tell(_change: Any) -> None:
            told.set()

        with ExitStack() as heard:
            heard.callback(self._wait_no_more)
            for model in models:
                model.observe(tell, "busy")
                heard.callback(model.unobserve, tell, "busy")
            while (left := self._patient_until - time.monotonic()) > 0:
                told.clear()
                # Not only once: answers may bring more questions, also when the work that brought them is over.
                if not any(model.busy for model in models) and all(model.wait(left) for model in models):
                    break
                told.wait(left)

    def _wait_no_more(self) -> None:
        self._patient_until = 0.0

    def _follow(self) -> None:
        if not self._following:
            self._following = True
            for model in self.view.models():
                model.observe(self._changed)
            self.view.opened()
            self._changed()

    def _leave(self) -> None:
        if self._following:  # ipywidgets may close what is closed
            self._following = False
            self.view.closed()  # while it is still heard: secrets are taken from the page
            for model in self.view.models():
                model.unobserve(self._changed)

    def _changed(self, _change: Any = None) -> None:
        """Draw anew, in one thread at a time: who waits for another's turn finds its own change drawn then."""
        self._stale = True
        if self._drawer == threading.get_ident():
            return  # drawing changed something: the loop below sees it
        if not self._drawing.acquire(timeout=TURN):
            return  # whoever draws sees it, too
        try:
            self._drawer = threading.get_ident()
            while self._stale:
                self._stale = False
                self._show()
        finally:
            self._drawer = None
            self._drawing.release()

    def _show(self) -> None:
        """Send the picture and the secrets; raises nothing: others wait to be told of the same change."""
        try:
            self._send_picture()
        except Exception as error:
            self.log.exception("the panel %s could not be sent", self.view.name)
            with suppress(Exception):  # where nothing at all can be sent
                self.tree = h("div", _bug(error)).wire()

    def _send_picture(self) -> None:
        tree = self._draw().wire()
        if tree != self.tree:
            self.tree = tree
        for name, secret in self.view.take_secrets().items():
            # A message, not a trait: what is in traits is kept, and may be saved.
            self.send({"secret": name, "value": None if secret is None else str(secret)})

    def _draw(self) -> Node:
        try:
            drawn = self.view.draw()
        except Exception as error:
            self.log.exception("the panel %s could not be drawn", self.view.name)
            return h("div", _bug(error))
        return drawn if self._bug is None else Node(drawn.tag, drawn.attributes, (_bug(self._bug), *drawn.children))

    def _heard(self, _widget: Any, message: Any, _buffers: Any) -> None:
        """Do what the page says. What comes from there may be anything."""
        match message:
            case {"action": [str(), *_] as action, "values": dict() as values}:
                if self.comm is not None:
                    self._follow()  # where one page of several was closed another is seen still
                self._act(action, values)
            case {"seen": bool(seen)} if self.comm is not None:
                self._follow() if seen else self._leave()
            case {"clock": True}:
                pass
            case _:
                self.log.warning("the panel %s heard what it does not know", self.view.name)
        answer = {"heard": message.get("number") if isinstance(message, dict) else None, "now": time.time()}
        # In another window there may be a page still: that one says so.
        self.send(answer if self._following else {**answer, "anybody": True})

    def _act(self, action: list[Any], values: dict[Any, Any]) -> None:
        self._bug, before = None, self._bug
        try:
            if not all(isinstance(one, str) for one in action):
                raise Stranger("an action that is not made of words")
            self.view.act(action, {name: one for name, one in values.items() if isinstance(one, str | bool)})
        except Stranger as error:
            self.log.warning("%s", error)
        except Exception as error:
            self.log.exception("the panel %s could not do what was asked for", self.view.name)
            self._bug = error
        if self._bug is not before:
            self._changed()

    def _ipython_display_(self, **_options: Any) -> None:
        """Show the panel: live at once, then, with the first answers, its saved face, which the page hides (panel.css).

        VS Code has no page around its outputs that could hide one for another: there both are one output, of which it
        shows what it can. An interrupt ends the waiting, and with it the cells that wait for this one: the panel stays.
        """
        shell = get_ipython()
        if shell is None or getattr(shell, "kernel", None) is None:
            self._print()
            return
        live = {WIDGET: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}}
        together = IN_VSCODE in shell.user_ns
        if not together:
            _publish({**live, "text/plain": ""})
        try:
            self.settle()
        except KeyboardInterrupt as interrupt:
            interrupt._render_traceback_ = lambda: [INTERRUPTED]  # type: ignore[attr-defined]
            raise
        finally:
            _publish({**(live if together else {}), **self._saved_faces()})

    def _print(self) -> None:
        """Show the text in a terminal, and follow nothing from then on: nobody would see it."""
        self._follow()
        try:
            sys.stdout.write(f"{self}\n")
        finally:
            self._leave()

    def _saved_faces(self) -> dict[str, str]:
        saved = self.view.saved()
        page = f'<div class="pipemagic-panel pipemagic-saved"><style>{STYLE}</style>{faces.html(saved)}</div>'
        return {"text/html": page, "text/plain": faces.text(saved)}


def _publish(data: dict[str, Any]) -> None:
    publish_display_data(data)  # type: ignore[no-untyped-call]


def _bug(error: Exception) -> Node:
    """Show an error that nobody expected, or one of ours that its model did not catch."""
    code = error.code if isinstance(error, PipemagicError) else "BUG"
    words = error.message if isinstance(error, PipemagicError) else f"{type(error).__name__}: {error}"
    hint = error.hint if isinstance(error, PipemagicError) else "the kernel's log has the traceback"
    said = h("p", h("span", f"{code}: ", class_="pm-code"), words, class_="pm-error")
    return h("div", said, h("p", hint, class_="pm-faint"), role="alert", class_="pm-problem", live=True, key="bug")
