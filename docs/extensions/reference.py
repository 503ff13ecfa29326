"""Generate the reference from the code: a comment ``<!-- generated: NAME -->`` of a page becomes Markdown."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from api_examples import examples as api_examples
from docutils.nodes import make_id
from sphinx.application import Sphinx

from pipemagic import cli, errors
from pipemagic.notebook.arguments import Option, Positional, usage_of
from pipemagic.notebook.commands import GROUPS
from pipemagic.notebook.commands.help import topics
from pipemagic.notebook.commands.pages import error_texts, meaning_of
from pipemagic.notebook.magics import PipeMagics
from pipemagic.notebook.settings import PipeMagic, with_plugins
from pipemagic.notebook.sql_options import PARAMETERS, RESULTS, RUNNING, sql_usage
from pipemagic.service.api.openapi import DATABASE_API, description
from pipemagic.teaching import magics as teaching

HERE, PACKAGE = Path(__file__).parent, Path(errors.__file__).parent
PLACE = re.compile(r"^<!-- generated: (\w+) ?(\w*) -->$", re.MULTILINE)
WIDTH = 88  # characters of a line in a fence
Lines = Iterator[str]


# -- Markdown


def code(text: str) -> str:
    """Return text as code in a cell of a table."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def table(head: str, rows: Iterable[Sequence[str]]) -> Lines:
    """Yield a table with these columns, which blanks separate, and an empty line; nothing without rows."""
    lines = [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
    if lines:
        columns = head.split()
        yield from (f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *(f"| {line} |" for line in lines), "")


def prose(text: str) -> str:
    """Return text of the code as Markdown: options, magics, variables and JSON become code, the rest stays as it is."""
    marked = re.sub(r"(?<![\w`%-])(--[a-z][\w-]*|%%?[a-z]{3,}|PIPEMAGIC_[A-Z_]+|'\{.*?\}')", r"`\1`", text)
    return re.sub(r"([<>*\[\]$])", r"\\\1", re.sub(r"``([^`]+)``", r"`\1`", marked))


def block(lines: Iterable[str], language: str = "ipython") -> Lines:
    """Yield a fence."""
    yield from (f"```{language}", *lines, "```", "")


def usage_block(*usages: str) -> Lines:
    """Yield usage lines in a fence, broken between arguments so that a page shows all of them."""
    for usage in usages:
        joined = re.sub(r"\[[^]]*\]", lambda argument: argument[0].replace(" ", "\0"), usage)
        wrapped = textwrap.wrap(joined, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        yield from block((line.replace("\0", " ") for line in wrapped), "text")


def argument_rows(accepted: Iterable[Positional | Option]) -> Iterator[tuple[str, str]]:
    """Yield label and help of arguments of a magic."""
    for argument in accepted:
        is_option = isinstance(argument, Option)
        notes = [f"one of {', '.join(map(code, argument.choices))}"] if argument.choices else []
        notes += ["required"] if is_option and argument.required else []
        notes += ["optional"] if not is_option and argument.optional else []
        notes += ["may be repeated"] if argument.many else []
        label = argument.label if is_option else argument.name
        yield code(label), prose(argument.help) + (f" ({'; '.join(notes)})" if notes else "")


def examples(magic: Callable[..., object], marker: str) -> Lines:
    """Yield the cells in the docstring of a magic that begin with its marker: its indented blocks, at each magic."""
    for match in re.finditer(r"(?:^    .*\n?)+", inspect.getdoc(magic) or "", re.MULTILINE):
        for cell in re.split(r"\n(?=%%)", textwrap.dedent(match[0]).rstrip()):
            if re.match(rf"{marker}\b", cell):
                yield from block(cell.splitlines())


# -- pages


def sql_page() -> Lines:
    """Yield the usage and the options of %%sql and %sql, and examples."""
    yield from usage_block(sql_usage(True), sql_usage(False))
    for title, options in (("Running", RUNNING), ("Parameters", PARAMETERS), ("Results", RESULTS)):
        yield from (f"### {title}", "", *table("Option Effect", argument_rows(options)))
    yield from ("### Examples", "", *examples(PipeMagics.sql, "%%?sql"))


def exercises_page() -> Lines:
    """Yield usage, arguments and examples of the magics of exercises."""
    for marker, accepted in teaching.ARGUMENTS.items():
        yield from (f"## `{marker}`", "", *usage_block(usage_of(marker, accepted, (teaching.ON,))))
        yield from table("Argument Meaning", argument_rows((*accepted, teaching.ON)))
        yield from examples(getattr(teaching.ExerciseMagics, marker.lstrip("%")), marker)


def commands_page() -> Lines:
    """Yield each command of %pipedb by group."""
    for group in GROUPS:
        yield from (f"## `%pipedb`: {group.title}", "")
        for command in group.commands:
            topic = topics().get(command.name)
            about = " ".join(topic.text.split("\n\n")[0].split()) if topic else ""
            yield from (f"### `{command.name}`", "", prose(f"{command.help}."), "", prose(about), "")
            yield from usage_block(command.usage)
            yield from table("Argument Meaning", argument_rows((*command.positionals, *command.options)))
            yield from block(command.examples)


def cli_page(
    command: click.Command = cli.pipemagic, parent: click.Context | None = None, name: str = "pipemagic"
) -> Lines:
    """Yield a command of the command line and those below it, with the texts of ``--help``."""
    context = click.Context(command, parent, info_name=name, **command.context_settings)
    help_text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    yield from (f"{'###' if parent else '##'} `{context.command_path}`", "", prose(help_text), "")
    if not isinstance(command, click.Group):
        yield from usage_block(context.get_usage().removeprefix("Usage: "))
    records = [option.get_help_record(context) for option in command.params if isinstance(option, click.Option)]
    yield from table("Option Meaning", ((code(record[0]), prose(record[1])) for record in records if record))
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            yield from cli_page(found, context, child) if found and not found.hidden else ()


def settings_page() -> Lines:
    """Yield each setting."""
    kinds = {"Bool": "true or false", "Int": "whole number", "Unicode": "text"}
    yield from table("Setting Type Default Meaning", (
        (code(name), ", ".join(map(code, trait.values)) if hasattr(trait, "values") else kinds[type(trait).__name__],
         code(repr(trait.default_value)), prose(str(trait.help)))
        for name, trait in sorted(with_plugins(PipeMagic).class_traits(config=True).items())
    ))  # fmt: skip


def variables_page() -> Lines:
    """Yield each environment variable, which variables.toml describes."""
    meanings = tomllib.loads((HERE.parent / "reference" / "variables.toml").read_text("utf-8"))
    yield from table("Variable Meaning", ((code(name), text) for name, text in meanings.items()))


def errors_page(group: str) -> Lines:
    """Yield each error code of a group in error_codes.toml."""
    codes = error_texts()[group]
    yield from (f"{', '.join(f'[`{name}`](#{make_id(name)})' for name in codes)}.", "")
    for name, texts in codes.items():
        yield from (f"### `{name}`", "", meaning_of(name, texts), "")
        classes = [
            kind.__name__ for kind in vars(errors).values()
            if isinstance(kind, type) and name in (vars(kind).get("code"), vars(kind).get("unchanged"))
        ]  # fmt: skip
        yield from (f"Raised as {', '.join(map(code, classes))}.", "") if classes else ()
        yield from ("Usual causes:", "", *(f"- {cause}" for cause in texts["causes"]), "")
        yield from (f"**What to do:** {texts['advice']}", "")


# -- both HTTP APIs, from their OpenAPI description


def api_page(tag: str) -> Lines:
    """Yield who may use the endpoints with a tag, and a section with an example for each; its paths share a section."""
    found: dict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = {}
    for path, methods in description()["paths"].items():
        for method, operation in methods.items():
            if operation["tags"] == [tag]:
                found.setdefault((method.upper(), operation["summary"]), []).append((path, operation))
    yield from table("Request Permission", (
        (f"[`{method} {path}`](#{make_id(f'{method} {path}')})", operation["x-permission"])
        for (method, _), ((path, operation), *_) in found.items() if tag != DATABASE_API
    ))  # fmt: skip
    for (method, summary), ((path, operation), *others) in found.items():
        yield from (f"### `{method} {path}`", "", prose(summary.rstrip(".") + "."), "")
        yield from (prose(operation.get("description", "")), "")
        yield from (f"The same: {', '.join(f'`{method} {other}`' for other, _ in others)}.", "") if others else ()
        yield from table("Parameter Type Meaning", (
            (code(parameter["name"]), type_of(parameter["schema"]), parameter.get("description", ""))
            for parameter in operation.get("parameters", []) if parameter["in"] != "path"
        ))  # fmt: skip
        if "requestBody" in operation:
            schema = resolved(operation["requestBody"]["content"]["application/json"]["schema"])
            required = schema.get("required", [])
            yield from (prose(schema.get("description", "")), "")
            yield from table("Field Type Required", (
                (code(name), type_of(field), "yes" if name in required else f"no{default(field)}")
                for name, field in schema["properties"].items()
            ))  # fmt: skip
        if example := api_examples().get((method, path)):
            sent = ["", *pretty(example.body)] if example.body else []
            yield from block([f"{method} {example.path}", *sent], "text")
            yield from block(pretty(example.response), "text") if example.response != "" else ()


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema, or the one to which it refers."""
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = description()["components"]["schemas"][name] if name else schema
    return found


def default(schema: dict[str, Any]) -> str:
    """Return the default of a field in words."""
    return "" if schema.get("default") is None else f", default {code(json.dumps(schema['default']))}"


def type_of(schema: dict[str, Any]) -> str:
    """Return a type in words; null is left out, since it is the same as a missing field."""
    if "discriminator" in schema:
        return f"objects with the `type` {', '.join(map(code, schema['discriminator']['mapping']))}"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(part) for part in schema["anyOf"] if part.get("type") != "null"))
    if "$ref" in schema:
        fields = resolved(schema).get("properties", {})
        return f"object: {', '.join(map(code, fields))}" if fields else type_of(resolved(schema))
    if "enum" in schema:
        return " or ".join(map(code, map(str, schema["enum"])))
    return (
        f"list of {type_of(schema['items'])}" if schema.get("type") == "array" else str(schema.get("type", "any value"))
    )


def pretty(value: Any) -> list[str]:
    """Return lines of JSON: one if it fits, otherwise with the inner levels indented; text stays as it is."""
    line = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return line.splitlines() if isinstance(value, str) or len(line) <= WIDTH else json.dumps(
        value, ensure_ascii=False, indent=2).splitlines()  # fmt: skip


# -- Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Fill the places of pages."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}


def fill(app: Sphinx, _page: str, source: list[str]) -> None:
    """Replace each place by the lines of the function of its name, which may have an argument."""
    if PLACE.search(source[0]):
        for path in (*PACKAGE.rglob("*.py"), *HERE.glob("*.*"), *HERE.parent.glob("reference/*.toml")):
            app.env.note_dependency(str(path))
    source[0] = PLACE.sub(lambda place: "\n".join(globals()[f"{place[1]}_page"](*filter(None, [place[2]]))), source[0])
