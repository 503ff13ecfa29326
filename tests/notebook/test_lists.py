"""Every option that takes a list splits it in the same way."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

from pipemagic.notebook import sql_options
from pipemagic.notebook.arguments import items, names
from pipemagic.notebook.commands import COMMANDS
from pipemagic.notebook.sql_options import OPTIONS

LISTS = [
    ("%pipedb profile t --columns {}", "--columns"),
    ("%pipedb check t --not-null {}", "--not-null"),
    ("%pipedb check t --unique {}", "--unique"),
    ("%pipedb check t --references {}=t.a,b", "--references"),
    ("%pipedb check t --references a,b=t.{}", "--references"),
    ("%pipedb diff t t --key {}", "--key"),
    ("%pipedb load frame --table loaded --replace --types {}", "--types"),
    ("%pipedb load frame --table t --upsert {}", "--upsert"),
    ("%sql --with {} SELECT * FROM a, b", "--with"),
    ("%%sql -o {}\nSELECT 1; SELECT 2", "--out"),
]


@pytest.fixture
def filled(shell, local_service):
    shell("%pipedb connect")
    shell("import pandas; frame = pandas.DataFrame({'a': [1, 2], 'b': [3, 4]})")
    shell("%pipedb load frame --table t --upsert a,b")
    shell("%sql --save a --no-execute SELECT 1 AS x\n%sql --save b --no-execute SELECT 2 AS y")
    return shell


def written(flag, text):
    """Return a list in the form of the option."""
    return ",".join(f"{one}=INTEGER" if one.strip() else one for one in text.split(",")) if flag == "--types" else text


@pytest.mark.parametrize(("line", "flag"), LISTS)
def test_an_empty_item_is_an_error_with_a_correction(filled, line, flag):
    fine = written(flag, "a,b")
    for text in ("a,,b", "a,b,", ",a,b", "'a, ,b'"):
        given = f"'{written(flag, text.strip(chr(39)))}'" if text[0] == "'" else written(flag, text)
        if text[0] == "'" and "--references" in line:
            continue  # quotes inside a word
        cell = filled.fails(line.format(given))
        assert isinstance(cell.error, UsageError), cell.out
        assert f"the list has an empty item; write {flag} {fine}" in cell.err
    filled(line.format(fine))


@pytest.mark.parametrize(("line", "flag"), LISTS)
def test_an_empty_list_is_an_error(filled, line, flag):
    for text in (",", "''"):
        if "=t." in line or "=t." in line.format(text):
            continue
        assert f"{flag} requires at least one name" in filled.fails(line.format(text)).err


def test_every_option_that_takes_a_list_is_tested():
    flags = {option.flag for command in COMMANDS.values() for option in command.options if "," in option.value}
    flags |= {option.flag for option in OPTIONS if "a,b" in option.help or "top,late" in option.help}
    assert flags == {flag for _, flag in LISTS}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", ["a"]),
        (" a , b ", ["a", "b"]),
        ('"a,b",c', ["a,b", "c"]),
        ('"we""ird",[x,y],`z,`', ['we"ird', "x,y", "z,"]),
        ("O'Neil,b", ["O'Neil", "b"]),
        ("naïve,列", ["naïve", "列"]),
        ('"",a', ["", "a"]),
    ],
)
def test_names(text, found):
    assert names(text, "--columns") == found


def test_parentheses_hold_commas():
    assert items("price=DECIMAL(10,2),n=INT", "--types") == ["price=DECIMAL(10,2)", "n=INT"]
    assert items("f(a,b", "--columns") == ["f(a", "b"]


def test_out_is_parsed_as_a_list():
    options, _ = sql_options.parse("-o a,_,c", "SELECT 1; SELECT 2; SELECT 3")
    assert options.out == ("a", "_", "c")
