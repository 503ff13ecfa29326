"""The line of a magic, taken apart."""

import pytest
from IPython.core.error import UsageError

from pipemagic.notebook.arguments import Option, Positional, leading, parse, usage_of, words
from pipemagic.session.profiles import word

NAME, MAYBE = Positional("NAME", "a name"), Positional("MORE", "more", optional=True)
AS = Option("--as", "another name", "OTHER", short="-a")
FAST = Option("--fast", "a switch")
HOW = Option("--how", "a choice", "HOW", choices=("one", "two"))
USAGE = usage_of("%x", (NAME, MAYBE), (AS, FAST, HOW))


def parsed(line):
    return parse(line, (NAME, MAYBE), (AS, FAST, HOW), USAGE)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a b", ["a", "b"]),
        ('"my table" x', ["my table", "x"]),
        ("'it''s' x", ["it's", "x"]),
        ('"we""ird"', ['we"ird']),
        ("a\"b c\"d 'e'", ["ab cd", "e"]),
        ('""', [""]),
        ("  ", []),
        (r"C:\dir\x", [r"C:\dir\x"]),
        ("été '名 前'", ["été", "名 前"]),
    ],
)
def test_words_and_quotes(line, expected):
    assert [word.text for word in words(line)] == expected


@pytest.mark.parametrize("line", ['"a', "a'b", 'x "'])
def test_a_quote_without_its_partner_is_an_error(line):
    with pytest.raises(UsageError, match="a quote is not closed"):
        list(words(line))


def test_positionals_and_options_in_any_order():
    args = parsed("--as b a --fast --how=two c")
    assert (args["NAME"], args.get("MORE"), args.get("--as"), args.get("--how")) == ("a", "c", "b", "two")
    assert args.on("--fast")
    assert parsed("a -a b")["--as"] == "b"
    assert parsed("a").get("MORE") is None
    assert not parsed("a").on("--fast")


def test_a_quoted_word_is_never_an_option():
    assert parsed("'--fast'")["NAME"] == "--fast"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "NAME is missing\nusage: %x NAME"),
        ("a b c", "too many words\nusage: %x NAME"),
        ("a --fsat", r"unknown option --fsat, did you mean --fast\?"),
        ("a --zzzzzz", r"unknown option --zzzzzz\nusage"),
        ("a --as", "--as needs a value: --as OTHER"),
        ("a --fast=1", "--fast takes no value"),
        ("a --how three", "--how is one of one, two; not 'three'"),
    ],
)
def test_what_is_wrong_is_said_with_the_usage(line, message):
    with pytest.raises(UsageError, match=message):
        parsed(line)


def test_the_usage_line():
    assert USAGE == "%x NAME [MORE] [-a|--as OTHER] [--fast] [--how one|two]"


@pytest.mark.parametrize(
    "line",
    [
        "a --token abc123",
        "a --auth-token=abc123",
        "libsql://x.example?authToken=abc123",
        "a eyJhbGciOiJFZERTQSJ9.abc123.x",
        "a pmp_abc123abc123",
        "a pml_abc123abc123",
        "a --as 'Bearer abc123abc123abc123'",
        "a --jwt abc123",
        "a --jwt=abc123",
        "libsql://x.example?tls=1&jwt=abc123",
        "a authToken=abc123abc123abc123",
        "a --as \"jwt='abc123abc123abc123'\"",
        "a --as \"jwt='eyJhbGciOiJFZERTQSJ9.abc123.x'\"",
    ],
)
def test_a_token_on_the_line_is_refused_and_not_repeated(line):
    with pytest.raises(UsageError, match="a token does not go on the line of a magic") as caught:
        parsed(line)
    assert "abc123" not in str(caught.value)


@pytest.mark.parametrize(
    "condition",
    [
        "jwt='x'",
        "jwt = 'x' AND n > 1",
        "token = 'abc'",
        "token='abc'",
        "auth_token = :value",
        "jwt IS NOT NULL",
        "t.jwt=u.jwt",
    ],
)
def test_a_condition_on_a_column_is_not_taken_for_a_token(condition):
    assert parsed(f'a --as "{condition}"')["--as"] == condition


@pytest.mark.parametrize(
    ("line", "on", "rest"),
    [
        ("--as x SELECT 'a b'", "x", "SELECT 'a b'"),
        ("SELECT --as x", None, "SELECT --as x"),
        ("-- a comment", None, "-- a comment"),
        ("--", None, "--"),
        ("--as=x", "x", ""),
        ("--as 'x y' SELECT \"a", "x y", 'SELECT "a'),
        ("", None, ""),
        ("-1", None, "-1"),
    ],
)
def test_options_before_sql_end_where_the_sql_begins(line, on, rest):
    if line == "-1":
        with pytest.raises(UsageError, match="unknown option -1"):
            leading(line, (AS, FAST), USAGE)
        return
    args, left = leading(line, (AS, FAST), USAGE)
    assert (args.get("--as"), left) == (on, rest)


ODD = ["flights", "a b", "it's", 'q"q', "a'\"b", "-x", "é", "{x}", "a,b", "", "a\\b", "./a.csv"]


@pytest.mark.parametrize("name", ODD)
def test_what_is_written_as_a_word_is_read_as_it(name):
    assert [one.text for one in words(word(name))] == [name]
    assert parsed(word(name))["NAME"] == name
