"""What the reference shows has texts in the code; test_site.py checks that the built pages show it."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path

import click
from public_names import INTERNAL, cli_commands, full_name, members, names_in_code, operations, public_objects, returned

import pipemagic
import pipemagic.session
from pipemagic.notebook.commands import COMMANDS
from pipemagic.notebook.settings import PipeMagic, with_plugins
from pipemagic.notebook.sql_options import OPTIONS
from pipemagic.service.api.openapi import DATABASE_API
from pipemagic.teaching import magics as teaching

ROOT = Path(__file__).parents[2]
PUBLIC = public_objects(ROOT)


def test_every_option_argument_and_setting_of_a_magic_has_help():
    accepted = [argument for command in COMMANDS.values() for argument in (*command.positionals, *command.options)]
    accepted += [*OPTIONS, teaching.ON, *(argument for found in teaching.ARGUMENTS.values() for argument in found)]
    assert len(COMMANDS) > 30
    assert [argument for argument in [*COMMANDS.values(), *accepted] if len(argument.help) <= 5] == []
    settings = with_plugins(PipeMagic).class_traits(config=True)
    assert [name for name, trait in settings.items() if len(str(trait.help)) <= 10] == []


def test_every_command_and_option_of_the_command_line_has_help():
    commands = cli_commands()
    assert [path for path, command in commands.items() if not command.help] == []
    options = [option for command in commands.values() for option in command.params if isinstance(option, click.Option)]
    assert [option.opts for option in options if not option.help and not option.hidden] == []


OF_THE_SYSTEM = {"PATH", "NO_PROXY", "no_proxy"}


def environment_variables():
    """Return the names in the package that begin as pipemagic's variables do, and others that it reads."""
    found = set()
    for path in Path(pipemagic.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(ast.Attribute(ast.Attribute(attr="environ"), "get"), [ast.Constant(value=name), *_]):
                    found.add(name)
                case ast.Constant(value=str(text)):
                    found |= set(re.findall(r"(?<![A-Z_])(?:PIPEMAGIC|TURSO)_[A-Z_]+", text))
    return found - OF_THE_SYSTEM


def test_every_environment_variable_has_a_meaning():
    meanings = tomllib.loads((ROOT / "docs" / "reference" / "variables.toml").read_text("utf-8"))
    assert set(meanings) == environment_variables()
    assert [name for name, meaning in meanings.items() if len(meaning) <= 20] == []


def test_everything_public_has_a_docstring():
    values = dict(PUBLIC)
    for name, value in PUBLIC.items():
        if inspect.isclass(value):
            values |= {f"{name}.{member}": function for member, function in members(value).items()}
    assert [name for name, value in values.items() if not (value.__doc__ or "").strip()] == []


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


def test_internal_classes_are_results_of_public_functions():
    known = {full_name(result) for value in PUBLIC.values() for result in returned(value)}
    known |= {full_name(getattr(pipemagic.session, name)) for name in pipemagic.session.__all__}
    assert set(INTERNAL) <= known


def test_every_operation_of_both_apis_is_described():
    assert [path for _, path, operation in operations() if not operation["summary"]] == []
    others = [(path, operation) for _, path, operation in operations() if operation["tags"] != [DATABASE_API]]
    assert [path for path, operation in others if not operation["x-permission"]] == []
