"""Completion through the completer of the shell; it sends nothing."""

from __future__ import annotations

import logging
import socket
from dataclasses import replace

import pandas as pd
import pytest
from IPython.core.completer import provisionalcompleter
from waiting import until

from pipemagic.explore.schema import Column, ForeignKey, Relation
from pipemagic.explore.sqlite_reference import FUNCTIONS
from pipemagic.notebook.commands import COMMANDS, DAILY
from pipemagic.notebook.completion import magic_line
from pipemagic.notebook.completion.candidates import KnownNames


def untyped(*names):
    return [(name, "") for name in names]


AIRPORT = Relation.of("airport", [("code", "TEXT"), ("name", "TEXT"), ("city name", "VARCHAR(20)")])
CARRIER = Relation("carrier", columns=(Column("id", "INTEGER", key=1), Column("name", "TEXT")))
FLIGHT = replace(
    Relation.of("flight", [
        ("id", "INTEGER"), ("origin", "TEXT"), ("dest", "TEXT"), ("carrier_id", "INT"), ("to", ""),
        ("größe", "DOUBLE PRECISION"),
    ]),
    foreign_keys=(ForeignKey(("origin",), "airport", ("code",)), ForeignKey(("carrier_id",), "carrier")),
)  # fmt: skip
HOSTILE = Relation.of('we"ird <script>', untyped("a b", 'x"y', "select", "bell\x07", "ünï", "😀"), "view")
TABLES = [AIRPORT, CARRIER, FLIGHT, HOSTILE, Relation.of("odd]", untyped("a,b", '"full"', " a", "plain"))]


def tab(shell, cell):
    """Press Tab at the | of a cell; return the cell with each completion, and the completions."""
    at = cell.index("|")
    text = cell[:at] + cell[at + 1 :]
    with provisionalcompleter():
        found = list(shell.ip.Completer.completions(text, at))
    return [
        (text[: completion.start] + completion.text + text[completion.end :]).removeprefix("%%sql\n")
        for completion in found
    ], found


def offers(shell, cell):
    return [completion.text for completion in tab(shell, cell)[1]]


def body(shell, sql):
    return tab(shell, f"%%sql\n{sql}")[0]


@pytest.fixture
def known(shell, monkeypatch):
    """A shell that knows some tables without a connection."""
    monkeypatch.setattr(KnownNames, "tables", lambda known, on: TABLES)
    return shell


COLUMNS = ["id", "origin", "dest", "carrier_id", '"to"', "größe"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("sel|", ["SELECT"]),
        ("SELECT f.| FROM flight f", [f"SELECT f.{name} FROM flight f" for name in COLUMNS]),
        ("SELECT F.OR| FROM flight AS f", ["SELECT F.origin FROM flight AS f"]),
        ("SELECT flight.des| FROM flight WHERE", ["SELECT flight.dest FROM flight WHERE"]),
        ("SELECT main.flight.des| FROM main.flight", ["SELECT main.flight.dest FROM main.flight"]),
        ("SELECT * FROM main.fl|", ["SELECT * FROM main.flight"]),
        ("SELECT * FROM fl|", ["SELECT * FROM flight"]),
        ("SELECT * FROM we|", ['SELECT * FROM "we""ird <script>"']),
        ("SELECT * FROM `we|", ['SELECT * FROM `we"ird <script>`']),
        ('SELECT * FROM "we""i|" WHERE', ['SELECT * FROM "we""ird <script>" WHERE']),
        (
            'SELECT w.| FROM "we""ird <script>" w',
            [f'SELECT w.{name} FROM "we""ird <script>" w' for name in ['"a b"', '"x""y"', '"select"', "ünï", "😀"]],
        ),
        ("WITH q AS (SELECT id, name AS n FROM carrier) SELECT q.| FROM q",
         ["WITH q AS (SELECT id, name AS n FROM carrier) SELECT q.id FROM q",
          "WITH q AS (SELECT id, name AS n FROM carrier) SELECT q.n FROM q"]),
        ("WITH q(aa, ab) AS (VALUES (1, 2)) SELECT aa|", ["WITH q(aa, ab) AS (VALUES (1, 2)) SELECT aa"]),
        ("WITH q(aa, ab) AS (VALUES (1, 2)) SELECT aa| FROM q",
         ["WITH q(aa, ab) AS (VALUES (1, 2)) SELECT aa FROM q"]),
        ("WITH quite AS (SELECT 1) SELECT * FROM qui|", ["WITH quite AS (SELECT 1) SELECT * FROM quite"]),
        ("SELECT s.| FROM (SELECT c.*, count(*) AS n FROM carrier c) s",
         [f"SELECT s.{name} FROM (SELECT c.*, count(*) AS n FROM carrier c) s" for name in ("id", "name", "n")]),
        ("SELECT * FROM flight f WHERE EXISTS (SELECT 1 FROM airport a WHERE a.code = f.or|)",
         ["SELECT * FROM flight f WHERE EXISTS (SELECT 1 FROM airport a WHERE a.code = f.origin)"]),
        ("SELECT a.id FROM carrier a UNION SELECT a.co| FROM airport a",
         ["SELECT a.id FROM carrier a UNION SELECT a.code FROM airport a"]),
        ("UPDATE flight SET des|", ["UPDATE flight SET dest"]),
        ("UPDATE fli| SET", ["UPDATE flight SET"]),
        ("DELETE FROM flight WHERE ori|", ["DELETE FROM flight WHERE origin"]),
        ("INSERT INTO carrier (id, |) VALUES (1, 2)", ["INSERT INTO carrier (id, name) VALUES (1, 2)"]),
        ("INSERT INTO carrier VALUES (1, 2) ON CONFLICT (|", [
            "INSERT INTO carrier VALUES (1, 2) ON CONFLICT (id",
            "INSERT INTO carrier VALUES (1, 2) ON CONFLICT (name"]),
        ("INSERT INTO carrier VALUES (1, 2) ON CONFLICT DO UPDATE SET name = excluded.na|",
         ["INSERT INTO carrier VALUES (1, 2) ON CONFLICT DO UPDATE SET name = excluded.name"]),
        ("CREATE TABLE z (p, \"q r\" TEXT, PRIMARY KEY (p));\nSELECT z.| FROM z;\nSELECT 1 FROM flight",
         [f'CREATE TABLE z (p, "q r" TEXT, PRIMARY KEY (p));\nSELECT z.{name} FROM z;\nSELECT 1 FROM flight'
          for name in ("p", '"q r"')]),
        ("SELECT carr| FROM flight; SELECT carrier_name FROM x", [
            "SELECT carrier_id FROM flight; SELECT carrier_name FROM x"]),
        ("SELECT gro|", ["SELECT group_concat("]),
        ("SELECT id FROM flight ORDER BY id DESC LIM|", ["SELECT id FROM flight ORDER BY id DESC LIMIT"]),
        ("SELECT upper(dest) place FROM flight ORDER BY pla|", ["SELECT upper(dest) place FROM flight ORDER BY place"]),
        ("select * from flight gro|", ["select * from flight group by", "select * from flight group",
                                       "select * from flight groups"]),
        ("SELECT coun|(*) FROM flight", ["SELECT count(*) FROM flight"]),
        ("SELECT * FROM flight JOIN carrier USING (|", ["SELECT * FROM flight JOIN carrier USING (id"]),
        ("ALTER TABLE carrier DROP COLUMN |", [f"ALTER TABLE carrier DROP COLUMN {name}" for name in ("id", "name")]),
        ("CREATE INDEX i ON carrier (na|", ["CREATE INDEX i ON carrier (name"]),
        ("CREATE TABLE x (y REFERENCES carrier(|", [f"CREATE TABLE x (y REFERENCES carrier({name}"
                                                    for name in ("id", "name")]),
        ("PRAGMA table_info(carr|", ["PRAGMA table_info(carrier"]),
        ("SELECT * FROM flight ORDER |", ["SELECT * FROM flight ORDER BY"]),
        ("SELECT x FROM flight -- FROM carr|", []),
        ("SELECT 'carr|'", []),
        ("SELECT 'carr|", []),
        ("SELECT /* carr| */ 1", []),
        ("CREATE TRIGGER t AFTER INSERT ON flight WHEN new.or|",
         ["CREATE TRIGGER t AFTER INSERT ON flight WHEN new.origin"]),
        ("CREATE TEMP TRIGGER t UPDATE ON main.flight BEGIN SELECT 1; DELETE FROM carrier WHERE id = OLD.des|; END",
         ["CREATE TEMP TRIGGER t UPDATE ON main.flight BEGIN SELECT 1; DELETE FROM carrier WHERE id = OLD.dest; END"]),
        ("CREATE TRIGGER t DELETE ON flight BEGIN SELECT 1; END; SELECT old.|", []),
        ("SELECT x'ab|", []),
        ("SELECT /*|", []),
        ("SELECT 1 /*| not yet */", []),
        ("SELECT * FROM [odd|", ['SELECT * FROM "odd]"']),
        ("SELECT * FROM [odd|]", []),
        ("SELECT 12|", []),
        ("SELECT nope.| FROM flight", []),
    ],
)  # fmt: skip
def test_completions_of_sql(known, sql, expected):
    assert body(known, sql) == expected


def test_likely_completions_come_first(known):
    on = "%%sql\nSELECT * FROM flight f JOIN airport a ON |"
    assert offers(known, on)[:2] == ["a.code = f.origin", "id"]
    on = "%%sql\nSELECT * FROM flight f JOIN airport a ON f.origin = a.code\nJOIN carrier c ON c.|"
    assert offers(known, on) == ["id = f.carrier_id", "id", "name"]
    assert offers(known, "%%sql\nSELECT * FROM flight f JOIN |")[:2] == ["airport", "carrier"]
    assert offers(known, "%%sql\nSELECT | FROM carrier")[:3] == ["id", "name", "carrier"]
    assert offers(known, "%%sql\nSELECT * FROM carrier |")[:3] == ["JOIN", "LEFT JOIN", "WHERE"]
    assert offers(known, "%%sql\n|")[:3] == ["SELECT", "WITH", "INSERT INTO"]
    assert offers(known, "%%sql\nSELECT id AS idea FROM carrier ORDER BY id|")[:2] == ["idea", "id"]


def test_completions_have_a_kind(known):
    kinds = described(known, "%%sql\nSELECT c| FROM carrier c")
    assert (kinds["c"], kinds["count("], kinds["coalesce("], kinds["CASE"]) == (
        "table", "aggregate", "function", "keyword",
    )  # fmt: skip
    assert [completion.type for completion in tab(known, "%%sql\nSELECT * FROM we|")[1]] == ["view"]


def described(shell, cell):
    """Return the descriptions of completions; JupyterLab breaks lines at plain spaces and hyphens."""
    found = {completion.text: completion.type for completion in tab(shell, cell)[1]}
    assert not any(char in description for description in found.values() for char in " -")
    return {text: description.translate({0xA0: " ", 0x2011: "-"}) for text, description in found.items()}


@pytest.mark.parametrize(
    ("cell", "types"),
    [
        ("SELECT f.| FROM flight f", {"id": "INTEGER", "origin": "TEXT", '"to"': "", "größe": "DOUBLE PRECISION"}),
        ("SELECT city| FROM airport", {'"city name"': "VARCHAR(20)"}),
        ("SELECT ca|", {"carrier_id": "INT"}),
        ("UPDATE carrier SET |", {"id": "INTEGER", "name": "TEXT"}),
        ("INSERT INTO carrier (|", {"id": "INTEGER", "name": "TEXT"}),
        ("SELECT * FROM flight JOIN carrier USING (|", {"id": "INTEGER"}),
        ("WITH q(a, b) AS (SELECT id, x FROM flight) SELECT q.| FROM q", {"a": "INTEGER", "b": ""}),
        ("SELECT s.| FROM (SELECT c.id AS n, name m, upper(name) AS o, c.id + 1 AS p FROM carrier c) s",
         {"n": "INTEGER", "m": "TEXT", "o": "", "p": ""}),
        ("SELECT s.| FROM (SELECT * FROM carrier JOIN airport) s", {"id": "INTEGER", '"city name"': "VARCHAR(20)"}),
        ("CREATE TABLE z (p UNSIGNED BIG INT NOT NULL, q DECIMAL (10, 2), r, s DEFAULT 1);\nSELECT z.| FROM z",
         {"p": "UNSIGNED BIG INT", "q": "DECIMAL(10,2)", "r": "", "s": ""}),
    ],
)  # fmt: skip
def test_columns_are_listed_with_their_types(known, cell, types):
    found = described(known, f"%%sql\n{cell}")
    assert {name: found[name] for name in types} == {name: f"column {type_}".strip() for name, type_ in types.items()}


def test_commands_options_and_topics_are_listed_with_their_descriptions(known):
    assert described(known, "%%sql --atom|") == {"--atomic": "option: apply all statements or none, in one round trip"}
    assert described(known, "%pipedb connec|")["connect"] == (
        "command: Connect to a database and make it the current one"
    )
    assert described(known, "%pipedb connect --read|")["--read-only"].startswith("option: ")
    assert described(known, "%pipedb help tok|")["tokens"].startswith("topic: ")
    assert described(known, "%pipedb plot histogram airport --x co|") == {"code": "column TEXT"}
    assert max(map(len, described(known, "%pipedb connect --|").values())) <= 64


def test_the_commands_of_daily_use_come_first(known):
    found = offers(known, "%pipedb |")
    assert found[:12] == list(DAILY)
    assert sorted(found) == sorted([*COMMANDS, "help"])


QUOTES = [
    ('%%sql --on "my|', '%%sql --on "my db"'),
    ('%%sql --on "my|"', '%%sql --on "my db"'),  # JupyterLab writes the closing quote by itself
    ("%%sql --on 'm|'\nSELECT 1", "%%sql --on 'my db'\nSELECT 1"),
    ('%%sql --on "my db"|', '%%sql --on "my db"'),
    ("%%sql --on m|", '%%sql --on "my db"'),
    ('%%sql --on="m|"', '%%sql --on="my db"'),
    ("%%sql --on=m|", '%%sql --on="my db"'),
    ('%pipedb use "m|"', '%pipedb use "my db"'),
    ('%pipedb status --on "m|"', '%pipedb status --on "my db"'),
    ('%pipedb columns --on "my db" "a|"', '%pipedb columns --on "my db" "a b"'),
    ('%pipedb columns --on="my db" a|', '%pipedb columns --on="my db" "a b"'),
    ('%%sql --on="my db"\nSELECT "y| FROM "a b"', '%%sql --on="my db"\nSELECT "y z" FROM "a b"'),
]


def test_quotes_on_the_line_are_kept(shell, local_service):
    shell('%pipedb connect --as "my db"\n%sql CREATE TABLE "a b" (x INTEGER, "y z" TEXT)')
    shell("%pipedb connect --as other")
    session = shell.ip.magics_manager.registry["PipeMagics"].session
    until(lambda: session.connections["my db"].schema.tables)
    for cell, expected in QUOTES:
        assert [text.removeprefix("%%sql\n") for text in tab(shell, cell)[0]] == [expected], cell


def test_parameters_are_the_variables(known):
    known("import math\nids = [1]\nideal = 3\n_id = 1\ndef idle(): pass\nidf = __import__('pandas').DataFrame()")
    assert body(known, "SELECT :id|") == ["SELECT :ideal", "SELECT :ids"]
    assert body(known, "SELECT @ide|") == ["SELECT @ideal"]
    assert body(known, "SELECT $ide|") == ["SELECT $ideal"]
    known("given = {'idol': 1, 7: 2}")
    assert offers(known, "%%sql --params given\nSELECT :|") == [":idol"]
    assert "math" not in offers(known, "%%sql\nSELECT :|")[0]


def test_the_line_of_sql(known):
    assert offers(known, "%%sql --par|\nSELECT 1") == ["--params"]
    assert "--on" in offers(known, "%%sql --|")
    assert offers(known, "%sql SELECT * FROM carr|") == ["carrier"]
    assert offers(known, "frame = %sql SELECT * FROM carr|") == ["carrier"]
    assert offers(known, "%%sql SELECT na|\nFROM carrier") == ["name"]
    assert offers(known, "%%sql -o x SELECT na|\nFROM carrier") == ["name"]
    known("places = {}")
    assert offers(known, "%%sql --params pl|") == ["places"]


def test_the_line_of_pipedb(known):
    assert offers(known, "%pipedb conn|") == ["connect", "connections"]
    assert offers(known, "%pipedb help tok|") == ["tokens"]
    assert offers(known, "%pipedb rules flights --he|") == ["--help"]
    assert offers(known, "%sql --he|") == []  # which is not an option of %sql
    assert offers(known, "%pipedb connect --token-e|") == ["--token-env"]
    assert offers(known, "%pipedb overages |")[:2] == ["on", "off"]
    assert offers(known, "%pipedb schema carr|") == ["carrier"]
    assert offers(known, '%pipedb schema "we|') == ['"we""ird <script>"']
    assert offers(known, "%pipedb nonsense |") == []
    assert offers(known, "%pipedb profile flight --columns id,or|") == ["id,origin"]
    assert offers(known, "%pipedb plot histogram airport --x |") == ["code", "name", '"city name"']
    assert offers(known, "%pipedb profile odd] --columns |")[:4] == [
        """'"a,b"'""",
        """'""\"full""\"'""",
        """'" a"'""",
        "plain",
    ]
    assert offers(known, "%pipedb profile odd] --columns plain,f|") == []
    assert offers(known, "%pipedb plot histogram odd] --x a|") == ["a,b"]
    assert offers(known, "%pipedb diagram airport fli|") == ["flight"]
    assert offers(known, "%pipedb diff airport carr|") == ["carrier"]
    known.names["flights"] = pd.DataFrame()
    assert offers(known, "%pipedb load fl|") == ["flights"]
    assert offers(known, "%pipedb load flights --table carr|") == ["carrier"]
    assert offers(known, "%pipedb load flights --rep|") == ["--replace"]
    assert "--table" not in offers(known, "%pipedb load flights --table x |")


def test_frames_of_every_kind_are_completed(known):
    known("""
import pandas as pd, polars as pl
class Sales(pd.DataFrame): pass
class DataFrame: pass
class Stream:
    def __arrow_c_stream__(self, requested_schema=None): raise RuntimeError
class Hostile:
    def __getattribute__(self, name): raise RuntimeError(name)
fr_subclass, fr_polars, fr_stream = Sales(), pl.DataFrame(), Stream()
fr_hostile, fr_lazy, fr_other, fr_series = Hostile(), pl.LazyFrame(), DataFrame(), pd.Series()
""")
    assert offers(known, "%pipedb load fr_|") == ["fr_polars", "fr_stream", "fr_subclass"]
    assert body(known, "SELECT :fr_|") == [
        f"SELECT :fr_{name}" for name in ("hostile", "lazy", "other", "series")
    ]  # not the frames, which cannot be parameters
    assert offers(known, "%%sql --params fr_|") == []


SALES = pd.DataFrame({"shop": ["a"], "total": [1.5], "opened on": pd.to_datetime(["2026-07-01"])})


@pytest.fixture
def sold(known):
    """The shell with frames in variables: ``sales``, a private one, and one with the name of a table."""
    known.names.update(sales=SALES, _sales=SALES, Flight=SALES, salary=3)
    return known


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM sal|", ["sales"]),
        ("SELECT * FROM airport JOIN sal|", ["sales"]),
        ("SELECT * FROM airport, sal|", ["sales"]),
        ('SELECT * FROM "sal|', ['"sales"']),
        ("SELECT * FROM airport WHERE code IN sal|", ["sales"]),
        ("SELECT * FROM fligh|", ["flight"]),
        ("EXPLAIN SELECT * FROM sal|", ["sales"]),
        ("INSERT INTO carrier SELECT * FROM sal|", ["sales"]),
        ("CREATE TABLE new AS SELECT * FROM sal|", ["sales"]),
        ("DELETE FROM carrier WHERE id IN (SELECT id FROM sal|)", ["sales"]),
        ("DELETE FROM sal|", []),
        ("UPDATE sal|", []),
        ("INSERT INTO sal|", []),
        ("DROP TABLE sal|", []),
        ("SELECT * FROM main.sal|", []),
        ("CREATE VIEW v AS SELECT * FROM sal|", []),
        ("CREATE TRIGGER t AFTER INSERT ON flight BEGIN SELECT 1; SELECT * FROM sal|", []),
        ("DROP TABLE IF EXISTS sales; SELECT * FROM sal|", []),
        ("SELECT sales.| FROM sales", ["shop", "total", '"opened on"']),
        ("SELECT sales.|", ["shop", "total", '"opened on"']),
        ("SELECT s.to| FROM sales AS s", ["total"]),
        ("SELECT ope| FROM sales", ['"opened on"']),
        ("SELECT * FROM sales WHERE opene|", ['"opened on"']),
        ("SELECT x.shop FROM (SELECT * FROM sales) AS x WHERE x.to|", ["total"]),
        ("SELECT * FROM sales s JOIN sales AS t ON s.shop = t.sh|", ["shop = s.shop", "shop"]),
        ("SELECT * FROM sales JOIN sales AS t USING (sho|", ["shop"]),
        ("UPDATE sales SET opene|", []),
        ("CREATE TABLE sales (k); SELECT sales.| FROM sales", ["k"]),
        ("CREATE TABLE IF NOT EXISTS sales (k); SELECT sales.| FROM sales", ["k"]),
        ("SELECT Flight.ori|", ["origin"]),
    ],
)  # fmt: skip
def test_frames_are_completed_where_sql_reads(sold, sql, expected):
    assert offers(sold, f"%%sql\n{sql}") == expected
    assert not {"sales", "_sales"} & set(offers(sold, "%pipedb schema |"))


def test_frames_are_described_by_their_dtypes(sold):
    assert described(sold, "%%sql\nSELECT * FROM sal|") == {"sales": "DataFrame"}
    text, _, moments = SALES.dtypes
    assert described(sold, "%%sql\nSELECT sales.| FROM sales") == {
        "shop": f"column {text}", "total": "column float64", '"opened on"': f"column {moments}",
    }  # fmt: skip
    sold("import polars; import pyarrow")
    sold.names.update(
        indexed=SALES.set_index(["shop", "total"]),
        lettered=SALES.set_axis(["x"])[["total"]],
        polar=sold("polars.DataFrame({'a': [1]})").value,
        arrow=sold("pyarrow.table({'a': [1]})").value,
    )
    assert list(described(sold, "%%sql\nSELECT indexed.| FROM indexed")) == ["shop", "total", '"opened on"']
    assert described(sold, "%%sql\nSELECT lettered.| FROM lettered")['"index"'] == f"column {pd.Index(['x']).dtype}"
    assert described(sold, "%%sql\nSELECT polar.| FROM polar") == {"a": "column Int64"}
    assert described(sold, "%%sql\nSELECT arrow.| FROM arrow") == {"a": "column int64"}


def test_frames_that_are_switched_off_are_not_completed(sold):
    sold('%config PipeMagic.frames = "off"')
    assert offers(sold, "%%sql\nSELECT * FROM sal|") == []
    assert offers(sold, "%%sql\nSELECT sales.|") == []
    sold('%config PipeMagic.frames = "explicit"')
    assert offers(sold, "%%sql\nSELECT * FROM sal|") == ["sales"]


def test_completion_of_a_frame_reads_no_data(sold, monkeypatch):
    def refuse(*_):
        raise AssertionError("data of a frame on Tab")

    monkeypatch.setattr("pipemagic.frames.any_frame._arrow_table", refuse)
    monkeypatch.setattr(pd.DataFrame, "__getitem__", refuse)
    monkeypatch.setattr(pd.DataFrame, "iloc", property(refuse))
    sold(
        "class Stream:\n    def __arrow_c_stream__(self, requested_schema=None): raise RuntimeError\nstream = Stream()"
    )
    assert offers(sold, "%%sql\nSELECT * FROM stre|") == ["stream"]
    assert offers(sold, "%%sql\nSELECT stream.| FROM stream") == []
    assert offers(sold, "%%sql\nSELECT sales.tot| FROM sales") == ["total"]


def test_files_that_load_reads_are_completed(known, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("sales.csv", "sales 2.parquet", "salaries.txt", ".sales.csv"):
        (tmp_path / name).touch()
    (tmp_path / "salt").mkdir()
    (tmp_path / "salt" / "old.csv").touch()
    known.names["sales"] = pd.DataFrame()
    assert offers(known, "%pipedb load sal|") == ["sales", '"sales 2.parquet"', "sales.csv", "salt/"]
    assert offers(known, "%pipedb load salt/|") == ["salt/old.csv"]
    assert offers(known, '%pipedb load "sales 2|') == ['"sales 2.parquet"']
    assert "salt/" not in offers(known, "%check exercise sal|")
    assert "--" in offers(known, "%pipedb load sales.csv -|")


def test_a_location_is_offered_before_a_service_runs(shell, data):
    assert offers(shell, "%pipedb connect --temporary --here bo|") == ["bog", "bom", "bos"]


def test_names_in_the_organization(shell, local_service):
    shell("%pipedb connect\n%pipedb create-database sales --group default\n%pipedb connect main --as mine")
    session = shell.ip.magics_manager.registry["PipeMagics"].session
    until(lambda: session.names("location"))
    assert offers(shell, "%pipedb create-database x --group de|") == ["default"]
    assert "ams" in offers(shell, "%pipedb create-group g --location |")
    assert offers(shell, "%pipedb pause-location default ams --re|") == ["--replication-only"]
    assert offers(shell, "%pipedb delete-group de|") == ["default"]
    assert offers(shell, "%pipedb delete-database sa|") == ["sales"]
    assert offers(shell, "%pipedb create-token sa|") == ["sales"]
    assert offers(shell, "%pipedb remove-location default am|") == ["ams"]
    assert offers(shell, "%pipedb connect sa|") == ["sales"]
    assert offers(shell, "%pipedb use mi|") == ["mine"]
    assert offers(shell, "%%sql --on mi|") == ["mine"]
    assert offers(shell, "%pipedb status --on=mi|") == ["--on=mine"]


def test_python_keeps_its_own_completion(known):
    known("something = 1\nsomething_else = 2")
    assert {"something", "something_else"} <= set(offers(known, "someth|"))
    assert offers(known, "%%sqlite\nSELECT carr|") == []
    assert "something" not in offers(known, "%%sql\nSELECT someth|")
    assert offers(known, "%%sql\nSELECT 'someth|") == []


@pytest.mark.parametrize("jedi", [True, False])
def test_with_jedi_and_without(known, jedi):
    known.ip.Completer.use_jedi = jedi
    assert body(known, "SELECT na| FROM carrier") == ["SELECT name FROM carrier"]
    assert body(known, "SELECT '|'") == []


def test_a_failure_is_logged_and_not_shown(shell, monkeypatch, caplog, capsys):
    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr(magic_line, "complete_cell", fail)
    with caplog.at_level(logging.WARNING, "pipemagic"):
        offers(shell, "%%sql\nSELECT na|")
    assert "a bug" in caplog.text
    assert capsys.readouterr().err == ""


def test_one_matcher_after_reloading_and_none_after_unloading(plain_shell):
    def ours():
        return [
            matcher
            for matcher in plain_shell.ip.Completer.custom_matchers
            if matcher.__module__.startswith("pipemagic")
        ]

    plain_shell("%load_ext pipemagic\n%reload_ext pipemagic\n%load_ext pipemagic")
    assert len(ours()) == 1
    plain_shell("%unload_ext pipemagic")
    assert ours() == []


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_the_schema_follows_the_session(db):
    db("%%sql\nCREATE TABLE city (name TEXT, mayor TEXT);\nCREATE VIEW towns AS SELECT name FROM city")
    until(lambda: body(db, "SELECT t.| FROM towns t") == ["SELECT t.name FROM towns t"])
    assert body(db, "SELECT may| FROM city") == ["SELECT mayor FROM city"]
    db("%sql ALTER TABLE city ADD COLUMN mayoralty TEXT")
    until(lambda: len(body(db, "SELECT may| FROM city")) == 2)
    db("%%sql\nBEGIN;\nCREATE TABLE citadel (walls);\nDROP VIEW towns")
    assert offers(db, "%%sql\nSELECT * FROM cit|") == ["citadel", "city"]
    assert body(db, "SELECT w| FROM citadel")[0] == "SELECT walls FROM citadel"
    assert body(db, "SELECT * FROM tow|") == []
    db("%sql ROLLBACK")
    until(lambda: offers(db, "%%sql\nSELECT * FROM cit|") == ["city"])
    until(lambda: body(db, "SELECT * FROM tow|") == ["SELECT * FROM towns"])
    if db.run("%sql CREATE TEMP TABLE cities (x)").error is not None:
        return  # libSQL's server has none
    assert offers(db, "%%sql\nSELECT * FROM cit|") == ["cities", "city"]
    db("%%sql --close\nSELECT 1")
    until(lambda: offers(db, "%%sql\nSELECT * FROM cit|") == ["city"])


def test_completion_sends_nothing(known, monkeypatch):
    many = [Relation.of(f"table_{n}", untyped(*(f"column_{n}_{m}" for m in range(20)))) for n in range(1000)]
    TABLES.extend(many)
    shell = known

    def refuse(*_, **__):
        raise AssertionError("a socket on Tab")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "send", refuse)
    monkeypatch.setattr(socket.socket, "sendall", refuse)
    try:
        for cell in (
            "%%sql\nSELECT column_999_1|", "%%sql\nSELECT t.| FROM table_7 t", "%%sql\nSELECT * FROM |",
            "%%sql\nSELECT * FROM table_5 a JOIN table_6 b ON |", "%pipedb schema tabl|", "%%sql\nSELECT |",
        ):  # fmt: skip
            assert offers(shell, cell)
    finally:
        del TABLES[-1000:]


@pytest.mark.parametrize("server", ["embedded", "sqld"])
def test_functions_that_servers_lack_are_marked(db, server):
    """Their descriptions in completion and help say so."""
    rows = db("%sql SELECT DISTINCT name FROM pragma_function_list").value["name"]
    lacking = FUNCTIONS.keys() - set(rows) - {"generate_series", "json_each", "json_tree", "soundex"}
    marked = {name for name, function in FUNCTIONS.items() if "libSQL servers lack it." in function.description}
    own = {"corr", "percentile_cont", "percentile_disc", "date_trunc", "regexp_replace"}
    assert own <= marked
    assert lacking == (set() if server == "embedded" else marked)
