"""The parser of magic lines."""

import pytest

from pipemagic.errors import UsageError
from pipemagic.notebook.arguments import (
    Option,
    Positional,
    at_least,
    duration,
    items,
    leading,
    names,
    parse,
    usage_of,
    words,
)
from pipemagic.text import word

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
def test_words_are_split_at_blanks_outside_quotes(line, expected):
    assert [word.text for word in words(line)] == expected


@pytest.mark.parametrize("line", ['"a', "a'b", 'x "'])
def test_an_unclosed_quote_is_an_error(line):
    with pytest.raises(UsageError, match="unclosed quote"):
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
        ("", "NAME is missing\n.*usage: %x NAME"),
        ("a b c", "too many arguments\n.*usage: %x NAME"),
        ("a --as b c d e", "too many arguments\n.*usage: %x NAME"),
        ("a b --as c d", r'too many arguments\n.*a value with spaces needs quotes: --as "\.\.\."$'),
        ("a --fsat", r"unknown option --fsat\n.*did you mean --fast\?$"),
        ("a --zzzzzz", r"unknown option --zzzzzz\n.*%pipedb help %x lists the options$"),
        ("a --as", "--as requires a value: --as OTHER"),
        ("a --as ''", "--as requires a value: --as OTHER"),
        ("a --as=", "--as requires a value: --as OTHER"),
        ("a --fast=1", "--fast takes no value"),
        ("a --as b --as=c", "--as can be used only once"),
        ("a --how three", "--how must be one of one, two, not 'three'$"),
        ("a --how onne", r"--how must be one of one, two, not 'onne'\n.*did you mean one\?$"),
    ],
)
def test_errors_show_the_usage(line, message):
    with pytest.raises(UsageError, match=message):
        parsed(line)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [(at_least(0), "0", 0), (at_least(1), "12", 12), (duration, "1.5m", 90.0), (names, 'a,"b,c"', ["a", "b,c"])],
)
def test_values_are_converted(type_, text, value):
    option = Option("--n", "a value", "N", type=type_, many=True)
    args = parse(f"--n '{text}' --n='{text}'", (), (option,), "%x")
    assert args["--n"] == value
    assert args.all("--n") == [value, value]


@pytest.mark.parametrize(
    ("type_", "text", "message"),
    [
        (at_least(1), "0", "--n must be a whole number of at least 1, not '0'"),
        (at_least(0), "-1", "--n must be a whole number of at least 0, not '-1'"),
        (at_least(0), "1" * 13, "--n must be a whole number"),
        (duration, "soon", "--n: 'soon' is not a duration"),
        (names, "a,,b", "--n a,,b: the list has an empty item\nHint: write --n a,b"),
    ],
)
def test_values_that_cannot_be_converted(type_, text, message):
    with pytest.raises(UsageError, match=message):
        parse(f"--n '{text}'", (), (Option("--n", "a value", "N", type=type_),), "%x")


def test_options_that_exclude_each_other():
    args = parsed("a --as b")
    assert args.one_of("--as", "--how") == "--as"
    assert args.one_of("--fast", "--how") is None
    with pytest.raises(UsageError, match="--fast and --how cannot be used together"):
        parsed("a --fast --how one").one_of("--as", "--fast", "--how")


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
    with pytest.raises(UsageError, match="tokens are not accepted on the line of a magic") as caught:
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
def test_a_condition_on_a_column_named_token_is_accepted(condition):
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
def test_options_end_where_the_sql_begins(line, on, rest):
    if line == "-1":
        with pytest.raises(UsageError, match="unknown option -1"):
            leading(line, (AS, FAST), USAGE)
        return
    args, left = leading(line, (AS, FAST), USAGE)
    assert (args.get("--as"), left) == (on, rest)


ODD = ["flights", "a b", "it's", 'q"q', "a'\"b", "-x", "é", "{x}", "a,b", "", "a\\b", "./a.csv"]


@pytest.mark.parametrize("name", ODD)
def test_a_quoted_word_parses_to_itself(name):
    assert [token.text for token in words(word(name))] == [name]
    assert parsed(word(name))["NAME"] == name


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


@pytest.mark.parametrize(
    ("line", "comment"),
    [
        ("a  # where am I?", "# where am I?"),
        ("a b # don't", "# don't"),
        ("a # x y z", "# x y z"),
        ("a b #note", "#note"),
        ("--fast # --how three", "# --how three"),
        ("# all", "# all"),
    ],
)
def test_a_comment_is_refused(line, comment):
    with pytest.raises(UsageError) as caught:
        parsed(line)
    assert str(caught.value) == f"comments are not allowed on a magic line\nHint: remove {comment}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [("#1 b", ["#1", "b"]), ("a '#'", ["a", "#"]), ('a "# b"', ["a", "# b"]), ("a b --as #", ["a", "b"])],
)
def test_a_word_with_a_number_sign_is_no_comment(line, expected):
    assert [parsed(line).get(name) for name in ("NAME", "MORE")] == expected
