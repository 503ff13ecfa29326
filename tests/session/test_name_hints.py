"""Hints read statements that are broken anywhere, and never fail."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from pipemagic.explore.schema import Relation, Schema, Trigger
from pipemagic.session.messages import HintNames
from pipemagic.session.name_hints import name_hint
from pipemagic.session.schema_cache import SchemaCache
from pipemagic.sql import significant

CASES = Path(__file__).parent.parent / "notebook/sql_cases/dialects.toml"
MESSAGES = (
    'near "{}": syntax error', "incomplete input", 'unrecognized token: "{}"', "no such column: {}",
    "no such column: z.{}", "no such table: main.{}", "no such function: {}", "misuse of aggregate: count()",
    "misuse of aliased window function {}", "misuse of window function {}()", "1 values for 2 columns",
    "SELECTs to the left and right of UNION do not have the same number of result columns",
    "table flights has 9 columns but 2 values were supplied", "all VALUES must have the same number of terms",
    "wrong number of arguments to function COUNT()", "DISTINCT aggregates must have exactly one argument",
    "parameters are not allowed in views", "unknown table option: {}",
)  # fmt: skip
FLIGHTS = Relation("flights", triggers=(Trigger("watch", "CREATE TRIGGER watch AFTER INSERT ON flights"),))


@pytest.fixture(scope="module")
def names():
    airlines = Relation.of("airlines", [("carrier", "TEXT"), ("name", "TEXT"), ("parent", "TEXT")])
    schema = SchemaCache(lambda _: Schema(1, (FLIGHTS, airlines)))
    yield HintNames(schema, saved=("base",), values={":low": "2"})
    schema.close()


@pytest.mark.parametrize("message", MESSAGES)
def test_a_hint_for_each_beginning_of_each_statement(names, message):
    first = MESSAGES.index(message)
    for case in tomllib.loads(CASES.read_text("utf-8"))["case"]:
        text = re.sub(r"\A%%?\w+\s", "", case["cell"])
        for token in significant(text)[first % 5 :: 5]:  # each message breaks every fifth token
            for broken in (text[: token.end], text[: token.start] + text[token.end :]):
                hint = name_hint(message.format(token.text), broken, min(token.start, len(broken)), names)
                assert isinstance(hint, str)
                assert "None" not in hint


def test_passwords_are_not_repeated(names):
    hint = name_hint("no such function: nvl", "SELECT nvl('https://ada:secret@example.com', 1)", 7, names)
    assert hint == "write ifnull('https://***@example.com', 1)"


def test_a_long_statement_is_not_read(names):
    text = f"INSERT INTO airlines VALUES {'(1, 2), ' * 10_000}(nvl(1, 2), 3)"
    assert name_hint("no such function: nvl", text, text.index("nvl"), names) == "use ifnull() instead"
    assert name_hint("no such table: airline", text, None, names) == "did you mean airlines?"


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("SELECT min(carrier) AS first, upper(first) FROM airlines", "first",
         "first is a column of the result: write min(carrier) instead"),
        ("SELECT 1.0 * a / b ratio, ratio + 1 FROM airlines", "ratio",
         "ratio is a column of the result: write 1.0 * a / b instead"),
        ("SELECT frist AS frist FROM airlines", "frist", "airlines has carrier, name, parent"),
        ("SELECT name AS other, first FROM airlines", "first", "airlines has carrier, name, parent"),
    ],
)  # fmt: skip
def test_a_column_of_the_result_in_another_one(names, text, name, hint):
    assert name_hint(f"no such column: {name}", text, text.rindex(name), names) == hint
