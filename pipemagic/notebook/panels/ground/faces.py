"""The faces of a panel that need no kernel: escaped HTML for saved notebooks, text for terminals.

Both leave out what acts (there is nothing to act on) and what is ``live``, so that they are the same in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from pipemagic.notebook.panels.ground.tree import Node
from pipemagic.svg import printable

ACTING = {"button", "form", "input", "select", "textarea", "label", "dialog"}
BLOCKS = {"section", "div", "p", "ul", "li", "h2", "h3", "h4", "header", "footer", "nav", "details"}
PICTURES = {"svg", "figure"}
OURS = {"on", "key", "keep", "focus", "copy", "secret", "live", "until", "of", "since"}
IDS = {"id", "for", "aria-controls", "aria-describedby", "aria-labelledby"}
GAP = "  "


def html(node: Node) -> str:
    """Write a tree as HTML; '' where nothing of it is left.

    Titles in pictures go, too: where pictures are not trusted, only the texts in them are shown, one after the other.
    """
    if _is_left_out(node) or node.tag == "title":
        return ""
    given = "".join(
        f" {name}" if value is True else f' {name}="{escape(str(value))}"'
        for name, value in node.attributes.items()
        if name not in OURS and not (name in IDS and str(value).startswith("@"))
    )
    inside = "".join(escape(child, quote=False) if isinstance(child, str) else html(child) for child in node.children)
    return f"<{node.tag}{given}>{inside}</{node.tag}>"


def text(node: Node) -> str:
    """Write a tree as lines of text: tables in columns, a line for each paragraph, heading and item."""
    return "\n".join(line.rstrip() for line in _lines(node))


def _is_left_out(node: Node) -> bool:
    return node.tag in ACTING or "live" in node.attributes


def _lines(node: Node) -> Iterator[str]:
    if _is_left_out(node) or node.tag in PICTURES:
        return
    if node.tag == "table":
        yield from _table(node)
        return
    line = ""
    for child in node.children:
        if isinstance(child, Node) and (child.tag in BLOCKS | PICTURES or child.tag == "table"):
            if line.strip():
                yield line
            line = ""
            yield from _lines(child)
        else:
            line += _words(child)
    if line.strip():
        yield line


def _table(node: Node) -> Iterator[str]:
    rows = [
        [_words(cell).strip() for cell in row.children if isinstance(cell, Node) and not _is_left_out(cell)]
        for row in node.walk()
        if row.tag == "tr" and not _is_left_out(row)
    ]
    widths = [
        max(len(row[place]) for row in rows if place < len(row)) for place in range(max(map(len, rows), default=0))
    ]
    for row in rows:
        yield GAP + GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))


def _words(node: Node | str) -> str:
    if isinstance(node, str):
        return printable(node)
    return "" if _is_left_out(node) or node.tag == "svg" else "".join(map(_words, node.children))
