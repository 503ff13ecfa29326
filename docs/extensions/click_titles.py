"""Make the page of the command line, which sphinx-click generates, easier to scan, with the texts of ``--help``."""

from __future__ import annotations

from typing import Any

import click
from docutils import nodes


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""
    app.connect("doctree-read", _name_commands, priority=100)  # before the table of contents is made
    app.connect("sphinx-click-process-arguments", lambda _app, _context, lines: lines.clear())  # the usage has them
    app.connect("sphinx-click-process-options", _write_options)
    return {"parallel_read_safe": True}


def _write_options(_app: Any, context: click.Context, lines: list[str]) -> None:
    """Replace the options by those of ``--help``: sphinx-click omits defaults that the context shows, and ranges."""
    command = context.command
    shown = click.Context(command, parent=context.parent, info_name=context.info_name, **command.context_settings)
    records = [option.get_help_record(shown) for option in command.params if isinstance(option, click.Option)]
    lines[:] = [
        line
        for names, text in filter(None, records)
        for line in (f".. option:: {names}", "", f"   {text.replace('`', '``')}", "")
    ]


def _name_commands(app: Any, doctree: nodes.document) -> None:
    """Use the whole command as its heading, and leave out headings that each command would repeat."""
    if app.env.docname != "reference/command-line":
        return
    for section in doctree.findall(nodes.section):
        names = section.get("names", [])
        if not names or names[0].split()[0] != "pipemagic":
            continue
        title = section.next_node(nodes.title)
        title.children = [nodes.literal(names[0], names[0])]
        for child in list(section.children):
            if isinstance(child, nodes.rubric) and child.astext() in ("Usage", "Options"):
                section.remove(child)
