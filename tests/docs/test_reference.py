"""The reference has every command, option, public function and endpoint, and each is described."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import pytest
from bs4 import BeautifulSoup
from docutils.nodes import make_id

import pipemagic
import pipemagic.cli
import pipemagic.panels
import pipemagic.service.api
from pipemagic.service.api.openapi import DATABASE_API, PATH, description


def commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    """Return the command and those below it, with their paths."""
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += commands(below, f"{path} {name}")
    return found


COMMANDS = dict(commands(pipemagic.cli.pipemagic, "pipemagic"))
PYTHON = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
PUBLIC = [name for name in pipemagic.__all__ if name != "__version__"]
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in description()["paths"].items()
    for method, operation in methods.items()
]


def options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


def members(kind: type) -> dict[str, object]:
    """Return the public methods and properties of a class, with those of its bases in pipemagic."""
    own = [vars(base) for base in reversed(kind.__mro__) if base.__module__.startswith("pipemagic")]
    found = {name: value for names in own for name, value in names.items() if not name.startswith("_")}
    return {
        name: value
        for name, value in found.items()
        if inspect.isroutine(value) or isinstance(value, property) or hasattr(value, "func")
    }


def documented(value: object) -> bool:
    return bool((getattr(value, "__doc__", None) or "").strip())


@pytest.fixture(scope="module")
def page(site):
    """Return a function that parses a page of the reference."""
    return lambda name: BeautifulSoup((site / "reference" / f"{name}.html").read_text("utf-8"), "html.parser")


# -- the command line


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_has_help(path):
    assert COMMANDS[path].help
    assert [one.opts for one in options(COMMANDS[path]) if not one.help] == []


def test_every_command_and_option_is_on_the_page(page):
    html = page("command-line")
    for path, command in COMMANDS.items():
        section = html.find("section", id=make_id(path))
        assert section is not None, path
        names = {
            name for term in section.find_all("dt", recursive=True) for name in re.findall(r"--?[\w-]+", term.text)
        }
        assert {name for one in options(command) for name in one.opts} <= names, path
        if path != "pipemagic":
            assert section.find(["h2", "h3", "h4", "h5"]).code.text == path


# -- Python


@pytest.mark.parametrize("name", PUBLIC)
def test_everything_public_has_a_docstring(name):
    value = getattr(pipemagic, name)
    assert documented(value)
    if inspect.isclass(value):
        assert [member for member, one in members(value).items() if not documented(one)] == []


@pytest.mark.parametrize("name", pipemagic.panels.__all__)
def test_every_function_of_panels_has_a_docstring(name):
    assert documented(getattr(pipemagic.panels, name))


def test_everything_public_is_on_the_page(page):
    ids = {str(tag["id"]) for tag in page("python").find_all(id=True)}
    for name in PUBLIC:
        value = getattr(pipemagic, name)
        places = {f"pipemagic.{name}", f"pipemagic.errors.{name}", f"module-pipemagic.{name}"} & ids
        assert places, name
        if inspect.isclass(value):
            (place,) = places
            inherited = issubclass(value, pipemagic.PipemagicError)  # their methods are those of the base class
            own = vars(value) if inherited else members(value)
            assert {f"{place}.{one}" for one in members(value) if one in own} <= ids, name
    assert {f"pipemagic.panels.{name}" for name in pipemagic.panels.__all__} <= ids


def test_every_entry_of_the_page_has_a_text(page):
    """Sphinx lists a function without a docstring, but no text."""
    html = page("python")
    entries = html.select("dl.py > dt[id]")
    assert len(entries) > 150
    described = [dt for dt in entries if "attribute" not in dt.parent["class"] and not dt["id"].endswith(".__init__")]
    assert [dt["id"] for dt in described if not dt.parent.dd.text.strip()] == []


def test_the_members_that_the_source_of_the_page_names_are_on_it(page):
    ids = {str(tag["id"]) for tag in page("python").find_all(id=True)}
    found = re.findall(r"automodule:: (\S+)\n   :members: (.+)", PYTHON.read_text("utf-8"))
    assert len(found) == 2
    assert [
        f"{module}.{name}" for module, names in found for name in names.split(", ") if f"{module}.{name}" not in ids
    ] == []


# -- both APIs


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_every_operation_is_described(method, path, operation):
    assert operation["summary"], (method, path)
    assert operation["tags"] == [DATABASE_API] or operation["description"]


def test_every_operation_is_on_its_page(page):
    shown = {
        name: {tag.text for tag in page(f"{name}-api").find_all("code")} for name in ("management", "database")
    }  # fmt: skip
    for method, path, operation in OPERATIONS:
        name = "database" if operation["tags"] == [DATABASE_API] else "management"
        assert f"{method} {path}" in shown[name]


def test_every_operation_has_an_example(page):
    sections = {
        section.find(re.compile("h[23]")).code.text: section
        for name in ("management", "database")
        for section in page(f"{name}-api").find_all("section")
        if section.find(re.compile("h[23]")).code is not None
    }
    assert f"GET {PATH}" in sections
    without = {title for title, section in sections.items() if section.find("pre") is None}
    assert without == {f"GET {PATH}"}


def test_every_field_of_a_body_is_on_the_page(page):
    texts = {name: {tag.text for tag in page(f"{name}-api").select("td code")} for name in ("management", "database")}
    schemas = description()["components"]["schemas"]
    for _, path, operation in OPERATIONS:
        if "requestBody" in operation:
            name = "database" if operation["tags"] == [DATABASE_API] else "management"
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            fields = schemas[reference.rpartition("/")[2]]["properties"]
            assert set(fields) <= texts[name], path
