"""Directives that generate the reference of magics, settings and errors from the code.

Each directive has no arguments: its content is Markdown, parsed in place.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.nodes import make_id
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pipemagic import errors
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option, Positional
from pipemagic.notebook.commands import GROUPS
from pipemagic.notebook.commands.base import Command
from pipemagic.notebook.commands.help import topics
from pipemagic.notebook.commands.pages import error_texts, meaning_of
from pipemagic.notebook.magics import PipeMagics
from pipemagic.notebook.settings import PipeMagic, with_plugins
from pipemagic.notebook.sql_options import PARAMETERS, RESULTS, RUNNING, sql_usage
from pipemagic.teaching import magics as teaching

PACKAGE = Path(errors.__file__).parent
REFERENCE = Path(__file__).parents[1] / "reference"
Lines = Iterator[str]
WIDTH = 80  # characters of a line of code


# -- Markdown


def code(text: str) -> str:
    """Return text as code in a cell of a table."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    """Yield a table, followed by an empty line."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def prose(text: str) -> str:
    """Return text of the code as Markdown: options, magics, variables and JSON become code, the rest stays as it is."""
    marked = re.sub(r"(?<![\w`%-])(--[a-z][\w-]*|%%?[a-z]{3,}|PIPEMAGIC_[A-Z_]+|'\{.*?\}')", r"`\1`", text)
    return re.sub(r"([<>*\[\]$])", r"\\\1", marked)


def block(lines: Sequence[str], language: str = "ipython") -> Lines:
    """Yield a fence."""
    yield from (f"```{language}", *lines, "```", "")


def argument_rows(accepted: Sequence[Positional | Option]) -> Iterator[tuple[str, str]]:
    """Yield label and help of arguments."""
    for argument in accepted:
        label = argument.name if isinstance(argument, Positional) else argument.label
        notes = [f"one of {', '.join(map(code, argument.choices))}"] if argument.choices else []
        notes += ["required"] if isinstance(argument, Option) and argument.required else []
        notes += ["optional"] if isinstance(argument, Positional) and argument.optional else []
        notes += ["may be repeated"] if argument.many else []
        yield code(label), prose(argument.help) + (f" ({'; '.join(notes)})" if notes else "")


def examples(magic: Callable[..., object]) -> Iterator[list[str]]:
    """Yield the cells in the docstring of a magic: its indented blocks, at each magic for a cell."""
    doc = inspect.getdoc(magic) or ""
    for match in re.finditer(r"(?:^    .*\n?)+", doc, re.MULTILINE):
        cell: list[str] = []
        for line in match[0].splitlines():
            if line.startswith("    %%") and cell:
                yield cell
                cell = []
            cell.append(line[4:])
        yield cell


def usage_block(*usages: str) -> Lines:
    """Yield usage lines in a fence, broken between arguments so that a page shows all of them."""
    lines: list[str] = []
    for usage in usages:
        joined = re.sub(r"\[[^]]*\]", lambda argument: argument[0].replace(" ", "\0"), usage)
        wrapped = textwrap.wrap(joined, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        lines += ["", *(line.replace("\0", " ") for line in wrapped)]
    yield from block(lines[1:], "text")


# -- pages


def sql_page() -> Lines:
    """Yield the usage and the options of %%sql and %sql, and examples."""
    yield from ("## Usage", "")
    yield from usage_block(sql_usage(True), sql_usage(False))
    for title, options in (("Running", RUNNING), ("Parameters", PARAMETERS), ("Results", RESULTS)):
        yield from (f"## Options: {title.lower()}", "")
        yield from table(("Option", "Effect"), argument_rows(options))
    yield from ("## Examples", "")
    for cell in examples(PipeMagics.sql):
        yield from block(cell)


def exercises_page() -> Lines:
    """Yield usage, arguments and examples of the magics of exercises."""
    for marker, accepted in teaching.ARGUMENTS.items():
        yield from (f"## `{marker}`", "")
        yield from usage_block(arguments.usage_of(marker, accepted, (teaching.ON,)))
        yield from table(("Argument", "Meaning"), argument_rows((*accepted, teaching.ON)))
        magic = getattr(teaching.ExerciseMagics, marker.lstrip("%"))
        for cell in examples(magic):
            chosen = [line for line in cell if marker.startswith("%%") or re.match(rf"{marker}\b", line)]
            if chosen and re.match(rf"{marker}\b", chosen[0]):
                yield from block(chosen)


def commands_page() -> Lines:
    """Yield each command of %pipedb by group."""
    for group in GROUPS:
        yield from (f"## {group.title}", "")
        for command in group.commands:
            yield from command_lines(command)


def command_lines(command: Command) -> Lines:
    """Yield the section of a command."""
    yield from (f"### `{command.name}`", "", prose(f"{command.help}."), "")
    if (topic := topics().get(command.name)) is not None:
        yield from (prose(" ".join(topic.text.split("\n\n")[0].split())), "")
    yield from usage_block(command.usage)
    if accepted := (*command.positionals, *command.options):
        yield from table(("Argument", "Meaning"), argument_rows(accepted))
    yield from block(command.examples)


def settings_page() -> Lines:
    """Yield each setting."""
    rows = []
    for name, trait in sorted(with_plugins(PipeMagic).class_traits(config=True).items()):
        kind = ", ".join(map(code, trait.values)) if hasattr(trait, "values") else _KINDS[type(trait).__name__]
        rows.append((code(name), kind, code(repr(trait.default_value)), prose(str(trait.help))))
    yield from table(("Setting", "Type", "Default", "Meaning"), rows)


_KINDS = {"Bool": "true or false", "Int": "whole number", "Unicode": "text"}


def variables_page() -> Lines:
    """Yield each environment variable."""
    yield from table(("Variable", "Meaning"), ((code(name), text) for name, text in variable_meanings().items()))


def variable_meanings() -> dict[str, str]:
    """Return the meaning of environment variables, which variables.toml describes."""
    found: dict[str, str] = tomllib.loads((REFERENCE / "variables.toml").read_text("utf-8"))
    return found


_TITLES = {
    "client": ("Requests, results and loading", "The client raises these exceptions, in a notebook and in Python."),
    "notebook": ("Notebook and command line", "Magics, the session and the command line raise these exceptions."),
    "start": ("Start of the service", "`pipemagic serve` and `%pipedb connect` report these when the service starts."),
    "database": ("Database API", "The service sends these for SQL, in the result of a request or as its refusal."),
    "management": ("Management API", "The management API, uploads and exports send these."),
    "http": ("Any request to the service", "Both APIs send these with the HTTP status."),
    "sqlite": ("SQLite", "The code is SQLite's primary result code; `extended_code` is its extended one, if any."),
}
"""The title and the introduction of each group in error_codes.toml."""


def errors_page() -> Lines:
    """Yield each error code by group."""
    for group, codes in error_texts().items():
        yield from (f"## {_TITLES[group][0]}", "", _TITLES[group][1], "")
        yield from (f"{', '.join(f'[`{name}`](#{make_id(name)})' for name in codes)}.", "")
        for name, texts in codes.items():
            yield from error_lines(name, texts)


def error_lines(name: str, texts: Mapping[str, Any]) -> Lines:
    """Yield the section of an error code."""
    yield from (f"### `{name}`", "", meaning_of(name, texts), "")
    classes = [kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and name in codes_of(kind)]
    if classes:
        yield from (f"Raised as {', '.join(map(code, classes))}.", "")
    yield from ("Usual causes:", "", *(f"- {cause}" for cause in texts["causes"]), "")
    yield from (f"**What to do:** {texts['advice']}", "")


def codes_of(kind: type) -> set[str | None]:
    """Return the codes that a class of exceptions defines."""
    return {vars(kind).get("code"), vars(kind).get("unchanged")}


PAGES = {
    "sql": sql_page, "exercises": exercises_page, "commands": commands_page, "settings": settings_page,
    "variables": variables_page, "errors": errors_page,
}  # fmt: skip
"""The content of each directive, by the end of its name: ``pipemagic-sql``."""


class Generated(SphinxDirective):
    """Insert generated Markdown, with its headings as sections of the page."""

    def run(self) -> list[nodes.Node]:
        """Return the parsed content."""
        for path in (*PACKAGE.rglob("*.py"), *REFERENCE.glob("*.toml"), Path(__file__)):
            self.env.note_dependency(str(path))
        lines = StringList(list(PAGES[self.name.removeprefix("pipemagic-")]()), self.name)
        container = nodes.Element()
        self.state.nested_parse(lines, self.content_offset, container, match_titles=True)
        return container.children


def setup(app: Sphinx) -> dict[str, Any]:
    """Register a directive for each page."""
    for name in PAGES:
        app.add_directive(f"pipemagic-{name}", Generated)
    return {"parallel_read_safe": True}
