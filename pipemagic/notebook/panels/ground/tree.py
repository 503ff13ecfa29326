"""What a panel shows, as plain data: a tree of HTML elements that knows nothing of browsers or widgets.

One tree has three faces: `faces.html` and `faces.text` write it for notebooks without a kernel and for terminals, and
panel.js draws it in a page. Texts stay texts on the whole way, so nothing in them is ever read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Child: TypeAlias = "Node | str | Iterable[Child] | None"

LINKS = {"href", "src", "action", "formaction"}
SAFE = ("http://", "https://", "#", "data:image/")

Action: TypeAlias = tuple[str, ...]
"""What is to be done when something is clicked or typed: the name of a method of the view, then its arguments."""


@dataclass(frozen=True)
class Node:
    """An element. Its attributes are those of HTML and SVG, and a few of ours.

    ``on``     maps events (click, submit, input, change, escape) to an `Action`;
    ``key``    names an element among its siblings, so that it stays the same one (focus, typed text) when others come
               and go; another key makes a new element: an empty form. Where only the number at the key's end is
               another one, the empty form gets what was typed on since its forerunner was sent;
    ``keep``   has a page hold an element with a key while it is left out, with what was typed there;
    ``focus``  moves the focus here when the element appears, and back to where it was when it goes;
    ``copy``   is the text that a click puts into the clipboard;
    ``secret`` is the name of a secret that the page holds: it draws dots here, or the value when people want to see it;
    ``show``   is the name of one, too: the page makes this the button that shows and hides it, and writes the words;
    ``live``   marks what differs from run to run or needs a kernel: the saved faces leave it out;
    ``until``  (with ``of``, both seconds; Unix time and a length) makes the element a bar that runs down by itself;
    ``since``  (Unix seconds) makes the element say how long ago that was, by itself.
    """

    tag: str
    attributes: Mapping[str, Any]
    children: tuple[Node | str, ...]

    def wire(self) -> list[Any]:
        """Give the tree as JSON can hold it: [tag, attributes, children]."""
        return [self.tag, dict(self.attributes), [c if isinstance(c, str) else c.wire() for c in self.children]]

    def walk(self) -> Iterator[Node]:
        """Give this element and all below it, in the order of the page."""
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    @property
    def words(self) -> str:
        """All text in it."""
        return "".join(child if isinstance(child, str) else child.words for child in self.children)


def h(tag: str, *children: Child, **attributes: Any) -> Node:
    """Give an element; None among the children and attributes is left out, ``_`` in names stands for ``-``."""
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    kept = {name: _whole(value) for name, value in named.items() if value is not None and value is not False}
    for name, value in kept.items():
        if name.startswith("on") and name != "on":
            raise ValueError(f"{name} would run code in the page: use on={{...}}")
        if name in LINKS and not str(value).startswith(SAFE):
            raise ValueError(f"{name}={value!r} is no address that may be followed")
    return Node(tag, kept, tuple(_flat(children)))


def _flat(children: Iterable[Child]) -> Iterator[Node | str]:
    for child in children:
        if isinstance(child, Node):
            yield child
        elif isinstance(child, str):
            yield _whole(child)
        elif child is not None:
            yield from _flat(child)


def _whole(value: Any) -> Any:
    """Replace halves of characters (lone surrogates): no message to a page and no saved notebook can hold them."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_whole(one) for one in value]
        case dict():
            return {name: _whole(one) for name, one in value.items()}
    return value
