"""A panel without a browser: finds what a person would by its words, and sends what panel.js would send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from waiting import PATIENCE, Found, until

from pipemagic.notebook.panels.ground import faces
from pipemagic.notebook.panels.ground.tree import Node
from pipemagic.notebook.panels.ground.widget import Panel

FIELDS = ("input", "select", "textarea")


class PanelPage:
    """What a person sees of a panel, and does there. What was typed stays until its form is another one."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        panel.settle()
        self.secrets: dict[str, str] = {}
        self._typed: dict[tuple[str, str], Any] = {}
        panel.send = self._receive

    # -- seeing

    @property
    def tree(self) -> Node:
        """What the page was sent last."""
        return _node(self.panel.tree)

    @property
    def words(self) -> str:
        """All words on the page, each text on a line of its own."""
        return "\n".join(text for node in self.tree.walk() for text in node.children if isinstance(text, str))

    @property
    def text(self) -> str:
        """The text face."""
        return str(self.panel)

    @property
    def html(self) -> str:
        """The saved face."""
        return faces.html(self.panel.view.saved())

    def find(self, tag: str, name: str = "") -> list[Node]:
        """Find elements by tag, and by a name: their words, or what they say to those who hear."""
        return [node for node in self.tree.walk() if node.tag == tag and name in ("", _name(node))]

    def error_of(self, label: str) -> str:
        """Give what the page says is wrong with a field; '' if nothing is."""
        tree = self.tree
        field = self._field(tree, label)
        if field.attributes.get("aria-invalid") != "true":
            return ""
        about = field.attributes["aria-describedby"]
        return next(node.words for node in tree.walk() if node.attributes.get("id") == about)

    def options(self, label: str) -> list[str]:
        """Give the values that a list offers."""
        return [one.attributes["value"] for one in self._field(self.tree, label).walk() if one.tag == "option"]

    def has(self, label: str) -> bool:
        """Tell whether there is a field with a label."""
        return any(one.words == label for one in self._below(self.tree, "label"))

    def has_field(self, label: str) -> bool:
        """Tell whether there is a field with a label, or with that to say to those who hear."""
        return self._look_for(self.tree, label) is not None

    def can(self, name: str) -> bool:
        """Tell whether there is a button of a name that can be pressed now."""
        return any(not node.attributes.get("disabled") for node in self.find("button", name))

    @property
    def alerts(self) -> list[str]:
        """What is said of errors, each with its code and hint."""
        return [node.words for node in self.tree.walk() if node.attributes.get("role") == "alert"]

    @property
    def is_busy(self) -> bool:
        """Whether the page says that something is under way."""
        return any("pm-busy" in str(node.attributes.get("class", "")).split() for node in self.tree.walk())

    def wait(self, words: str, seconds: float = PATIENCE) -> None:
        """Wait until some words are on the page."""
        try:
            until(lambda: words in self.words, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"{words!r} did not come; there is\n{self.words}") from None

    def wait_for(self, name: str) -> None:
        """Wait until there is a button of a name that can be pressed."""
        until(lambda: self.can(name), f"{name} cannot be pressed")

    # -- doing

    def click(self, name: str) -> None:
        """Click the one button, tab or part of a picture of that name, once it can be clicked."""
        tree, button = self._ready(
            name, lambda tree: [node for node in tree.walk() if "click" in node.attributes.get("on", {})]
        )
        self._send(tree, button, "click")

    def type(self, label: str, text: str) -> None:
        """Type into the field with a label, once it is there, and let the panel look at it."""
        self._enter(label, text, "input")

    def choose(self, label: str, value: str) -> None:
        """Choose from the list with a label, once it offers that."""
        self._until(
            lambda: self.has_field(label) and value in self.options(label), f"{value} is not among the {label!r}"
        )
        self._enter(label, value, "change")

    def check(self, label: str, *, on: bool = True) -> None:
        """Set the checkbox with a label."""
        self._enter(label, on, "change")

    def submit(self, words: str) -> None:
        """Press the button of a form, once it can be pressed, as Enter in one of its fields does too."""
        tree, button = self._ready(
            words, lambda tree: [one for one in self._below(tree, "button") if one.attributes.get("type") == "submit"]
        )
        form = next(node for node in self._below(tree, "form") if any(one is button for one in node.walk()))
        self._send(tree, form, "submit")

    def escape(self, key: str) -> None:
        """Press Escape inside the element with a key."""
        tree = self.tree
        self._send(tree, next(node for node in tree.walk() if node.attributes.get("key") == key), "escape")

    # -- inside

    def _ready(self, name: str, able: Callable[[Node], list[Node]]) -> tuple[Node, Node]:
        """Give the page and the one element of a name on it, once that can be used: a person waits for it, too."""

        def look() -> tuple[Node, Node] | None:
            tree = self.tree
            named = [node for node in able(tree) if _name(node) == name]
            return (tree, named[0]) if len(named) == 1 and not named[0].attributes.get("disabled") else None

        found = self._until(look, f"there is not one {name!r} that can be pressed")
        assert found is not None
        return found

    def _until(self, condition: Callable[[], Found], trouble: str) -> Found:
        try:
            return until(condition)
        except AssertionError:
            raise AssertionError(f"{trouble}; there is\n{self.words}") from None

    @staticmethod
    def _below(tree: Node, tag: str) -> list[Node]:
        return [node for node in tree.walk() if node.tag == tag]

    def _field(self, tree: Node, label: str) -> Node:
        found = self._look_for(tree, label)
        assert found is not None, f"no field {label!r} on the page\n{self.words}"
        return found

    def _look_for(self, tree: Node, label: str) -> Node | None:
        for one in self._below(tree, "label"):
            if one.words == label:
                around = [node for node in one.walk() if node.tag in FIELDS]
                named = [
                    n
                    for n in tree.walk()
                    if n.tag in FIELDS and n.attributes.get("id", "") == one.attributes.get("for")
                ]
                return (around + named)[0]
        for node in tree.walk():
            if node.tag in FIELDS and node.attributes.get("aria-label") == label:
                return node
        return None

    def _enter(self, label: str, value: Any, event: str) -> None:
        self._until(lambda: self.has_field(label), f"there is no field {label!r}")
        tree = self.tree
        node = self._field(tree, label)
        self._typed[_scope(tree, node)[0], node.attributes["name"]] = value
        if event in node.attributes.get("on", {}):
            self._send(tree, node, event)

    def _send(self, tree: Node, node: Node, event: str) -> None:
        key, scope = _scope(tree, node)
        values = {}
        for one in scope.walk():
            if one.tag in FIELDS and "name" in one.attributes:
                name = one.attributes["name"]
                values[name] = self._typed.get((key, name), _initial(one))
        self.panel._heard(self.panel, {"action": node.attributes["on"][event], "values": values}, [])
        if self.panel._drawing.acquire(timeout=PATIENCE):  # a thread that draws meanwhile draws what this changed, too
            self.panel._drawing.release()

    def _receive(self, message: Any, buffers: Any = None) -> None:
        if message.get("secret") is not None:
            self.secrets.pop(message["secret"], None)
            if message["value"] is not None:
                self.secrets[message["secret"]] = message["value"]


def _node(wire: Any) -> Node:
    tag, attributes, children = wire
    return Node(tag, attributes, tuple(one if isinstance(one, str) else _node(one) for one in children))


def _name(node: Node) -> str:
    return str(node.attributes.get("aria-label", node.words))


def _path(tree: Node, wanted: Node) -> Iterator[Node]:
    """Give the elements from the root to one, both included."""
    if tree is wanted:
        yield tree
        return
    for child in tree.children:
        if isinstance(child, Node) and any(one is wanted for one in child.walk()):
            yield tree
            yield from _path(child, wanted)


def _scope(tree: Node, node: Node) -> tuple[str, Node]:
    """Give the form, or whatever holds the fields, around an element, and its key."""
    path = list(_path(tree, node))
    around = [one for one in path if one.tag == "form" or "data-fields" in one.attributes] or [tree]
    key = " / ".join(
        str(one.attributes["key"]) for one in path[: path.index(around[-1]) + 1] if "key" in one.attributes
    )
    return key, around[-1]


def _initial(node: Node) -> Any:
    if node.attributes.get("type") == "checkbox":
        return bool(node.attributes.get("checked"))
    first = next((one.attributes["value"] for one in node.walk() if one.tag == "option"), "")
    return node.attributes.get("value", first)
