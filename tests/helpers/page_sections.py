"""The examples in a section of a page."""

from __future__ import annotations

from pathlib import Path

from page_examples import Block, blocks


def section(page: Path, title: str) -> list[Block]:
    """Return the fences, comments and lines below a heading, up to the next heading of its level."""
    found: list[Block] = []
    inside = False
    for block in blocks(page):
        if block.kind == "" and block.text.startswith("## "):
            inside = block.text == f"## {title}"
        elif inside:
            found.append(block)
    assert found, f"{page.name} has no section {title}"
    return found


def fences(page: Path, title: str, kind: str) -> list[str]:
    """Return the texts of the fences of a kind in a section."""
    return [block.text for block in section(page, title) if block.kind == kind]
