"""The site builds without warnings, its pages load nothing from a network, and the reference is complete."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest
from public_names import INTERNAL, cli_commands, full_name, members, operations, public_objects, resolve

import pipemagic
from pipemagic.notebook.commands import COMMANDS
from pipemagic.notebook.commands.pages import error_texts, meaning_of
from pipemagic.notebook.magics import PipeMagics
from pipemagic.notebook.settings import PipeMagic, with_plugins
from pipemagic.notebook.sql_options import OPTIONS
from pipemagic.service.api.openapi import DATABASE_API, PATH, description
from pipemagic.teaching import magics as teaching

pytest.importorskip("sphinx", reason="Sphinx is not installed")
from bs4 import BeautifulSoup
from docutils.nodes import make_id

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
WARNINGS = "warnings.txt"
LOOK = Path(__file__).parents[1] / "browser" / "look_of_site.py"
LOADED = ("src", "srcset", "poster", "data")
"""Attributes whose address a browser loads, with `href` of links in the head."""
NOT_LOADED = {"canonical", "index", "search", "next", "prev", "genindex"}
"""Relations of links that a browser does not load."""
IN_CSS = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; return the folder of its pages. A file beside it, `WARNINGS`, has the warnings of the build.

    PIPEMAGIC_SITE names a folder that keeps the pages.
    """
    html = Path(os.environ.get("PIPEMAGIC_SITE") or tmp_path_factory.mktemp("site") / "html")
    html.parent.mkdir(parents=True, exist_ok=True)
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-E", "--keep-going", "-w", str(html.parent / WARNINGS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    subprocess.run([*sphinx, "docs", str(html)], cwd=ROOT, env=environment, timeout=580, check=True)
    return html


def loads(html: str) -> list[str]:
    """Return the addresses that a browser loads for a page."""
    page = BeautifulSoup(html, "html.parser")
    found = [str(tag[name]) for name in LOADED for tag in page.find_all(attrs={name: True})]
    found += [str(tag["href"]) for tag in page.find_all("link", href=True) if not NOT_LOADED & {*tag.get("rel", [])}]
    styles = [tag.get_text() for tag in page.find_all("style")]
    styles += [str(tag["style"]) for tag in page.find_all(style=True)]
    return found + [address for style in styles for address in IN_CSS.findall(style)]


def is_remote(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme not in ("", "data")


def test_the_build_has_no_warnings(site):
    assert (site.parent / WARNINGS).read_text("utf-8") == ""


@pytest.fixture(scope="module")
def loaded(site):
    """The addresses that a browser loads, by page."""
    return {page: loads(page.read_text("utf-8")) for page in site.rglob("*.html")}


def test_no_page_loads_anything_from_a_network(loaded):
    assert len(loaded) > 20
    remote = {page.name: [address for address in found if is_remote(address)] for page, found in loaded.items()}
    assert {page: found for page, found in remote.items() if found} == {}


def test_no_style_sheet_loads_anything_from_a_network(site):
    sheets = sorted(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert [match for match in IN_CSS.findall(sheet.read_text("utf-8")) if is_remote(match)] == [], sheet


def test_all_that_the_pages_load_exists(loaded):
    local = [(page, urlsplit(address)) for page, found in loaded.items() for address in found if not is_remote(address)]
    paths = {page.parent / unquote(address.path) for page, address in local if address.scheme != "data"}
    assert [path for path in paths if not path.exists()] == []


def test_pages_fit_narrow_windows_and_are_readable_in_light_and_dark_mode(site, chromium):
    command = [sys.executable, str(LOOK), chromium, str(site)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        '<img src="//example.org/a.png">',
        '<link rel="stylesheet" href="http://example.org/a.css">',
        "<style>@import 'https://example.org/a.css';</style>",
        '<p style="background: url(https://example.org/a.png)">',
    ],
)
def test_a_load_from_a_network_is_found(html):
    assert [is_remote(item) for item in loads(html)] == [True]


@pytest.mark.parametrize(
    "html", ['<a href="https://example.org">', '<link rel="canonical" href="https://example.org">']
)
def test_a_link_is_not_a_load(html):
    assert loads(html) == []


# -- the pages of the reference


@pytest.fixture(scope="module")
def page(site):
    """Return a function that parses the content of a page of the reference."""

    @cache
    def page(name):
        return BeautifulSoup((site / "reference" / f"{name}.html").read_text("utf-8"), "html.parser").article

    return page


def shown(text):
    """Return text as a page shows it: marks of code, links and headings are formatting."""
    return " ".join(re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text).replace("`", "").replace("¶", "").split())


EXERCISES = [argument for accepted in teaching.ARGUMENTS.values() for argument in (*accepted, teaching.ON)]
SETTINGS = with_plugins(PipeMagic).class_traits(config=True)
VARIABLES = tomllib.loads((REFERENCE / "variables.toml").read_text("utf-8"))
CODES = {code: texts for group in error_texts().values() for code, texts in group.items()}
EXPECTED = {
    "commands": [
        *(f"{option.label} {option.help}" for option in OPTIONS),
        *teaching.ARGUMENTS, *(argument.help for argument in EXERCISES),
    ] + [
        text
        for command in COMMANDS.values()
        for text in (
            f"{command.help}.", command.usage, *command.examples,
            *(argument.help for argument in (*command.positionals, *command.options)),
        )
    ] + [
        *(f"{trait.default_value!r} {trait.help}" for trait in SETTINGS.values()),
        *(f"{name} {meaning}" for name, meaning in VARIABLES.items()),
    ],
    "errors": [
        text
        for code, texts in CODES.items()
        for text in (f"{code} {meaning_of(code, texts)}", *texts["causes"], f"What to do: {texts['advice']}")
    ],
}  # fmt: skip
"""Texts that pages of the reference show."""


@pytest.mark.parametrize("name", EXPECTED)
def test_a_generated_page_shows_all_texts_of_the_code(page, name):
    text = shown(page(name).text)
    assert [expected for expected in EXPECTED[name] if shown(expected) not in text] == []


def test_every_magic_has_a_section(page):
    titles = " ".join(shown(title.text) for title in page("commands")("h2"))
    magics = {
        f"{mark}{name}"
        for group in (PipeMagics, teaching.ExerciseMagics)
        for mark, kind in (("%%", "cell"), ("%", "line"))
        for name in group.magics[kind]
    }
    assert len(magics) >= 6
    assert magics <= set(re.findall(r"%%?\w+", titles))


def test_every_command_and_option_is_on_the_page_as_help_shows_it(page):
    for path, command in cli_commands().items():
        section = page("commands").find("section", id=make_id(path))
        assert section is not None, path
        text = shown(section.text)
        context = click.Context(command, info_name=path, **command.context_settings)
        records = [option.get_help_record(context) for option in command.params if isinstance(option, click.Option)]
        expected = [" ".join(record) for record in records if record]
        assert [record for record in expected if shown(record) not in text] == [], path


def test_everything_public_is_on_the_page_with_a_text(page):
    entries = page("python").select("dl.py > dt[id]")
    ids = {str(tag["id"]) for tag in page("python").find_all(id=True)}
    places = {full_name(resolve(str(entry["id"]))): str(entry["id"]) for entry in reversed(entries)}
    public = public_objects(ROOT)
    assert sorted(set(public) - set(places)) == []
    assert set(INTERNAL) & set(places) == set()
    for name, value in public.items():
        if inspect.isclass(value):
            inherited = issubclass(value, pipemagic.PipemagicError)  # their methods are those of the base class
            own = vars(value) if inherited else members(value)
            assert {f"{places[name]}.{member}" for member in members(value) if member in own} <= ids, name
    described = [dt for dt in entries if "attribute" not in dt.parent["class"] and not dt["id"].endswith(".__init__")]
    assert [dt["id"] for dt in described if not dt.parent.dd.text.strip()] == []
    listed = re.findall(r"automodule:: (\S+)\n   :members: (.+)", (REFERENCE / "python.md").read_text("utf-8"))
    wanted = {f"{module}.{name}" for module, names in listed for name in names.split(", ")}
    assert wanted
    assert wanted <= ids


def test_every_operation_is_on_its_page_with_its_fields_and_an_example(page):
    without = set()
    for method, path, operation in operations():
        html = page("database-api" if operation["tags"] == [DATABASE_API] else "management-api")
        assert f"{method} {path}" in {tag.text for tag in html("code") if tag.find_parent("td") is None}
        sections = [tag for tag in html("section") if tag.find(["h2", "h3"]).text.startswith(f"{method} {path}¶")]
        without |= {path for section in sections if section.find("pre") is None}
        if "requestBody" in operation:
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            fields = description()["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
            assert set(fields) <= {tag.text for tag in html.select("td code")}, path
    assert without == {PATH, "/v2/organizations/{org}/invites/{email}"}  # which is always 404


def test_a_table_says_who_may_use_each_operation(page):
    """Its lines lead to the sections; paths of one section have the same permission."""
    html = page("management-api")
    lines = {line.td.text: line("td")[1].text for line in html.select("tr") if line.select("td a")}
    headings = {tag.find(["h2", "h3"]).text.strip("¶"): str(tag["id"]) for tag in html("section")}
    assert len(lines) > 50
    assert {headings[line] for line in lines} <= {str(tag["href"])[1:] for tag in html.select("td a")}
    for method, path, operation in operations():
        section = next((tag for tag in html("code") if tag.text == f"{method} {path}"), None)
        if operation["tags"] != [DATABASE_API]:
            heading = section if section.find_parent("td") else section.find_parent("section").find(["h2", "h3"])
            assert lines[heading.text.strip("¶")] == operation["x-permission"], path
