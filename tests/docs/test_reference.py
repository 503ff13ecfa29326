"""The reference has every command, option, public function and endpoint, and each is described."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import pytest
from bs4 import BeautifulSoup
from docutils.nodes import make_id
from public_names import INTERNAL, full_name, members, names_in_code, public_objects, resolve, returned

import pipemagic
import pipemagic.cli
import pipemagic.service.api
import pipemagic.session
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
PUBLIC = public_objects(PYTHON.parents[2])
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in description()["paths"].items()
    for method, operation in methods.items()
]


def options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


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


@pytest.mark.parametrize("path", ["pipemagic serve", "pipemagic class serve", "pipemagic exercises grade"])
def test_options_on_the_page_have_the_defaults_and_placeholders_of_help(page, path):
    section = page("command-line").find("section", id=make_id(path))
    shown = " ".join(section.text.replace("¶", " ").split())
    context = click.Context(COMMANDS[path], info_name=path, **COMMANDS[path].context_settings)
    records = [one.get_help_record(context) for one in options(COMMANDS[path])]
    assert any("[default: " in text for _, text in records)
    for names, text in records:
        assert " ".join(f"{names} {text}".replace("`", "").split()) in shown


# -- Python


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_everything_public_has_a_docstring(name):
    value = PUBLIC[name]
    assert documented(value)
    if inspect.isclass(value):
        assert [member for member, one in members(value).items() if not documented(one)] == []


@pytest.fixture(scope="module")
def places(page):
    """Return the places of classes and functions on the page by full name."""
    ids = [str(tag["id"]) for tag in page("python").select("dl.py > dt[id]")]
    return {full_name(resolve(place)): place for place in reversed(ids)}


def test_everything_public_is_on_the_page(page, places):
    assert sorted(set(PUBLIC) - set(places)) == []
    ids = {str(tag["id"]) for tag in page("python").find_all(id=True)}
    for name, value in PUBLIC.items():
        if inspect.isclass(value):
            inherited = issubclass(value, pipemagic.PipemagicError)  # their methods are those of the base class
            own = vars(value) if inherited else members(value)
            assert {f"{places[name]}.{one}" for one in members(value) if one in own} <= ids, name


def test_what_is_public_follows_from_examples_and_results():
    code = ["%load_ext pipemagic", "from pipemagic import launcher as here\nx = here.find()\nimport json\njson.loads"]
    assert list(names_in_code(code)) == ["pipemagic.launcher.find"]
    assert {
        "pipemagic.client.database.connect",  # in __all__
        "pipemagic.errors.LoadError",
        "pipemagic.panels.everything",  # in __all__ of a module in it
        "pipemagic.explore.diff.diff",  # an example imports it
        "pipemagic.explore.plots.histogram",  # a text names its module
        "pipemagic.launcher.LocalService",  # the result of a function in an example
        "pipemagic.session.results.CellResult",  # in __all__ of a package from which an example imports
    } <= set(PUBLIC)


def test_internal_classes_are_results_of_public_functions(places):
    known = {full_name(one) for value in PUBLIC.values() for one in returned(value)}
    known |= {full_name(getattr(pipemagic.session, name)) for name in pipemagic.session.__all__}
    assert set(INTERNAL) <= known
    assert set(INTERNAL) & set(places) == set()


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
    assert len(found) == 3
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
