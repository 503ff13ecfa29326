"""Help at the cursor (Shift+Tab): tables, columns, functions, options, commands; it sends nothing."""

from __future__ import annotations

import pandas as pd
import pytest
from waiting import until

from pipemagic.explore.schema import Relation
from pipemagic.notebook.completion.candidates import KnownNames
from pipemagic.notebook.completion.inspection import inspect_cell

TABLES = """%%sql
CREATE TABLE airports (faa TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT 'none', "air ""time" INT);
CREATE TABLE flights (id INTEGER PRIMARY KEY, origin TEXT NOT NULL REFERENCES airports(faa), dep_delay REAL,
    name VARCHAR(20) UNIQUE, twice AS (dep_delay * 2) STORED);
CREATE INDEX by_delay ON flights(dep_delay);
CREATE VIEW late AS SELECT id, dep_delay FROM flights"""

FLIGHTS = """\
flights: table, 5 columns
  id         INTEGER      PRIMARY KEY
  origin     TEXT         NOT NULL REFERENCES airports(faa)
  dep_delay  REAL
  name       VARCHAR(20)  UNIQUE
  twice                   GENERATED STORED"""
AS_F = FLIGHTS.replace("5 columns", "5 columns (as f)")
ORIGIN = "flights.origin: TEXT NOT NULL REFERENCES airports(faa)"
FAA = "airports.faa: TEXT PRIMARY KEY"
DELAY = "flights.dep_delay: REAL"
ROUND = "round(X [, N])\nReturn X rounded to N digits after the decimal point, by default 0, as a float.\nfunction"


def magics_of(shell):
    return shell.ip.magics_manager.registry["PipeMagics"]


def help_at(shell, cell, *, full=False):
    """Return the help at the | of a cell: '' if nothing is known, None outside the magics."""
    at = cell.index("|")
    data = inspect_cell(magics_of(shell), cell[:at] + cell[at + 1 :], at, full=full)
    return None if data is None else data.get("text/plain", "")


@pytest.fixture
def flights(db):
    """A shell with some tables, and with Python variables of the same names."""
    db(TABLES)
    assert magics_of(db).session.connection().schema.ready.wait(30)
    db("flights = origin = dep_delay = round = id = sql = pipedb = atomic = late = 'a variable of Python'")
    return db


def test_names_in_sql(flights):
    for sql, expected in {
        "SELECT * FROM fli|ghts": FLIGHTS,
        "SELECT * FROM |flights": FLIGHTS,
        "SELECT * FROM flights|": FLIGHTS,
        'SELECT * FROM "FLIGHTS"| WHERE': FLIGHTS,
        "SELECT * FROM main.fligh|ts": FLIGHTS,
        "SELECT f|.origin FROM flights f": AS_F,
        "SELECT 1 FROM flights AS f|": AS_F,
        "DELETE FROM flights| WHERE id = 1": FLIGHTS,
        "UPDATE flights SET dep_d|elay = 1": DELAY,
        "SELECT f.or|igin FROM flights f": ORIGIN,
        "SELECT main.flights.origin| FROM flights": ORIGIN,
        "SELECT [ori|gin] FROM flights": ORIGIN,
        "SELECT na|me FROM flights JOIN airports ON origin = faa": (
            "flights.name: VARCHAR(20) UNIQUE\nairports.name: TEXT NOT NULL DEFAULT 'none'"
        ),
        'SELECT a."air ""t|ime" FROM airports a': 'airports."air ""time": INT',
        "SELECT 1 FROM airports WHERE EXISTS (SELECT 1 FROM flights WHERE origin = fa|a)": FAA,
        "INSERT INTO flights (id, ori|gin) VALUES (1, 'JFK')": ORIGIN,
        "CREATE INDEX i ON flights (dep_d|elay)": DELAY,
        "ALTER TABLE flights DROP COLUMN dep_d|elay": DELAY,
        "INSERT INTO flights VALUES (1) ON CONFLICT (id) DO UPDATE SET dep_delay = excluded.dep_de|lay": DELAY,
        "CREATE TRIGGER t AFTER INSERT ON flights BEGIN SELECT new.dep_de|lay; END": DELAY,
        "SELECT dep_de|lay FROM late": "late.dep_delay: REAL",
        "SELECT f.origin|": ORIGIN,  # as JupyterLab asks for an entry of Tab's list: the rest of the cell is cut off
        "WITH q AS (SELECT dep_delay AS d FROM flights) SELECT q.d| FROM q": "q.d: REAL",
        "WITH q AS (SELECT dep_delay AS d FROM flights) SELECT 1 FROM q|": (
            "q: common table expression, 1 column\n  d  REAL"
        ),
        "SELECT s|.d FROM (SELECT dep_delay AS d FROM flights) s": "s: subquery, 1 column\n  d  REAL",
        "SELECT dep_delay + 1 AS e FROM flights; SELECT 1; SELECT origin| FROM flights": ORIGIN,
        "CREATE TEMP TABLE own (a DECIMAL(10, 2));\nSELECT a| FROM own": "own.a: DECIMAL(10,2)",
        "SELECT rou|nd(dep_delay) FROM flights": ROUND,
        "SELECT round(|dep_delay * 2, 1) FROM flights": DELAY,
        "SELECT round((dep_delay + |1), 2) FROM flights": ROUND,
        "SELECT round(1.5, |": ROUND,
    }.items():
        for head in ("%%sql\n", "%%sql -o x\n\n", "%sql ", "x = %sql --quiet ", "import this\n%sql "):
            if "\n" not in sql or head.startswith("%%"):
                assert help_at(flights, head + sql) == expected, head + sql


def test_names_of_frames(flights):
    flights.names["sales"] = pd.DataFrame({"shop": ["a"], "total": [1.5]})
    shop = flights.names["sales"].shop.dtype
    frame = f"sales: DataFrame, 2 columns\n  shop   {shop}\n  total  float64"
    for sql, expected in {
        "SELECT * FROM sal|es": frame,
        "SELECT s|.shop FROM sales s": frame.replace("2 columns", "2 columns (as s)"),
        "SELECT shop| FROM sales": f"sales.shop: {shop}",
        "SELECT s.tot|al FROM flights JOIN sales AS s": "sales.total: float64",
        "WITH sales AS (SELECT 1 AS k) SELECT * FROM sal|es": "sales: common table expression, 1 column\n  k",
        "DELETE FROM sal|es": "",
        "CREATE VIEW v AS SELECT * FROM sal|es": "",
    }.items():
        assert help_at(flights, f"%%sql\n{sql}") == expected, sql
    flights.names["flights"] = flights.names["sales"]
    assert help_at(flights, "%%sql\nSELECT * FROM flights|") == FLIGHTS
    flights('%config PipeMagic.frames = "off"')
    assert help_at(flights, "%%sql\nSELECT * FROM sal|es") == ""


def test_no_help_except_on_names(flights):
    for sql in (
        "SELECT 'fli|ghts'", "SELECT 1 -- fli|ghts", "SELECT /* fli|ghts */ 1", "SELE|CT 1", "SELECT 1 FR|OM flights",
        "SELECT 1|", "|", "SELECT nothing| FROM flights", "SELECT f.nothing| FROM flights f", "SELECT 1 FROM nothing|",
        "SELECT x'f|f'", "SELECT f.|", "SELECT ;|",
    ):  # fmt: skip
        assert help_at(flights, f"%%sql\n{sql}") == "", sql


def test_the_magics_and_python_keep_their_own_help(flights):
    for cell in (
        "fli|ghts",
        "%%time\nfli|ghts",
        "fl|ights = %sql SELECT 1",
        "%%sqlite\nSELECT fli|ghts",
        "|\n%%sql\nSELECT",
    ):
        assert help_at(flights, cell) is None, cell
    for cell in ("%%s|ql\nSELECT 1", "%sql| SELECT 1", "x = %sq|l SELECT 1"):
        assert "Run SQL on the current connection" in help_at(flights, cell), cell
    assert "Connect to databases" in help_at(flights, "%pipe|db status")


def test_parameters_are_variables(flights):
    flights("minutes = 60\ngiven = {'minutes': 1.5}")
    for cell in ("%%sql\nSELECT :min|utes", "%sql SELECT $minutes|", "%%sql\nSELECT * FROM {minutes|}"):
        assert "int" in help_at(flights, cell), cell
    assert help_at(flights, "%%sql\nSELECT :unknown|") == ""
    assert help_at(flights, "%%sql --params given\nSELECT :minutes|") == "given['minutes']: float"
    assert help_at(flights, "%%sql --params given\nSELECT :origin|") == ""


def test_options_and_commands(flights):
    for cell, expected in {
        "%%sql --at|omic\nSELECT 1": "--atomic\napply all statements or none, in one round trip",
        "%sql --limit 5| SELECT 1": "--limit N\n",
        "%%sql -o| x\nSELECT 1": "-o, --out NAME\n",
        "%%sql --type|=arrow\nSELECT 1": "--type pandas|polars|arrow\n",
        "%pipedb connect --read-o|nly": "--read-only\n",
        "%pipedb connect --he|lp": "--help\n",
        "%pipedb conn|ect --read-only": "%pipedb connect [TARGET]",
        "%pipedb help connec|t": "%pipedb connect [TARGET]",
        "%pipedb help transac|tions": "The connection stays open between cells",
        "%pipedb connect mai|n": "TARGET\n",
        "%pipedb schema fli|ghts": FLIGHTS,
        "%pipedb load frame --table fligh|ts": FLIGHTS,
        "%pipedb profile flights --columns dep_de|lay": DELAY,
        "%pipedb profile flights --columns=origin,dep_de|lay": f"{ORIGIN}\n{DELAY}",
    }.items():
        assert help_at(flights, cell).startswith(expected), cell
    for cell in ("%pipedb |", "%pipedb nothing --on|", "%pipedb connect --nothing|", "%%sql --nothing| \nSELECT 1",
                 '%pipedb schema "fli|'):  # fmt: skip
        assert help_at(flights, cell) == "", cell


def test_full_help(flights):
    table = help_at(flights, "%%sql\nSELECT * FROM flights|", full=True)
    assert table.startswith(f"{FLIGHTS}\n\nCREATE TABLE ")
    assert table.endswith("\nCREATE INDEX by_delay ON flights(dep_delay);")
    assert help_at(flights, "%%sql\nSELECT origin| FROM flights", full=True) == ORIGIN
    assert "--token-env" in help_at(flights, "%pipedb connect --read-only|", full=True)


def test_the_connection_of_the_cell(shell):
    shell("%pipedb connect --temporary --as 'my db'\n%sql CREATE TABLE flights (a INTEGER)")
    shell("%pipedb connect --temporary --as other")
    until(lambda: magics_of(shell).session.connections["my db"].schema.tables)
    assert help_at(shell, "%%sql --on 'my db'\nSELECT a| FROM flights") == "flights.a: INTEGER"
    assert help_at(shell, '%%sql --on="my db"\nSELECT a| FROM flights') == "flights.a: INTEGER"
    assert help_at(shell, "%pipedb schema flights| --on 'my db'") == "flights: table, 1 column\n  a  INTEGER"
    assert help_at(shell, "%%sql --on nothing\nSELECT a| FROM flights") == ""


def test_before_the_first_connection(shell):
    assert help_at(shell, "%%sql\nSELECT * FROM flights|") == ""
    assert help_at(shell, "%%sql\nSELECT count(|*)").startswith("count(*) or count(X)\n")


def test_hostile_names_are_shown_without_control_characters(shell, monkeypatch):
    hostile = Relation.of("odd\x1b[31m", [("a\nb", "T\x07"), ("\u202ec", "")])
    monkeypatch.setattr(KnownNames, "tables", lambda known, on: [hostile])
    shown = help_at(shell, '%%sql\nSELECT * FROM "odd\x1b[31m|"')
    assert shown == '"odd\\u001b[31m": table, 2 columns\n  "a\\nb"   T\\u0007\n  \\u202ec'
