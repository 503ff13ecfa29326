"""Static forms of panels: HTML for saved notebooks and text for terminals, identical in every run."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar, TypeAlias

from IPython.core.getipython import get_ipython
from IPython.display import publish_display_data

from pipemagic.text import escape_controls, literal_html, text_table

STYLE = """\
.pipemagic-saved table { border-collapse: collapse; width: 100%; }
.pipemagic-saved table :is(th, td) { padding: 3px 12px 3px 0; text-align: left !important; vertical-align: baseline; }
.pipemagic-saved:has(.data) { overflow-x: auto; }
.pipemagic-saved table.data { table-layout: auto; width: auto; }
.pipemagic-saved table.data :is(th, td) { white-space: nowrap; }
.pipemagic-saved table .right { text-align: right !important; }
.pipemagic-saved h2 { font-size: 1.15em; margin: 0; }
div:has(> div .pm-live):not(:has(.pipemagic-saved)) + div:has(> div .pipemagic-saved):not(:has(.pm-live)),
.lm-Panel:has(> .lm-Panel):not(:has(.pm-live)):has(+ .lm-Panel > .jp-OutputArea-output .pipemagic-saved) {
  display: none;
}
.lm-Panel:has(> .jp-RenderedText, .jupyter-widgets-error-widget) + .lm-Panel > .jp-OutputArea-output
  .pipemagic-saved::before {
  content: "To use this panel, install anywidget in the environment of the Jupyter server, then reload the page.";
}
"""
"""The style of the HTML, which decides what is shown; the HTML follows the output with the live panel.

The live panel hides the static one. If there is no live panel, the static one hides what JupyterLab shows in its place:
"model not found" without its kernel, and an error for each component if JupyterLab lacks anywidget.
"""

IN_VSCODE = "__vsc_ipynb_file__"
"""The variable that VS Code's Jupyter extension sets in every kernel: the path of the notebook."""

WIDGET = "application/vnd.jupyter.widget-view+json"

INTERRUPTED = "KeyboardInterrupt: stopped waiting for the panel, which stays open"


@dataclass(frozen=True)
class TableBlock:
    """A table of texts; ``right`` is True for each column of data that is aligned at the right."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[bool] = ()


@dataclass(frozen=True)
class Picture:
    """An SVG, omitted from text."""

    svg: str


Block: TypeAlias = "str | TableBlock | Picture"


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """Return a panel as HTML, without a heading if it has no title."""
    content = "".join(map(_html, blocks))
    if not title:
        return content
    return f'<section aria-label="{escape(title)}"><h2>{escape(title)}</h2>{content}</section>'


def to_text(title: str, blocks: Sequence[Block]) -> str:
    """Return a panel as lines of text, with tables in aligned columns."""
    heading = [escape_controls(title)] if title else []
    return "\n".join([*heading, *(line.rstrip() for block in blocks for line in _lines(block))])


def page(sections: str) -> str:
    """Return sections with their style."""
    return literal_html(f'<div class="pipemagic-saved"><style>{STYLE}</style>{sections}</div>')


def _html(block: Block) -> str:
    match block:
        case TableBlock(headings, rows, right):
            head = _html_row("th", headings, right)
            body = "".join(f"<tr>{_html_row('td', row, right)}</tr>" for row in rows)
            return f"<table{' class=data' if right else ''}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        case Picture(svg):
            return re.sub("<title>[^<]*</title>", "", svg)  # in a notebook that is not trusted, all would be shown
    return f"<p>{escape(block)}</p>"


def _html_row(tag: str, cells: Sequence[str], right: Sequence[bool]) -> str:
    sides = zip(cells, right or [False] * len(cells), strict=True)
    return "".join(f"<{tag}{' class=right' if side else ''}>{escape(cell)}</{tag}>" for cell, side in sides)


def _lines(block: Block) -> list[str]:
    match block:
        case TableBlock(headings, rows, right):
            return [f"  {line}" for line in text_table([headings, *rows], right)]
        case Picture():
            return []
    return [escape_controls(block)]


class Displayable:
    """A widget that also has static forms: HTML for saved notebooks and text for terminals."""

    title: ClassVar[str] = ""
    model_id: str
    _is_saved = False  # whether the static form is an output of its own

    def sections(self) -> Sequence[tuple[str, Sequence[Block]]]:
        """Return the titles and contents for saved notebooks, identical in every run."""
        raise NotImplementedError

    def mount(self) -> None:
        """Start following changes."""
        raise NotImplementedError

    def unmount(self) -> None:
        """Stop following changes."""
        raise NotImplementedError

    def wait(self) -> None:
        """Wait for the first data, for a few seconds."""
        raise NotImplementedError

    def __str__(self) -> str:
        self.wait()
        return self.to_text()

    def __repr__(self) -> str:
        return f"<panel {self.title}>"

    def to_text(self) -> str:
        """Return the text for terminals, from the data read so far."""
        return "\n\n".join(to_text(*section) for section in self.sections())

    def to_html(self) -> str:
        """Return the static HTML."""
        return page("".join(to_html(*section) for section in self.sections()))

    def _ipython_display_(self, **_options: Any) -> None:
        """Display the live panel at once, and the static form when the first data have arrived.

        In VS Code, where no style hides the second output, both are one output.
        """
        shell = get_ipython()
        self.mount()
        if shell is None or getattr(shell, "kernel", None) is None:
            sys.stdout.write(f"{self}\n")
            self.unmount()
            return
        view = {WIDGET: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}}
        together = IN_VSCODE in shell.user_ns
        if not together:
            publish_display_data({**view, "text/plain": ""})  # type: ignore[no-untyped-call]
        try:
            self.wait()
        except KeyboardInterrupt as interrupt:
            interrupt._render_traceback_ = lambda: [INTERRUPTED]  # type: ignore[attr-defined]
            raise
        finally:
            self._publish(view if together else {})
            self._is_saved = not together

    def save_again(self) -> None:
        """Replace the static form that was displayed, as soon as the first data have arrived."""
        if self._is_saved:
            threading.Thread(target=self._save_again, name="pipemagic: static form", daemon=True).start()

    def _save_again(self) -> None:
        self.wait()
        self._publish({}, update=True)

    def _publish(self, view: Mapping[str, Any], *, update: bool = False) -> None:
        publish_display_data(  # type: ignore[no-untyped-call]
            {**view, "text/html": self.to_html(), "text/plain": self.to_text()},
            transient={"display_id": f"pipemagic-{self.model_id}"}, update=update,
        )  # fmt: skip
