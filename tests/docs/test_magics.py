"""The reference of magics, settings and errors is complete, and the built pages show all of it."""

from __future__ import annotations

import ast
import html
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pandas
import pytest

import pipemagic
from pipemagic.explore import plots
from pipemagic.explore.profile import profile
from pipemagic.hrana.values import decode
from pipemagic.notebook import exercises
from pipemagic.notebook.commands import COMMANDS
from pipemagic.notebook.magics import PipeMagics
from pipemagic.notebook.settings import PipeMagic
from pipemagic.notebook.sql_options import OPTIONS
from pipemagic.service import server
from pipemagic.service.hosting import Hosting
from pipemagic.service.logs import AccessLog
from pipemagic.service.sqld import nodes
from pipemagic.service.transfer.dump import restore
from pipemagic.session import Session, guards, templates

ROOT = Path(__file__).parents[2]

pytest.importorskip("sphinx", reason="the extra docs is not installed")
sys.path.insert(0, str(ROOT / "docs" / "extensions"))

import error_sites  # noqa: E402
import magic_pages  # noqa: E402

CODES = error_sites.error_codes()
TEXTS = {name: texts for group in magic_pages.error_texts().values() for name, texts in group.items()}


def article_of(site, name):
    """Return the HTML of the content of a page of the reference."""
    return re.search(r"<article.*?</article>", (site / "reference" / f"{name}.html").read_text("utf-8"), re.DOTALL)[0]


def text_of(markup):
    """Return the text of HTML, with single blanks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


@pytest.fixture(scope="module")
def page_text(site):
    """The text of a page of the reference."""
    return lambda name: text_of(article_of(site, name))


def sections(site, name):
    """Return the text of each section of a page by the text of its heading."""
    parts = re.split(r"(?=<h[23]>)", article_of(site, name))[1:]
    return {text_of(re.match(r"<h[23]>(.*?)<a", part, re.DOTALL)[1]): text_of(part) for part in parts}


def shown(text):
    """Return the text as a page shows it: marks of code are formatting."""
    return " ".join(text.replace("`", "").split())


def test_every_magic_has_a_page(site):
    pages = [re.search(r"^# (.+)", path.read_text("utf-8"))[1] for path in (ROOT / "docs" / "reference").glob("*.md")]
    titles = " ".join(pages)
    magics = [f"{mark}{name}" for mark, kind in (("%%", "cell"), ("%", "line")) for name in PipeMagics.magics[kind]]
    assert len(magics) >= 6
    documented = {*sections(site, "exercises"), *re.findall(r"`(%%?\w+)`", titles)}
    assert set(magics) <= documented


def test_every_option_of_sql_has_help_on_the_page(page_text):
    text = page_text("sql")
    for option in OPTIONS:
        assert len(option.help) > 5, option.flag
        assert f"{option.label} {shown(option.help)}" in text, option.flag


def test_the_magics_of_exercises_are_on_the_page(site):
    found = sections(site, "exercises")
    for marker, accepted in exercises.ARGUMENTS.items():
        for argument in (*accepted, exercises.ON):
            assert len(argument.help) > 5, argument
            assert shown(argument.help) in found[marker], argument


def test_every_subcommand_has_a_section_with_its_help_arguments_and_examples(site):
    found = sections(site, "commands")
    assert len(COMMANDS) > 40
    for name, command in COMMANDS.items():
        assert len(command.help) > 5, name
        assert f"{shown(command.help)}. " in found[name], name
        assert command.usage in found[name], name
        for argument in (*command.positionals, *command.options):
            assert len(argument.help) > 5, argument
            assert shown(argument.help) in found[name], argument
        for example in command.examples:
            assert " ".join(example.split()) in found[name], example


def test_every_setting_has_help_on_the_page(page_text):
    text = page_text("settings")
    for name, trait in PipeMagic.class_own_traits(config=True).items():
        assert len(str(trait.help)) > 10, name
        row = re.escape(f"{trait.default_value!r} {shown(str(trait.help))}")
        assert re.search(rf" {name} .{{4,30}} {row}", text), name


OF_THE_SYSTEM = {"PATH", "NO_PROXY", "no_proxy"}


def environment_variables():
    """Return the names in the package that begin as pipemagic's variables do, and others that it reads."""
    found = set()
    for path in error_sites.PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(ast.Attribute(ast.Attribute(attr="environ"), "get"), [ast.Constant(value=name), *_]):
                    found.add(name)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"(?<![A-Z_])(?:PIPEMAGIC|TURSO)_[A-Z_]+", node.value))
    return found - OF_THE_SYSTEM


def test_every_environment_variable_has_a_meaning_and_is_on_the_page(page_text):
    meanings, text = magic_pages.variable_meanings(), page_text("settings")
    assert len(meanings) > 5
    assert set(meanings) == environment_variables()
    for name, meaning in meanings.items():
        assert len(meaning) > 20, name
        assert f"{name} {shown(meaning)}" in text, name


def test_the_texts_of_error_codes_are_those_of_the_codes_in_the_source():
    assert sorted(TEXTS) == sorted(CODES)
    assert len(TEXTS) == sum(len(group) for group in magic_pages.error_texts().values())


def test_the_source_is_searched_as_a_whole():
    """The codes that tests expect, and those of the exception classes, are found."""
    expected = {one.code for one in error_sites.exception_classes().values()}
    for path in (ROOT / "tests").rglob("*.py"):
        expected |= set(re.findall(r"""code(?:"\])? (?:==|!=) "([A-Z][A-Z_]{2,})\"""", path.read_text("utf-8")))
    foreign = {"SQLITE_UNKNOWN", "BY_COMPARISON"}  # of sqld, and of the next test
    assert len(expected) > 30
    assert expected - foreign <= set(CODES)


def parsed(source):
    """Return a package with one module."""
    return error_sites.Package({"example": ast.parse(source)})


def test_other_ways_to_make_a_code_are_found():
    source = """
class MyError(PipemagicError):
    code = "BY_CLASS"

NAMED = "BY_NAME"

class Refused(Exception):
    def __init__(self, status, message, code): ...

def make(message, hint, code="BY_DEFAULT"): ...

def use(error):
    raise Refused(400, "no", "BY_POSITION")
    raise ServiceError("no", code=NAMED)
    hint, code = "", "BY_PAIR"
    if error.code == "BY_COMPARISON": ...
    return {"other": "NOT_A_CODE"}
"""
    package = parsed(source)
    found = {code for node in ast.walk(package.modules["example"]) for code in error_sites.codes_at(node, package)}
    assert found == {
        "BY_CLASS", "BY_NAME", "BY_DEFAULT", "BY_POSITION", "BY_PAIR", "BY_COMPARISON",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(CODES))
def test_every_error_code_has_a_meaning_and_advice(name):
    texts = TEXTS[name]
    classes = [one for one in error_sites.exception_classes().values() if one.__module__ == "pipemagic.errors"]
    has_class = any(name in (one.__dict__.get("code"), one.__dict__.get("unchanged")) for one in classes)
    assert len(texts) == (1 if has_class else 2), "the docstring of a class is the meaning of its code"
    for text in (magic_pages.meaning_of(name, texts), texts[-1]):
        assert len(text) > 8
        assert text[0].isupper() or text[0] == "`"
        assert text.endswith(".")


def test_every_error_code_is_on_the_page_with_its_hints(site):
    found = sections(site, "errors")
    for name, texts in TEXTS.items():
        words = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", texts[-1])
        assert shown(words) in found[name], name
        for hint in CODES[name].hints:
            assert shown(hint.hint) in found[name].replace("`", ""), (name, hint)


def test_hints_of_several_codes_are_on_the_page(site):
    section = sections(site, "errors")["Hints of several codes"].replace("`", "")
    hints = error_sites.hints_of_several()
    assert len(hints) > 50
    assert [hint for hint in hints if shown(hint.hint) not in section] == []


def test_hints_have_the_placeholders_of_the_source():
    hints = {(hint.message, hint.hint) for hint in CODES["CONNECT"].hints}
    assert (
        "nothing listens at {where} (connection refused)",
        "check that the server is running, and the port",
    ) in hints
    assert sum(len(source.hints) for source in CODES.values()) > 350


NOT_HINTS = {
    "pipemagic.session.messages: notes": "lines that a cell shows below its results",
    "pipemagic.session.messages: [line for line in (note, *(f'Not set again: {text}' for text in failed)) if line]":
        "lines that a cell shows below its results",
    "pipemagic.notebook.panels.tasks: hint": "panels pass on the hint of another error",
    "limit_hint": "the function only asks whether there is a hint",
    "Finding": "the result of a check of `pipemagic doctor`, which prints it",
    "Write": "ReadOnlyError takes it from there, and lists it",
}  # fmt: skip
"""Expressions without a listed text, and the reason. Write other hints as texts, constants or results of functions."""


def unlisted(package):
    """Return the hints of exceptions in a package whose text is not found."""
    found = error_sites.hints(package)
    calls = {ast.unparse(call.func) for call in error_sites.calls_with_hints(package) if call not in found.followed}
    return found.unknown | calls


def test_every_hint_in_the_source_is_listed():
    package = error_sites.package()
    assert len(list(error_sites.calls_with_hints(package))) > 300
    assert unlisted(package) == set(NOT_HINTS)


@pytest.mark.parametrize(
    ("source", "hints"),
    [
        ('raise SessionError("no", hint="do this")', {"do this"}),
        ('raise SessionError("no", hint=ADVICE)', {"a constant"}),
        ('raise SessionError("no", hint=advice(name))', {"a {number}", "another"}),
        ('raise SessionError("no", hint=advice(2))', {"a 2", "another"}),
        ('raise refused("no", "by position")', {"by position"}),
        ('raise refused("no")', {"by default"}),
        ('raise NoSqld()', set()),
        ('hint = "one" if name else TABLE[name]\n    raise SessionError("no", hint=hint)', {"one", "of a table"}),
        ('raise SessionError("no", hint="\\n".join(["first", *more]))', {"first", "second"}),
        ('raise error.replace(hint=f"{ADVICE}, {name}")', {"a constant, {name}"}),
        ('hint = "start"\n    hint += " and end"\n    raise SessionError("no", hint=hint)', {"start and end"}),
    ],
)  # fmt: skip
def test_hints_are_found(source, hints):
    package = parsed(EXAMPLE.replace("...", source))
    found = {hint.hint for _, hint in error_sites.hints(package).found}
    assert found == {*hints, "of the class", "at the end"}
    assert unlisted(package) == set()


@pytest.mark.parametrize(
    "source",
    [
        'raise SessionError("no", hint=unknown(1))',
        'raise SessionError("no", hint=name)',
        'raise SessionError("no", hint="one" if name else name.text)',
        'raise refused("no", name.advice)',
    ],
)
def test_a_hint_without_a_known_text_is_reported(source):
    assert unlisted(parsed(EXAMPLE.replace("...", source))) != set()


EXAMPLE = """
ADVICE = "a constant"
TABLE = {1: "of a table"}

class NoSqld(ServiceError):
    def __init__(self): super().__init__("no", hint="of the class")

def advice(number):
    if number: return f"a {number}"
    return "another" if number is None else ""

def refused(message, hint="by default"):
    return SessionError(message, hint=hint)

def use(name, error):
    more = ["second"]
    ...
    raise refused("no", "at the end")
"""


@pytest.fixture(scope="module")
def session():
    """A session with a small table in a database of its own."""
    session = Session()
    session.connect(temporary=True)
    session.run("CREATE TABLE city (name TEXT); INSERT INTO city VALUES ('Porto')")
    yield session
    session.shut_down()


def listed(code):
    """Return the messages and hints of a code on the page, as regular expressions."""
    pairs = [(hint.message, hint.hint) for one, hint in error_sites.package_hints().found if one == code]
    return [tuple(re.sub(r"\\\{.*?\\\}", ".*", re.escape(text)) for text in pair) for pair in pairs]


PROVOKED = {
    "ACCESS_LOG": lambda session, folder: AccessLog(folder / "none" / "log"),
    "ADDRESS": lambda session, folder: session.connect("postgresql://host/db"),
    "ALREADY_EXISTS": lambda session, folder: session.platform.create_database(session.connection().name, "default"),
    "BAD_NODES": lambda session, folder: nodes.load(folder / "nodes.toml"),
    "CONFIRM": lambda session, folder: guards.check_where(session.read("DELETE FROM city")),
    "CONNECT": lambda session, folder: pipemagic.connect("http://127.0.0.1:1").query("SELECT 1"),
    "HOSTING": lambda session, folder: Hosting(host="example"),
    "LOAD": lambda session, folder: session.connection().database.load(pandas.DataFrame({"x": [1]}), "city"),
    "NO_TLS": lambda session, folder: Hosting(host="0.0.0.0", domain="db.example.org"),
    "PARAMETER": lambda session, folder: session.run("SELECT :nam", {"name": 1}),
    "PLOT": lambda session, folder: plots.histogram(session.connection().database, "city", x="name"),
    "PORT_IN_USE": lambda session, folder: server.listen("127.0.0.1", urlsplit(session.connection().database.url).port),
    "PROTOCOL": lambda session, folder: decode("text"),
    "TEMPLATE": lambda session, folder: templates.render("{{ nam }}", {"name": 1}),
    "TRANSFER": lambda session, folder: restore([], folder / "new.db", "dump.sql"),
    "UNKNOWN_NAME": lambda session, folder: profile(session.connection().database, "citty"),
}
"""A way to cause an error of each of these codes."""


@pytest.mark.parametrize("code", PROVOKED)
def test_errors_have_the_messages_and_hints_of_the_page(code, session, tmp_path):
    with pytest.raises(pipemagic.PipemagicError) as caught:
        PROVOKED[code](session, tmp_path)
    error = caught.value
    assert error.code == code
    assert any(
        (not message or re.fullmatch(message, error.message, re.DOTALL))
        and re.search(hint, error.hint, re.DOTALL)
        for message, hint in listed(code)
    ), (error.message, error.hint)  # fmt: skip
