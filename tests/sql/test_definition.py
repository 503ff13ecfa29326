"""Definitions from a schema: exactly those that SQLite stores, and nothing that would do anything else."""

from __future__ import annotations

import random
from collections.abc import Iterator

import apsw
import pytest

from pipemagic import sql

BEFORE = [
    "CREATE TABLE t(a, b INT, [c d])",
    "CREATE TABLE y(a)",
    "INSERT INTO y VALUES (7)",
    "CREATE VIEW u AS SELECT 1",
]


@pytest.mark.parametrize(
    ("text", "kind", "name", "table"),
    [
        ("CREATE TABLE t(a)", "table", "t", "t"),
        ("CREATE TABLE 't_data'(id INTEGER PRIMARY KEY, block BLOB)", "table", "t_data", "t_data"),
        ("CREATE TABLE [a ]/* ( */( a -- )\n, b CHECK (b <> ')')) STRICT,WITHOUT\nROWID -- c", "table", "a ", "a "),
        ("CREATE TABLE t(x) RANDOM ROWID", "table", "t", "t"),
        ("CREATE INDEX i ON T(a COLLATE nocase DESC, abs(b)) WHERE a <> ';' /* open", "index", "I", "t"),
        ('CREATE UNIQUE INDEX `i``j` on "a.b"(x)', "index", "i`j", "a.b"),
        ("CREATE VIEW v(a, b) AS VALUES (1, 2)", "view", "v", "v"),
        ("CREATE VIEW [v] AS WITH c AS (SELECT 1) SELECT * FROM c", "view", "v", "v"),
        ('CREATE TRIGGER g AFTER INSERT ON main."t" BEGIN SELECT 1; END', "trigger", "g", "t"),
        ("CREATE TRIGGER g INSTEAD OF UPDATE OF a, \"on\" ON v WHEN new.a BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; "
         "SELECT 2; END", "trigger", "g", "v"),
        ("CREATE TRIGGER begin DELETE ON begin BEGIN DELETE FROM begin; END;", "trigger", "begin", "begin"),
        ("CREATE INDEX É ON été(ü)", "index", "É", "été"),
    ],
)  # fmt: skip
def test_definitions(text, kind, name, table):
    found = sql.parse_definition(text)
    assert found is not None
    assert found.creates(kind, name, table)
    assert not found.creates(kind, f"{name}x", table)
    assert not found.creates(kind, name, f"{table}x")
    assert not found.creates("trigger" if kind == "table" else "table", name, table)


def test_names_differ_as_in_sqlite():
    found = sql.parse_definition("CREATE TABLE É(a)")
    assert found is not None
    assert not found.creates("table", "é", "é")


def test_new_names():
    found = sql.parse_definition("CREATE INDEX[i]ON[t]([t], i)")
    assert found is not None
    assert found.renamed('j"', "u") == 'CREATE INDEX"j"""ON"u"([t], i)'
    found = sql.parse_definition("  CREATE TABLE t(t) /* ")
    assert found is not None
    assert found.renamed("a b") == 'CREATE TABLE "a b"(t)'


@pytest.mark.parametrize(
    "text",
    [
        "", ";", "-- CREATE TABLE t(a)", "SELECT 1", "CREATE", "CREATE TABLE", "CREATE TABLE t", "CREATE TRIGGER",
        "CREATE TABLE t AS SELECT * FROM y", "CREATE TABLE t(a) AS SELECT a FROM y", "CREATE TABLE t AS VALUES (1)",
        "CREATE TEMP TABLE t(a)", "CREATE TEMPORARY TABLE t(a)", "CREATE TABLE IF NOT EXISTS t(a)",
        "CREATE TABLE main.t(a)", "CREATE TABLE temp . t(a)", "CREATE VIRTUAL TABLE t USING fts5(a)",
        "CREATE TABLE t(a); DROP TABLE y", "CREATE TABLE t(a;b)", "CREATE TABLE t(a", "CREATE TABLE t(a))",
        "CREATE TABLE t)(", "CREATE TABLE t(a, 'b)", "CREATE TABLE t(a /* )", "CREATE TABLE t(a DEFAULT x'00)",
        "CREATE TABLE t(a DEFAULT ?)", "CREATE TABLE t(a DEFAULT :a)", "CREATE TABLE t(a)\0", "CREATE TABLE t(a \0)",
        "CREATE TABLE t(a DEFAULT {1})", "CREATE TABLE x'00'(a)", "CREATE TABLE 5(a)", "CREATE TABLE t(a) 'STRICT'",
        "EXPLAIN CREATE TABLE t(a)", '"CREATE" TABLE t(a)', "CREATE 'TABLE' t(a)", "CREATE TABLE (a)",
        "CREATE INDEX i ON t", "CREATE INDEX i ON t(a) a", "CREATE INDEX i ON t(a), u(b)", "CREATE INDEX i t(a)",
        "CREATE INDEX IF NOT EXISTS i ON t(a)", "CREATE INDEX temp.i ON t(a)", "CREATE INDEX i ON main.t(a)",
        "CREATE INDEX i ON t(a) WHERE a; DROP TABLE y", "CREATE UNIQUE UNIQUE INDEX i ON t(a)", "REINDEX i",
        "CREATE INDEX i ON (a)(b)", "CREATE \u0131NDEX i ON t(a)",
        "CREATE VIEW v", "CREATE VIEW v AS", "CREATE VIEW v AS DELETE FROM y", "CREATE TEMP VIEW v AS SELECT 1",
        "CREATE VIEW main.v AS SELECT 1", "CREATE VIEW v AS SELECT 1; DROP TABLE y", "CREATE VIEW v() () AS SELECT 1",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END; DROP TABLE y",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END; DROP TABLE y; END",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END END", "CREATE TRIGGER g AFTER INSERT ON t; END",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1;", "CREATE TRIGGER g AFTER INSERT ON t BEGIN END",
        "CREATE TRIGGER g AFTER INSERT ON temp.t BEGIN SELECT 1; END", "CREATE TRIGGER g BEGIN SELECT 1; END",
        "CREATE TRIGGER main.g AFTER INSERT ON t.t BEGIN SELECT 1; END", "CREATE TRIGGER g ON BEGIN; END",
        "CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END", "CREATE TRIGGER ON; END",
        "CREATE TRIGGER IF NOT EXISTS g AFTER INSERT ON t BEGIN SELECT 1; END",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text):
    found = sql.parse_definition(text)
    assert found is None or not found.creates(found.kind, "g", "t")


@pytest.mark.parametrize("end", ["", " ", " -- end", " -- end\n", " /* end */", " /* end", " /*/", " /* end *"])
def test_a_semicolon_ends_a_definition(end):
    both = sql.terminated(f"CREATE TABLE t(a) STRICT{end}") + sql.terminated("CREATE VIEW v AS SELECT 1")
    assert [statement.text for statement in sql.split(both)] == [
        "CREATE TABLE t(a) STRICT",
        "CREATE VIEW v AS SELECT 1",
    ]


# -- SQLite decides


NAMES = [
    "t", "T", '"a b"', "[x.y]", "`q``r`", "'s'", '"a""b"', "été", "É", "😀", "[;]", "'--'", '"/*"', "begin", "abort",
    "[select]", "_1", "a$b", "'it''s'", "`)`", "\ufeffx",
]  # fmt: skip
BLANKS = [" ", "  ", "\n", "\t", " /* c */ ", " -- ; )\n", "/**/", "\r\n", " /* 'open */ ", "\f"]
TYPES = ["", "INT", "TEXT", "VARCHAR ( 9 )", "DECIMAL(10,-2)", "[my type]", "'x''y' z", "UNSIGNED BIG INT", "GENERATED"]
VALUES = ["1", "-1.5e3", "'a;b'", "x'00ff'", "NULL", "(1 + 2)", "CURRENT_TIMESTAMP", "('it''s')", "0x1F", "true"]
CONSTRAINTS = [
    "NOT NULL", "UNIQUE", "COLLATE nocase", "DEFAULT {value}", "CHECK (a <> {value})", "CONSTRAINT {name} NOT NULL",
    "REFERENCES y (a) ON DELETE CASCADE", "NULL ON CONFLICT IGNORE", "PRIMARY KEY DESC", "CHECK (x IS NOT ';')",
]  # fmt: skip


class Maker:
    """Makes statements of random parts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, template: str) -> str:
        """Return a statement with random names, values, case and blanks."""
        while "{" in template:
            before, _, rest = template.partition("{")
            what, _, after = rest.partition("}")
            template = f"{before}{self.part(what)}{after}"
        return "".join(map(self.blank, sql.tokens(template)))

    def part(self, what: str) -> str:
        pick = self.random.choice
        match what:
            case "name":
                return pick(NAMES)
            case "value":
                return pick(VALUES)
            case "type":
                return pick(TYPES)
            case "maybe name":
                return pick([" IF NOT EXISTS main.{name}", " main . {name}", " {name}", " {name}", " {name}"])
            case "constraints":
                return " ".join(self.random.sample(CONSTRAINTS, pick([0, 0, 1, 2])))
            case "column":
                return pick(
                    ["a", "b", "[c d]", "a COLLATE nocase", "b DESC", "abs(b)", "a || ';'", "a ASC", "coalesce(a, (b))"]
                )
            case "where":
                return pick(["", "", " WHERE a > {value}", " WHERE b IS NOT NULL AND a NOT IN (1, ';', ')')"])
            case "options":
                return pick(["", "", "", " STRICT", " WITHOUT ROWID", " STRICT, WITHOUT ROWID"])
            case "select":
                return pick([
                    "SELECT a, b FROM t WHERE b = {value}", "VALUES ({value}, 2)",
                    "WITH c(x) AS (SELECT a FROM y) SELECT x, 1 FROM c",
                    "SELECT CASE a WHEN 1 THEN ';' ELSE 2 END, b FROM t UNION ALL SELECT 1, {value}",
                ])  # fmt: skip
            case "command":
                return pick([
                    "SELECT 1;", "DELETE FROM y WHERE a = {value};", "INSERT INTO y VALUES ({value});",
                    "UPDATE t SET a = CASE WHEN b THEN 1 ELSE 2 END;", "SELECT RAISE(IGNORE) WHERE {value};",
                ])  # fmt: skip
            case "event":
                return pick(["DELETE", "INSERT", "UPDATE", "UPDATE OF a", "UPDATE OF a, [c d]"])
            case "on":
                return pick(["t", "main.t", '"T"', "[t]"])
        return pick(["", " BEFORE", " AFTER"])

    def blank(self, token: sql.Token) -> str:
        """Write a token of a template: a blank as another one, a word in any case."""
        if token.kind == "space":
            return self.random.choice(BLANKS)
        if token.kind == "word" and token.text.isupper() and token.text.isascii():
            return self.random.choice([token.text, token.text, token.text.lower(), token.text.title()])
        return token.text

    def statement(self) -> str:
        template = self.random.choice([
            "CREATE TABLE{maybe name}({name} {type} {constraints}, x {type} {constraints}, a){options}",
            "CREATE TABLE{maybe name}(x, a {type} AS (x + 1) STORED, PRIMARY KEY (x), CHECK (a > {value})){options}",
            "CREATE TABLE{maybe name} AS SELECT * FROM t", "CREATE TEMP TABLE {name}(a)",
            "CREATE INDEX{maybe name} ON t({column}, {column}){where}",
            "CREATE UNIQUE INDEX{maybe name} ON [T]({column}){where}",
            "CREATE VIEW{maybe name} AS {select}", "CREATE VIEW{maybe name}(v, w) AS {select}",
            "CREATE TEMPORARY VIEW {name} AS {select}",
            "CREATE TRIGGER{maybe name}{time} {event} ON {on} BEGIN {command} END",
            "CREATE TRIGGER{maybe name}{time} {event} ON {on} FOR EACH ROW WHEN {value} BEGIN {command}{command} END",
            "CREATE TRIGGER{maybe name} INSTEAD OF INSERT ON u BEGIN {command} END",
            "CREATE TEMP TRIGGER {name} AFTER INSERT ON t BEGIN {command} END",
        ])  # fmt: skip
        return self.text(template) + self.random.choice(["", "", ";", " ", " -- end", " /* end", "\n;;"])

    def mutated(self, text: str) -> str:
        """Return the text with some tokens lost, doubled, swapped or added."""
        pieces = [token.text for token in sql.tokens(text)]
        for _ in range(self.random.choice([1, 1, 2, 3])):
            at, new = self.random.randrange(len(pieces) + 1), self.random.choice(ADDED)
            match self.random.randrange(5):
                case 0:
                    del pieces[at : at + 1]
                case 1:
                    pieces[at:at] = pieces[at : at + 1]
                case 2:
                    pieces[at : at + 2] = reversed(pieces[at : at + 2])
                case 3:
                    pieces[at : at + 1] = [new]
                case _:
                    pieces.insert(at, new)
        return "".join(pieces)


ADDED = [
    ";", "; DROP TABLE y", "; DROP TABLE y; --", "'", '"', "[", "]", "`", "/*", "*/", "--", "(", ")", " TEMP ",
    " IF NOT EXISTS ", "temp.", "main.", " AS SELECT * FROM y", " AS ", "\0", "; END", " END", " BEGIN ", ",", "?",
    ":p", "$p", "{", "!", "\\", "x'0", " ON y ", " ON t ", " t ", " y ", " WHERE ", " CREATE ", " TABLE ", " TRIGGER ",
    " VIEW ", " UNIQUE ", " INDEX ", " VIRTUAL ", " USING fts5 ", "; DELETE FROM y", "; DELETE FROM y; END",
    "; END; DELETE FROM y; SELECT 1; END", " STRICT", " WITHOUT ROWID", "\ufeff", "1a", "\n", "; COMMIT", " EXPLAIN ",
    " SELECT 1",
]  # fmt: skip


class Outcome:
    """What SQLite does with a text in a new database.

    ``count`` is the number of statements that began, ``failed`` is True if one failed, ``reads`` are the tables whose
    columns are read, ``made`` the new objects, and ``gone`` is True if anything was lost.
    """

    def __init__(self, text: str) -> None:
        connection = apsw.Connection(":memory:")
        for statement in BEFORE:
            connection.execute(statement)
        before = set(self.schema(connection))
        self.count, self.failed, self.reads = 0, False, set[str | None]()
        connection.exec_trace, connection.authorizer = self._begin, self._authorize
        try:
            connection.execute(text)
        except apsw.Error:
            self.failed = True
        connection.exec_trace = connection.authorizer = None
        self.gone = before - set(self.schema(connection)) or connection.execute("SELECT a FROM y").fetchall() != [(7,)]
        self.made = [row for row in self.schema(connection) if row not in before and row[-1] is not None]
        connection.close()

    def _begin(self, *_: object) -> bool:
        self.count += 1
        return True

    def _authorize(self, action: int, first: str | None, *_: object) -> int:
        if action == apsw.SQLITE_READ:
            self.reads.add(first)
        return apsw.SQLITE_OK

    @staticmethod
    def schema(connection: apsw.Connection) -> list[tuple]:
        columns = "type, name, tbl_name, sql FROM"
        parts = [f"SELECT {number}, {columns} {name}.sqlite_schema" for number, name in enumerate(["main", "temp"])]
        tables = connection.execute(" UNION ALL ".join(parts)).fetchall()
        return [row for row in tables if not row[2].startswith("sqlite_")]


def check_sound(text: str) -> bool:
    """Check that an accepted text is one statement, which makes what it says or fails; return True if it makes it."""
    found = sql.parse_definition(text)
    if found is None:
        return False
    outcome = Outcome(found.text)
    assert not outcome.gone, text
    assert "y" not in outcome.reads, text
    if outcome.failed:
        assert outcome.count <= 1, text
        assert outcome.made == [], text
        return False
    assert outcome.count == 1, text
    ((schema, kind, name, table, stored),) = outcome.made
    assert (schema, stored) == (0, "CREATE" + stored[6:]), text
    assert found.creates(kind, name, table), text
    return True


def cases(count: int) -> Iterator[tuple[Maker, str]]:
    for seed in range(count):
        maker = Maker(seed)
        yield maker, maker.statement()


def test_every_definition_that_sqlite_stores_is_accepted(soak):
    made: dict[str, int] = {}
    for _, text in cases(30_000 if soak else 1_000):
        outcome = Outcome(text)
        for schema, kind, name, table, stored in outcome.made:
            found = sql.parse_definition(stored)
            assert found is not None, stored
            assert found.creates(kind, name, table), stored
            made[kind] = made.get(kind, 0) + 1
            if schema == 0:
                assert check_sound(stored), stored
                renamed = Outcome(found.renamed("a new\"; '--"))
                assert [row[:3] for row in renamed.made] == [(0, kind, "a new\"; '--")], stored
    assert all(made[kind] > 60 for kind in ("table", "index", "view", "trigger")), made


def test_no_other_text_is_accepted(soak):
    accepted = 0
    for maker, text in cases(80_000 if soak else 2_000):
        changed = maker.mutated(text)
        accepted += check_sound(changed)
        for *_, kind, name, table, stored in Outcome(changed.partition("\0")[0]).made:
            if not stored.upper().startswith("CREATE VIRTUAL"):
                found = sql.parse_definition(stored)
                assert found is not None, stored
                assert found.creates(kind, name, table), stored
    assert accepted > 60
