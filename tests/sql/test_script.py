"""Tokens and statements of scripts compared with SQLite itself: the same statements, parameters and positions."""

import sqlite3
import time

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipemagic import sql

TRIGGER = (
    "CREATE TRIGGER tr AFTER INSERT ON t BEGIN UPDATE t SET b = 'x;' WHERE a = new.a; "
    "SELECT CASE WHEN 1 THEN 2 END; END"
)

# Scripts and the texts of their statements.
SCRIPTS = {
    "nothing": ("", []),
    "blanks": (" \n\t;;\r\n ; ", []),
    "only comments": ("-- a;b\n/* c;d */", []),
    "one": ("SELECT 1", ["SELECT 1"]),
    "semicolon": ("SELECT 1;", ["SELECT 1"]),
    "two": ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
    "comments around": ("-- x\nSELECT 1 -- y;\n; /* z; */ SELECT 2 /* w */", ["SELECT 1", "SELECT 2"]),
    "comments inside": ("SELECT /* ; */ 1, -- ;\n 2", ["SELECT /* ; */ 1, -- ;\n 2"]),
    "comments do not nest": ("SELECT 1 /* /* */; SELECT 2", ["SELECT 1", "SELECT 2"]),
    "stars in a comment": ("/***/SELECT 1/**//* ** / */;", ["SELECT 1"]),
    "strings": ("SELECT 'a;b', 'it''s;'; SELECT ';'", ["SELECT 'a;b', 'it''s;'", "SELECT ';'"]),
    "comments in strings": ("SELECT '--;', '/*'; SELECT '*/'", ["SELECT '--;', '/*'", "SELECT '*/'"]),
    "strings in comments": ("SELECT 1 -- it's;\n; SELECT 2 /* don't; */", ["SELECT 1", "SELECT 2"]),
    "quoted names": (
        'SELECT 1 AS "a;b", 2 AS `c;d`, 3 AS [e;f]; SELECT 1 AS "g"";"',
        ['SELECT 1 AS "a;b", 2 AS `c;d`, 3 AS [e;f]', 'SELECT 1 AS "g"";"'],
    ),
    "backslashes escape nothing": (r"SELECT '\'; SELECT '\'", [r"SELECT '\'", r"SELECT '\'"]),
    "blobs": ("SELECT x'3b', X''; SELECT 2", ["SELECT x'3b', X''", "SELECT 2"]),
    "trigger": (
        f"CREATE TABLE t(a, b); {TRIGGER}; SELECT 1",
        ["CREATE TABLE t(a, b)", TRIGGER, "SELECT 1"],
    ),
    "temporary trigger": (
        "CREATE TABLE t(a); create temp /* ; */ trigger x after delete on t begin select 1; select 2;\nend; SELECT 3",
        [
            "CREATE TABLE t(a)",
            "create temp /* ; */ trigger x after delete on t begin select 1; select 2;\nend",
            "SELECT 3",
        ],
    ),
    "explained trigger": (
        "CREATE TABLE t(a); EXPLAIN CREATE TRIGGER x AFTER DELETE ON t BEGIN SELECT 1; END; SELECT 2",
        ["CREATE TABLE t(a)", "EXPLAIN CREATE TRIGGER x AFTER DELETE ON t BEGIN SELECT 1; END", "SELECT 2"],
    ),
    "trigger with an end in quotes": (
        'CREATE TABLE t("END"); CREATE TRIGGER x AFTER DELETE ON t BEGIN SELECT 1; SELECT "END" FROM t; END',
        ['CREATE TABLE t("END")', 'CREATE TRIGGER x AFTER DELETE ON t BEGIN SELECT 1; SELECT "END" FROM t; END'],
    ),
    "a table named trigger": (
        "CREATE TABLE 'trigger'(a); SELECT 1",
        ["CREATE TABLE 'trigger'(a)", "SELECT 1"],
    ),
    "transaction": ("BEGIN; CREATE TABLE t(a); END; SELECT 1", ["BEGIN", "CREATE TABLE t(a)", "END", "SELECT 1"]),
    "case ends": ("SELECT CASE WHEN 1 THEN 2 END; SELECT 3", ["SELECT CASE WHEN 1 THEN 2 END", "SELECT 3"]),
    "other letters": ("SELECT 'é;😀' AS naïve; SELECT 1 AS 😀", ["SELECT 'é;😀' AS naïve", "SELECT 1 AS 😀"]),
    "byte order mark": ("\ufeffSELECT 1;\ufeff SELECT 2", ["SELECT 1", "SELECT 2"]),
    "operators": (
        """SELECT '{"a":[1]}'->'a'->>0, 1<<2>>1, 'a'||'b', 1<>2, 1!=2, -1--2
        , .5e-3, 0xFF; SELECT 2""",
        ["SELECT '{\"a\":[1]}'->'a'->>0, 1<<2>>1, 'a'||'b', 1<>2, 1!=2, -1--2\n        , .5e-3, 0xFF", "SELECT 2"],
    ),
    "windows lines": ("SELECT 1;\r\n-- x\r\nSELECT 2;\r\n", ["SELECT 1", "SELECT 2"]),
}  # fmt: skip

# Texts that end in the middle of something, or that SQLite cannot read.
BROKEN = {
    "open string": ("SELECT 1; SELECT 'a; b", ["SELECT 1", "SELECT 'a; b"]),
    "open string after two quotes": ("SELECT 'a''; b", ["SELECT 'a''; b"]),
    "open name": ('SELECT "a; b', ['SELECT "a; b']),
    "open bracket": ("SELECT [a; b", ["SELECT [a; b"]),
    "open backtick": ("SELECT `a; b", ["SELECT `a; b"]),
    "open blob": ("SELECT x'00; b", ["SELECT x'00; b"]),
    "open trigger": (
        "CREATE TRIGGER x AFTER DELETE ON t BEGIN SELECT 1; SELECT 2",
        ["CREATE TRIGGER x AFTER DELETE ON t BEGIN SELECT 1; SELECT 2"],
    ),
    "a no-break space is a letter": ("SELECT\xa01; SELECT 2", ["SELECT\xa01", "SELECT 2"]),
    "slash star at the end": ("SELECT 1 /*", ["SELECT 1 /*"]),
}


@pytest.mark.parametrize(("script", "texts"), [*SCRIPTS.values(), *BROKEN.values()], ids=[*SCRIPTS, *BROKEN])
def test_a_script_is_split(script, texts):
    statements = sql.split(script)
    assert [statement.text for statement in statements] == texts
    for statement in statements:
        assert script[statement.start :].startswith(statement.text)


@pytest.mark.parametrize(("script", "texts"), SCRIPTS.values(), ids=SCRIPTS)
def test_each_statement_is_complete_for_sqlite(script, texts):
    for text in texts:
        assert sqlite3.complete_statement(text + ";")
        # No earlier semicolon completes it.
        for place, char in enumerate(text):
            if char == ";":
                assert not sqlite3.complete_statement(text[: place + 1])


def statements_of_sqlite(script):
    """Split as SQLite does: prepare, run, go on where it stopped to read."""
    database = apsw.Connection(":memory:")
    texts = []

    def note(cursor, statement, bindings):
        texts.append(statement)
        return True

    database.exec_trace = note
    database.execute(script).fetchall()
    database.close()
    return texts


@pytest.mark.parametrize(("script", "texts"), SCRIPTS.values(), ids=SCRIPTS)
def test_sqlite_itself_runs_the_same_statements(script, texts):
    ran = [sql.split(text) for text in statements_of_sqlite(script)]
    assert [statement.text for part in ran for statement in part] == texts
    assert all(len(part) <= 1 for part in ran)


@pytest.mark.parametrize(("script", "texts"), SCRIPTS.values(), ids=SCRIPTS)
def test_one_by_one_the_statements_do_what_the_script_does(script, texts):
    whole, single = (sqlite3.connect(":memory:", isolation_level=None) for _ in range(2))
    whole.executescript(script)
    for statement in sql.split(script):
        single.execute(statement.text).fetchall()
    assert list(whole.iterdump()) == list(single.iterdump())
    whole.close()
    single.close()


pieces = st.sampled_from(
    ["'", "''", '"', "`", "[", "]", "--", "/*", "*/", ";", "\n", " ", "\t", "\r", "\x0b", "\f", "\xa0", "x'", "X", "a",
     "SELECT", "CREATE", "TRIGGER", "TEMP", "BEGIN", "END", "EXPLAIN", "QUERY", "PLAN", "CASE", "1", "1.5", "1e5",
     "0x1F", ".", "?", "?1", "?12", ":a", "@b", "$c", ":a::b(c)", "::", "#", "(", ")", ",", "|", "||", "->", "->>",
     "<", "=", "!", "é", "😀", "\ufeff", "_", "$", "\\", "%"]
)  # fmt: skip
scripts = st.text() | st.lists(pieces, max_size=40).map("".join) | st.lists(pieces, max_size=40).map(" ".join)


@given(scripts)
@example("'")
@example("\0")
def test_the_tokens_joined_are_the_text_again(script):
    found = list(sql.tokens(script))
    assert "".join(token.text for token in found) == script
    assert [token.start for token in found] == [
        sum(len(token.text) for token in found[:number]) for number in range(len(found))
    ]


@given(scripts)
def test_the_statements_hold_everything_but_blanks_comments_and_semicolons(script):
    kept = "".join(
        token.text
        for statement in sql.split(script)
        for token in sql.tokens(statement.text)
        if token.kind not in ("space", "comment", "semi")
    )
    meant = "".join(token.text for token in sql.tokens(script) if token.kind not in ("space", "comment", "semi"))
    assert kept == meant


@given(scripts)
def test_splitting_again_changes_nothing(script):
    for statement in sql.split(script):
        assert [again.text for again in sql.split(statement.text)] == [statement.text]


@given(st.lists(pieces, max_size=30).map(" ".join))
def test_sqlite_finds_the_end_where_we_do(script):
    """`sqlite3_complete` says: the text ends outside of strings, comments and triggers, after a semicolon."""
    found = [token for token in sql.tokens(script) if token.kind not in ("space", "comment")]
    last = sql.split(script)[-1:]
    whole = bool(found) and found[-1].kind == "semi"
    # A trigger that is not whole keeps the last semicolon as its own.
    whole = whole and not (last and last[0].start + len(last[0].text) > found[-1].start)
    open_comment = any(
        token.kind == "comment"
        and token.text.startswith("/*")
        and (len(token.text) < 4 or not token.text.endswith("*/"))
        for token in sql.tokens(script)
    )
    strange = any(letter in script for letter in "\x0b\ufeff")  # `sqlite3_complete` has a simpler idea of these
    if not open_comment and not strange and "EXPLAIN" not in script:
        assert sqlite3.complete_statement(script) == whole


PARAMETERS = [
    "SELECT 1",
    "SELECT ?, ?",
    "SELECT ?3",
    "SELECT ?3, ?",
    "SELECT ?, ?1, ?2, ?",
    "SELECT :a, :b, :a",
    "SELECT :a, @a, $a",
    "SELECT :a, ?, :a, ?",
    "SELECT ?2, :a, ?2, ?1",
    "SELECT ?002, ?2, ?",
    "SELECT $a::b, $::c, $d::, $e(x), $f::g(h;i), :j(k)",
    "SELECT '?', 1 AS \"?\", 2 AS [?], 3 AS `:a`, -- ?\n ? /* :b */",
    "SELECT x'00', ?",
    "SELECT :é, @😀, $x$y, :1, :_",
    "SELECT a.b FROM (SELECT 1 AS b) AS a WHERE b=:c||:d",
    "SELECT '{\"a\":1}'->>:key",
    "SELECT #a",
    "SELECT ?32766",
    "INSERT INTO t VALUES (?,?),(?,?)",
    "WITH x(a) AS (VALUES(:a)) SELECT * FROM x WHERE a IN (?, ?)",
]


@pytest.mark.parametrize("text", PARAMETERS)
def test_parameters_are_numbered_as_sqlite_does(text):
    (statement,) = sql.split(text)
    seen = {}

    def note(cursor, _statement, _bindings):
        seen["count"], seen["names"] = cursor.bindings_count, cursor.bindings_names
        return False

    database = apsw.Connection(":memory:")
    database.execute("CREATE TABLE t(a, b)")
    cursor = database.cursor()
    cursor.exec_trace = note
    with pytest.raises(apsw.ExecTraceAbort):
        cursor.execute(text, apsw_values(len(statement.parameters)))
    database.close()
    assert seen["count"] == len(statement.parameters)
    assert seen["names"] == tuple(name and name[1:] for name in statement.parameters)


def apsw_values(count):
    return (None,) * count


@given(
    st.lists(st.sampled_from(["?", "?1", "?5", "?07", ":a", ":b", "@a", "$a", "$a::b", ":é", "'?'", "1"]), min_size=1)
)
def test_any_parameters_are_numbered_as_sqlite_does(parameters):
    test_parameters_are_numbered_as_sqlite_does("SELECT " + ", ".join(parameters))


@pytest.mark.parametrize("text", ["SELECT ?0", "SELECT ?32767", "SELECT ?" + "9" * 5000, "SELECT :a(b"])
def test_a_parameter_that_sqlite_refuses_is_not_one(text):
    (statement,) = sql.split(text)
    assert statement.parameters == ()
    with pytest.raises(apsw.SQLError):
        apsw.Connection(":memory:").execute(text, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", "SELECT"),
        (" /* x */ -- y\n with a as (select 1) select 1", "WITH"),
        (";;begin", "BEGIN"),
        ("(SELECT 1)", ""),
        ("'SELECT'", ""),
        ("", ""),
    ],
)
def test_the_keyword_is_the_first_word(text, expected):
    assert sql.parse(text).keyword == expected


def test_statements_know_their_place_and_line():
    script = "-- é😀\nSELECT 1;\n\n  SELECT '\n';SELECT 3\n"
    assert [(s.start, s.line, s.keyword) for s in sql.split(script)] == [
        (6, 2, "SELECT"),
        (19, 4, "SELECT"),
        (30, 5, "SELECT"),
    ]


def test_offsets_in_bytes_become_offsets_in_characters():
    text = "SELECT 'é😀', nme"
    byte_offset = text.encode().index(b"nme")
    assert sql.character_offset(text, byte_offset) == text.index("nme")
    assert sql.character_offset(text, -1) == 0
    assert sql.character_offset(text, 10_000) == len(text)
    assert sql.character_offset("a\ud800b", 2) == 2  # cannot be sent, but a message about it can be drawn


@given(st.text(), st.integers(-5, 500))
def test_any_byte_offset_is_a_place_in_the_text(text, byte_offset):
    place = sql.character_offset(text, byte_offset)
    assert 0 <= place <= len(text)
    line, column = sql.position(text, place)
    lines = text.split("\n")
    assert 0 <= column <= len(lines[line - 1])
    assert len("\n".join([*lines[: line - 1], lines[line - 1][:column]])) == place


@pytest.mark.parametrize(
    ("text", "place", "drawn"),
    [
        ("SELEC 1", 0, "SELEC 1\n^"),
        ("SELECT 1,\n  nme\nFROM t", 12, "  nme\n  ^"),
        ("SELECT 'é', nme", 12, "SELECT 'é', nme\n            ^"),
        ("SELECT '日本', nme", 13, "SELECT '日本', nme\n               ^"),
        ("SELECT '😀', nme", 12, "SELECT '😀', nme\n             ^"),
        ("SELECT 'e\u0301', nme", 13, "SELECT 'e\u0301', nme\n            ^"),
        ("\tSELECT\tnme\r\n", 8, " SELECT nme\n        ^"),
        ("SELECT", 6, "SELECT\n      ^"),
        ("", 0, "\n^"),
        ("a\x1b[31mb", 6, "a [31mb\n      ^"),
    ],
)
def test_the_caret_stands_below_the_place(text, place, drawn):
    assert sql.caret(text, place) == drawn


@given(st.integers(0, 999))
def test_a_long_line_is_cut_around_the_caret(place):
    text = "".join(chr(ord("a") + number % 26) for number in range(1000))
    shown, below = sql.caret(text, place).split("\n")
    assert len(shown) <= 76
    assert shown[len(below) - 1] == text[place]


@pytest.mark.parametrize("name", ["a", 'a"b', "a;b", "select", "😀", " ", "a\nb", "--", "'"])
def test_a_quoted_name_is_that_name(name):
    with sqlite3.connect(":memory:") as database:
        cursor = database.execute(f"SELECT 1 AS {sql.quote(name)}")
    assert cursor.description[0][0] == name
    database.close()
    assert len(sql.split(f"SELECT 1 AS {sql.quote(name)}")) == 1


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_invalid_names_are_refused(name):
    with pytest.raises(ValueError, match="cannot be a name in SQL"):
        sql.quote(name)


UNITS = [
    "'", "''", "'';", '"', "/*", "/*a*/", "--", "-", "[", "`", ":a(", "$", "::", ":", "?9,", "x'", "(",
    "SELECT 1;", "CREATE TRIGGER a BEGIN x;", "1.", "1e", "0x", "\n", "\ufeff", "é", "\x0b", "a ", "@a::", "*/",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_the_time_is_linear(unit):
    """300 kB of anything take 1 s of the CPU at most: what is quadratic takes many, even if it only copies the rest."""
    script = (unit * (300_000 // len(unit) + 1))[:300_000]
    start = time.process_time()
    sql.split(script)
    assert time.process_time() - start < 3


def test_the_time_is_linear_in_the_number_of_names():
    names = [f":name{number}" for number in range(100_000)]
    start = time.process_time()
    (statement,) = sql.split("SELECT " + ",".join(names))
    assert time.process_time() - start < 10
    assert statement.parameters == tuple(names)


@pytest.mark.parametrize(("text", "complete"), [
    ("", True), ("  -- only a comment", True), ("SELECT 1", False), ("SELECT 1;", True), ("SELECT ';", False),
    ("SELECT 1; -- done", True), ("SELECT 1; /* goes on", False), ("SELECT 1; /*/", False),
    ("SELECT 1; SELECT 2", False), (";", True),
    ("CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1;", False),
    ("CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END;", True), ('SELECT "a;', False), ("SELECT [a;", False),
])  # fmt: skip
def test_complete_and_incomplete_statements(text, complete):
    assert sql.is_complete(text) is complete


@given(text=st.text(alphabet="'\"`[]/*-$ax(1) \n", max_size=8))
@example("/*/")
@example("/*")
@example("$a(b")
@example("x'0")
def test_only_an_unfinished_token_continues_in_the_text_behind_it(text):
    tokens = list(sql.tokens(text))
    for last in tokens[-1:]:
        behind = ")" if last.kind == "param" else "\n"  # a line ends a comment that has no other end
        before = len(tokens) - 1  # `/` and `*` become one comment, so there may be fewer
        continues = [token.text for token in list(sql.tokens(text + behind))[before : before + 1]] != [last.text]
        assert last.is_finished is not (continues and last.kind not in ("op", "space"))


@given(
    pieces=st.lists(st.sampled_from([
        "SELECT ", "1", ";", "'it''s; '", "--c;\n", "/* ; */", "/", "*", "-", "x'00'", "x", "1e", "+5", "\n", '"q;"',
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END;", "BEGIN", " END", "$a", "::", "(b)", "[;]", "`;`",
    ]), max_size=30), size=st.integers(1, 9),
)  # fmt: skip
def test_a_script_in_chunks_has_the_statements_of_the_whole(pieces, size):
    text = "".join(pieces)
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    found = [[statement.text for statement in sql.split(part)] for part in sql.statements_of(chunks)]
    assert [statement for part in found for statement in part] == [statement.text for statement in sql.split(text)]
    assert all(len(part) == 1 for part in found)
