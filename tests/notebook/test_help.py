"""Help is complete, and its examples parse."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from pipemagic import sql
from pipemagic.notebook import arguments, sql_options
from pipemagic.notebook.commands import COMMANDS, DAILY, GROUPS
from pipemagic.notebook.commands.help import topics
from pipemagic.notebook.commands.pages import pages
from pipemagic.notebook.magics import PipeMagics
from pipemagic.notebook.settings import PipeMagic
from pipemagic.notebook.sql_options import OPTIONS
from pipemagic.teaching.magics import ARGUMENTS, ON, RESET

ROOT = Path(__file__).parents[2]
DOCS, NOTEBOOKS = ROOT / "docs", ROOT / "notebooks"


def examples_in(text):
    """Return the indented lines that begin with a magic, each with the lines of SQL below it."""
    found = []
    for line in text.splitlines():
        if not line.startswith("    "):
            continue
        if re.match(r"(\w+ = )?%", line.strip()):
            found.append(line.strip())
        elif found:
            found[-1] += "\n" + line.strip()
    return found


def check(example):
    head, _, body = example.partition("\n")
    head = re.sub(r"\A\w+ = ", "", head)
    if head.startswith("%pipedb "):
        name, _, rest = head.removeprefix("%pipedb ").partition(" ")
        command = COMMANDS[name]
        arguments.parse(rest, command.positionals, command.options, command.usage)
    elif head.startswith("%%sql"):
        sql_options.parse(head.removeprefix("%%sql"), body or "SELECT 1", {})
    elif (marker := head.split(" ", 1)[0]) in ARGUMENTS:
        arguments.parse(head.removeprefix(marker), ARGUMENTS[marker], (ON,), marker)
        assert not marker.startswith("%%") or sql.split(body)
    elif "--file" in head:  # which there is not
        arguments.leading(head.removeprefix("%sql"), OPTIONS, "")
    elif head.startswith("%sql"):
        sql_options.parse(head.removeprefix("%sql"), None, {"most": 10, "file": "flights.csv"})
    else:
        name = re.match(r"%config PipeMagic(?:\.(\w+) = .+)?\Z", head)
        assert name is not None, head
        assert name[1] is None or name[1] in PipeMagic.class_trait_names(config=True)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_and_examples(name):
    command = COMMANDS[name]
    assert command.help
    assert not command.help.endswith(".")
    for argument in (*command.positionals, *command.options):
        assert len(argument.help) > 5, argument
    assert command.examples
    for example in command.examples:
        assert example.split()[1] == name
        check(example)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.flag)
def test_every_option_of_sql_is_in_help(shell, option):
    assert len(option.help) > 10
    assert f"{option.flag}" in shell("%pipedb help sql").out
    assert option.help in shell("%pipedb help sql").out


@pytest.mark.parametrize("name", topics())
def test_every_topic_is_listed_and_its_examples_parse(shell, name):
    about, text = topics()[name].about, topics()[name].text
    everything = shell("%pipedb help --all").out
    assert f"  {name} " in everything
    assert about in everything
    shown = text.split("\n\n")[0] if name in COMMANDS else text  # a command has examples of its own
    assert shown in shell(f"%pipedb help {name}").out
    assert max(len(line) for line in text.splitlines()) <= 120
    for example in examples_in(text):
        check(example)
    for command in re.findall(r"%pipedb ([a-z][a-z-]+)", text):
        assert command in (*COMMANDS, "help"), command
    for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text):
        flags = {option.flag for command in COMMANDS.values() for option in command.options}
        assert flag in flags | {option.flag for option in (*OPTIONS, RESET)}, flag


def test_help_fits_a_screen_and_has_the_commands_of_daily_use(shell):
    lines = shell("%pipedb help").out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    commands, more = (section.splitlines() for section in "\n".join(lines).split("\n\n")[1:])
    assert [line.split()[0] for line in commands] == list(DAILY)
    assert len(DAILY) == 12
    named = [line.strip().split("  ")[0] for line in more]
    assert named == ["%pipedb help COMMAND", "%pipedb help sql", "%pipedb help TOPIC", "%pipedb help --all"]
    for line in ("%pipedb", "%pipedb help help", "%pipedb --help"):
        assert shell(line).out.splitlines() == lines


def test_all_commands_topics_and_pages_are_listed_by_group(shell):
    sections = [section.splitlines() for section in shell("%pipedb help --all").out.split("\n\n")]
    listed = {title: [line.split()[0] for line in lines] for title, *lines in sections}
    assert listed == {
        **{group.title: [command.name for command in group.commands] for group in GROUPS},
        "Topics": list(topics()),
        "Pages of the documentation": list(pages()),
    }
    assert set(DAILY) <= set(COMMANDS) == {name for group in GROUPS for name in listed[group.title]}


OTHER_FORMS = {
    "NAME << SELECT": re.compile(r"(?<![<\w])\w+ <<(?!<)(?! *(?:END|EOF)\b)"),
    "@NAME and $NAME as parameters": re.compile(
        r"(?:`|\b(?:SELECT|WHERE|AND|OR|IN|VALUES|LIMIT)\b[^\n`]*?[\s(=<>])[@$][a-z_]\w*(?![\w/{])"
    ),
}
TAUGHT = {
    **{
        path.relative_to(ROOT).as_posix(): re.sub(r"<!-- shell.*?-->", "", path.read_text("utf-8"), flags=re.DOTALL)
        for path in [ROOT / "README.md", *DOCS.rglob("*.md")]
    },
    **{
        path.relative_to(ROOT).as_posix(): "\n\n".join(cell["source"] for cell in nbformat.read(path, 4).cells)
        for path in NOTEBOOKS.rglob("*.ipynb")
    },
    "topics.md": "\n".join(topic.text for topic in topics().values()),
}
ELSEWHERE = "docs/analysts/other-magics.md"


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_the_other_form_is_taught_on_one_page_only(form):
    """One way each is taught: `x = %sql ...` or `-o x` for a result, `:x` for a value."""
    found = {name: OTHER_FORMS[form].findall(text) for name, text in TAUGHT.items()}
    assert found.pop(ELSEWHERE)
    assert {name: matches for name, matches in found.items() if matches} == {}


def test_other_names_lead_to_topics(shell):
    others = {other: topic.name for topic in topics().values() for other in topic.others}
    assert {"transaction", "params", "%%sql", "settings"} <= set(others)
    for other, name in others.items():
        assert shell(f"%pipedb help {other}").out == shell(f"%pipedb help {name}").out
    assert "did you mean transactions?" in shell.fails("%pipedb help transactoins").out


def test_help_names_all_settings(shell):
    text = " ".join(topics()["config"].text.split())
    named = re.search(r"traits of PipeMagic: ([\w, ]+)\.", text)[1].split(", ")
    assert sorted(named) == sorted(PipeMagic.class_own_traits(config=True))


@pytest.mark.parametrize(("magic", "method"), [("%%sql", "sql"), ("%sql", "sql"), ("%pipedb", "pipedb")])
def test_question_mark_shows_examples_that_parse(shell, magic, method):
    found = shell.ip.object_inspect_mime(magic)["text/plain"]
    examples = examples_in(getattr(PipeMagics, method).__doc__.replace("\n        ", "\n"))
    assert len(examples) >= 5
    for example in examples:
        assert example.split("\n")[0] in found
        check(example)


def test_a_command_shows_its_help(shell):
    out = shell("%pipedb load --help").out
    assert out.splitlines()[0] == COMMANDS["load"].usage
    for option in COMMANDS["load"].options:
        assert option.help in out
    assert COMMANDS["load"].examples[0] in out
    for line in ("load flights --help", "load flights --table t -h", "load --table 'a b' --help \"x"):
        assert shell(f"%pipedb {line}").out == out
    assert shell.fails("%pipedb load '--help'").out != out
