"""Suggestions for wrong names: typing errors and words of other tools, never what is dangerous or has nothing to do."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from itertools import chain
from random import Random

import click
import pytest

from pipemagic import cli, suggestions
from pipemagic.frames import delimited
from pipemagic.frames.file_options import parse_options
from pipemagic.notebook import sql_options
from pipemagic.notebook.arguments import Option
from pipemagic.notebook.commands import COMMANDS
from pipemagic.suggestions import (
    MOST,
    PROTECTIONS,
    close_names,
    closest,
    did_you_mean,
    distance,
    instead_of,
    nearest,
    unseen_difference,
)

NOTEBOOK_COMMANDS = [*COMMANDS, "help"]


def flags_of(options: tuple[Option, ...]) -> list[str]:
    return [option.flag for option in options if option.flag != "--"]


def groups_of_the_terminal(command: click.Command, path: str = "") -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each command of the terminal: its path, its commands, and its options."""
    context = click.Context(command)
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    yield path, names, [flag for option in command.params for flag in option.opts if flag.startswith("--")]
    for name in names:
        yield from groups_of_the_terminal(command.get_command(context, name), f"{path} {name}".strip())


TERMINAL = list(groups_of_the_terminal(cli.pipemagic))
PLACES = {
    "%pipedb": ("command", NOTEBOOK_COMMANDS),
    "%%sql": ("option", flags_of(sql_options.OPTIONS)),
    **{f"%pipedb {name}": ("option", flags_of(command.options)) for name, command in COMMANDS.items()},
    **{f"pipemagic {path} COMMAND": ("terminal command", names) for path, names, _ in TERMINAL if names},
    **{f"pipemagic {path}": ("option", flags) for path, _, flags in TERMINAL},
}
"""What can be typed wrongly: the kind of name in each place, and the valid ones."""


def suggested(hint: str) -> list[str]:
    """Return the names that a hint suggests."""
    match = re.fullmatch(r"did you mean (.+)\?", hint)
    return match[1].split(" or ") if match else []


def words_of(kind: str) -> set[str]:
    """Return the words of other tools that are known."""
    tables = (suggestions._NAMES.get(kind, {}), suggestions._SENTENCES.get(kind, {}))
    return set(chain.from_iterable(words.split() for table in tables for words in table.values()))


def typing_errors(name: str) -> Iterator[str]:
    """Yield a name with each single typing error behind its dashes."""
    dashes = name[: len(name) - len(name.lstrip("-"))]
    text = name[len(dashes) :]
    for at in range(len(text) + 1):
        before, after = text[:at], text[at:]
        yield from (f"{dashes}{before}{letter}{after}" for letter in "ax")
        if after:
            yield f"{dashes}{before}{after[1:]}"
            yield from (f"{dashes}{before}{letter}{after[1:]}" for letter in "ax")
        if len(after) > 1:
            yield f"{dashes}{before}{after[1]}{after[0]}{after[2:]}"


@pytest.mark.parametrize("place", PLACES)
def test_each_typing_error_leads_to_the_name_or_to_nothing(place):
    kind, known = PLACES[place]
    found = 0
    for name in known:
        for typed in typing_errors(name):
            if typed in known or typed.strip("-") in words_of(kind) or re.fullmatch("-*.?", typed):
                continue
            names = suggested(instead_of(typed, kind, known))
            if name in PROTECTIONS:
                assert not names or min(distance(typed, other) for other in names) <= 2
                assert not PROTECTIONS & {*names}
            else:
                as_close = [other for other in known if distance(typed.strip("-"), other.strip("-")) <= 1]
                assert name in names or len(as_close) > 1, (typed, names)
                found += name in names
    assert found or not set(known) - PROTECTIONS or all(len(name) < 3 for name in known)


def test_no_word_leads_to_an_option_that_switches_a_protection_off():
    random = Random(45)
    letters = ["".join(random.choices(string.ascii_lowercase, k=random.randint(1, 10))) for _ in range(50)]
    near = [typed for flag in PROTECTIONS for typed in typing_errors(flag)]
    words = [*letters, *chain.from_iterable(map(words_of, ("command", "terminal command", "option"))), *near]
    for known in {tuple(known) for kind, known in PLACES.values() if kind == "option" and PROTECTIONS & {*known}}:
        for word in dict.fromkeys(words):
            flag = word if word.startswith("-") else f"--{word}"
            assert not PROTECTIONS & {*suggested(instead_of(flag, "option", known))}, flag


def test_random_letters_lead_to_nothing():
    random = Random(45)
    for _ in range(20):
        word = "".join(random.choices(string.ascii_lowercase, k=random.randint(5, 12)))
        for kind, known in PLACES.values():
            assert not instead_of(f"--{word}" if kind == "option" else word, kind, known), word


def test_names_of_one_place_lead_to_similar_ones_in_another_or_are_words_of_other_tools():
    everything = dict.fromkeys((kind, name) for kind, known in PLACES.values() for name in known)
    for kind, known in [PLACES["%pipedb"], PLACES["%%sql"], PLACES["%pipedb load"], *list(PLACES.values())[-5:]]:
        for kind_of_word, word in everything:
            if kind_of_word == kind and word not in known and word.strip("-") not in words_of(kind):
                for name in suggested(instead_of(word, kind, known)):
                    assert distance(word, name) <= 2 or closest(word.strip("-"), words_of(kind)), (word, name)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("query", "write SQL after %sql, or in a cell that begins with %%sql"),
        ("sql", "write SQL after %sql, or in a cell that begins with %%sql"),
        ("SELECT", "write SQL after %sql, or in a cell that begins with %%sql"),
        ("qurey", "write SQL after %sql, or in a cell that begins with %%sql"),
        ("begin", "write BEGIN, COMMIT or ROLLBACK after %sql, or in a %%sql cell"),
        ("drop", "DROP TABLE in a %%sql cell deletes a table, %pipedb delete-database NAME a database"),
        ("export", "%%sql --to-csv FILE writes a result to a file, and x = %sql SELECT ... stores it in a variable"),
        ("dump", "did you mean export-database?"),
        ("import", "did you mean load?"),
        ("disconnect", "did you mean close?"),
        ("disconect", "did you mean close?"),
        ("describe", "did you mean columns?"),
        ("show", "did you mean tables?"),
        ("list", "did you mean tables?"),
        (".tables", "did you mean tables?"),
        ("\\dt", "did you mean tables?"),
        ("head", "%sql SELECT * FROM TABLE LIMIT 5 shows the first rows"),
        ("version", "did you mean status?"),
        ("keep-alive", "%pipedb connect NAME --keep-alive TIME keeps a connection open"),
        ("check", "did you mean rules?"),
        ("Connect", "did you mean connect?"),
        ("create_database", "did you mean create-database?"),
        ("protect", "did you mean protect-database?"),
        ("unarchive", "did you mean unarchive-group?"),
        ("audit", "did you mean audit-logs?"),
        ("frobnicate", ""),
        ("foo", ""),
    ],
)
def test_words_of_other_tools_lead_to_the_command_or_to_what_to_write(word, hint):
    assert instead_of(word, "command", NOTEBOOK_COMMANDS) == hint


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("--connection", "did you mean --on?"),
        ("--database", "did you mean --on?"),
        ("--rows", "did you mean --limit?"),
        ("-n", "did you mean --dry-run?"),
        ("-z", ""),
        ("--foo", ""),
        ("--confrim", ""),
        ("--yes", ""),
        ("--polars", "did you mean --type?"),
        ("--dryrun", "did you mean --dry-run?"),
        ("--TIMEOUT", "did you mean --timeout?"),
        ("--an", "did you mean --on?"),
    ],
)
def test_words_of_other_tools_lead_to_the_option(flag, hint):
    assert instead_of(flag, "option", flags_of(sql_options.OPTIONS)) == hint


@pytest.mark.parametrize(
    ("flag", "hint"),
    [("--sep", "did you mean -- sep=';'?"), ("--na_values", "did you mean -- na_values=['NA']?"), ("--create", "")],
)
def test_an_option_of_a_reader_follows_two_dashes(flag, hint):
    assert instead_of(flag, "option", [option.flag for option in COMMANDS["load"].options]) == hint
    assert instead_of(flag, "option", flags_of(COMMANDS["tables"].options)) == ""


def test_each_word_leads_to_something_that_exists_and_is_not_itself_a_name():
    assert suggestions._COMMANDS.keys() <= {*NOTEBOOK_COMMANDS}
    assert not words_of("command") & {*NOTEBOOK_COMMANDS}
    flags = {flag for kind, known in PLACES.values() if kind == "option" for flag in known}
    of_readers = {name.removeprefix("-- ") for name in suggestions._OPTIONS if name.startswith("-- ")}
    assert parse_options(sorted(of_readers), delimited.OPTIONS, "csv").keys() >= {"sep", "na_values"}
    assert suggestions._OPTIONS.keys() - {f"-- {name}" for name in of_readers} <= flags - PROTECTIONS
    assert flags >= {flag for flag in PROTECTIONS if flag.startswith("--")}
    paths = {path for path, *_ in TERMINAL}
    for name in suggestions._TERMINAL:
        assert any(f" {path}".endswith(f" {name}") for path in paths), name
    for sentence in chain.from_iterable(table for table in suggestions._SENTENCES.values()):
        for name in re.findall(r"%pipedb ([\w-]+)", sentence):
            assert name in NOTEBOOK_COMMANDS
        for path in re.findall(r"pipemagic ([a-z]+(?: [a-z]+)?) [A-Z]", sentence):
            assert path in paths


# -- names of the user's data

FLIGHTS = [
    "year",
    "month",
    "day",
    "dep_time",
    "dep_delay",
    "arr_time",
    "arr_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "air_time",
    "distance",
]
SHOP = [
    "AlbumId",
    "State",
    "Country",
    "CustomerId",
    "FirstName",
    "UnitPrice",
    "InvoiceId",
    "InvoiceDate",
    "orders",
    "airlines",
    "customers",
]


@pytest.mark.parametrize(
    ("name", "names", "known"),
    [
        ("dep_dely", ["dep_delay"], FLIGHTS),
        ("delay", ["dep_delay", "arr_delay"], FLIGHTS),
        ("departure_delay", ["dep_delay"], FLIGHTS),
        ("destination", ["dest"], FLIGHTS),
        ("airtime", ["air_time"], FLIGHTS),
        ("ar_time", ["arr_time", "air_time"], FLIGHTS),
        ("count", [], FLIGHTS),  # not month
        ("weekday", [], FLIGHTS),  # not day
        ("time", ["dep_time", "arr_time", "air_time"], FLIGHTS),
        ("time", [], [*FLIGHTS, "time_hour"]),
        ("amount", [], SHOP),  # not Country
        ("date", ["InvoiceDate"], SHOP),  # not State
        ("price", ["UnitPrice"], SHOP),
        ("customer_id", ["CustomerId"], SHOP),
        ("readers", [], SHOP),  # not orders
        ("sales", [], SHOP),  # not airlines
        ("order", ["orders"], SHOP),
        ("x", [], ["y"]),
        ("xx", ["x"], ["x"]),
        ("", [], FLIGHTS),
        ("-", [], FLIGHTS),
        ("a" * 5000, [], FLIGHTS),
    ],
)
def test_names_of_data_are_close_by_a_typing_error_or_by_their_words(name, names, known):
    assert close_names(name, known) == names
    assert nearest(name, known) == (names[0] if len(names) == 1 else "")
    assert did_you_mean(name, known) == (f"did you mean {' or '.join(names)}?" if names else "")


def test_too_many_names_are_none():
    known = [f"table{number}" for number in range(MOST)]
    assert closest("table", known) == known
    assert closest("table", [*known, "table9"]) == []


@pytest.mark.parametrize(
    ("first", "second", "errors"),
    [("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("abc", "axc", 1), ("abc", "bca", 2), ("", "ab", 2)],
)
def test_distance(first, second, errors):
    assert distance(first, second) == distance(second, first) == errors


COMPOSED, DECOMPOSED = "r\u00e9gion", "re\u0301gion"


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("carrer", "carrier", "did you mean carrier?"),
        ("mytable", "my table", 'did you mean "my table"?'),
        ("points", " points", 'did you mean " points"? the name begins with a space'),
        ("points", "points  ", 'did you mean "points  "? the name ends with a space'),
        ("points", "\tpoints ", 'did you mean "\tpoints "? the name begins with a tab and ends with a space'),
        (" points", "points", "did you mean points? the name does not begin with a space"),
        ("id", "\ufeffid", 'did you mean "\ufeffid"? the name begins with a byte order mark (U+FEFF); '
         "encoding='utf-8-sig' reads a file without it"),
        ("a b", "a\u00a0b", 'did you mean "a\u00a0b"? the name contains a no-break space (U+00A0)'),
        ("a b", "a\tb", 'did you mean "a\tb"? the name contains a tab'),
        ("ab", "a\u200bb", 'did you mean "a\u200bb"? the name contains a zero width space (U+200B)'),
        (COMPOSED, DECOMPOSED, f"did you mean {DECOMPOSED}? the name writes \u00e9 as e and U+0301"),
        (DECOMPOSED, COMPOSED, f"did you mean {COMPOSED}? the name writes \u00e9 as one character (U+00E9)"),
        ("\u00e9", "e\u0301", "did you mean e\u0301? the name writes \u00e9 as e and U+0301"),
        ("zzz", "carrier", ""),
    ],
)  # fmt: skip
def test_did_you_mean_says_what_is_not_seen(name, known, hint):
    assert did_you_mean(name, ["other", known]) == hint


def test_names_that_are_read_differently_have_no_unseen_difference():
    assert unseen_difference("points", "point ") == ""
    assert unseen_difference("a b", "ab") == ""
    assert unseen_difference("Points", "points") == ""
