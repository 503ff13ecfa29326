"""Static forms of panels: HTML for saved notebooks and text for terminals, identical in every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from pipemagic.text import escape_controls, literal_html, text_table

STYLE = """\
.pipemagic-saved table { border-collapse: collapse; width: 100%; }
.pipemagic-saved table :is(th, td) { padding: 3px 12px 3px 0; text-align: left !important; vertical-align: baseline; }
.pipemagic-saved h2 { font-size: 1.15em; margin: 0; }
div:has(> div .pipemagic-panel):not(:has(.pipemagic-saved)) +
  div:has(> div .pipemagic-saved):not(:has(.pipemagic-panel)) { display: none; }
"""


@dataclass(frozen=True)
class TableBlock:
    """A table of texts."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Picture:
    """An SVG, omitted from text."""

    svg: str


Block: TypeAlias = "str | TableBlock | Picture"


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """Return a panel as HTML."""
    return f'<section aria-label="{escape(title)}"><h2>{escape(title)}</h2>{"".join(map(_html, blocks))}</section>'


def to_text(title: str, blocks: Sequence[Block]) -> str:
    """Return a panel as lines of text, with tables in aligned columns."""
    return "\n".join([escape_controls(title), *(line.rstrip() for block in blocks for line in _lines(block))])


def page(sections: str) -> str:
    """Return sections with their style."""
    return literal_html(f'<div class="pipemagic-saved"><style>{STYLE}</style>{sections}</div>')


def _html(block: Block) -> str:
    match block:
        case TableBlock(headings, rows):
            head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
            body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
            return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        case Picture(svg):
            return svg
    return f"<p>{escape(block)}</p>"


def _lines(block: Block) -> list[str]:
    match block:
        case TableBlock(headings, rows):
            return [f"  {line}" for line in text_table([headings, *rows])]
        case Picture():
            return []
    return [escape_controls(block)]
