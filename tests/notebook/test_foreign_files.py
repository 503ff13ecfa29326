"""Files of other programs: collations, functions, modules and texts that SQLite cannot read, in cells and commands.

Anki's collections, GeoPackages, sqlite-vec and Latin-1 imports have these.
"""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing

import pandas
import pytest

from pipemagic.errors import LoadError, StatementError


@pytest.fixture
def foreign(db, tmp_path):
    """A connection to a database that was made of such a file."""
    file = tmp_path / "foreign.db"
    with closing(sqlite3.connect(file)) as made:
        made.create_collation("unicase", lambda a, b: (a.lower() > b.lower()) - (a.lower() < b.lower()))
        made.executescript("""
            CREATE TABLE deck (id INTEGER PRIMARY KEY, name TEXT COLLATE unicase, size INT);
            CREATE UNIQUE INDEX u ON deck(name); INSERT INTO deck(name, size) VALUES ('Bio', 1), ('art', 3);
            CREATE TABLE place (id INTEGER PRIMARY KEY, geom BLOB, name TEXT);
            INSERT INTO place VALUES (1, NULL, 'Porto');
            CREATE TRIGGER "r t" AFTER INSERT ON place WHEN NEW.geom NOTNULL AND NOT ST_IsEmpty(NEW.geom)
            BEGIN SELECT 1; END;
            CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT);
            INSERT INTO city VALUES (1, 'Porto'), (2, CAST(x'5ae97a65' AS TEXT));
            PRAGMA writable_schema = ON;
            INSERT INTO sqlite_schema
            VALUES ('table', 'vectors', 'vectors', 0, 'CREATE VIRTUAL TABLE vectors USING vec0(e)');
        """)
    name = f"foreign-{uuid.uuid4().hex[:12]}"
    db(f"%pipedb create-database {name} --from-file {file}")
    db(f"%pipedb connect {name}")
    return db


def test_a_trigger_with_a_missing_function_is_named(foreign):
    failed = foreign.fails("%sql INSERT INTO place VALUES (2, x'47', 'Faro')").error
    assert isinstance(failed, StatementError)
    assert "no such function: ST_IsEmpty, in trigger r t on place" in failed.message
    assert 'DROP TRIGGER "r t"' in failed.hint
    foreign.names["more"] = pandas.DataFrame({"id": [5], "geom": [b"G"], "name": ["Beja"]})
    failed = foreign.fails("%pipedb load more --table place --append").error
    assert isinstance(failed, LoadError)
    assert "in trigger r t on place; nothing was changed" in failed.message
    assert 'DROP TRIGGER "r t"' in failed.hint
    foreign('%sql DROP TRIGGER "r t"')
    foreign("%pipedb load more --table place --append")
    assert foreign("%sql SELECT name FROM place").value["name"].tolist() == ["Porto", "Beja"]


def test_a_collation_that_is_missing(foreign):
    assert foreign("%sql SELECT id, name FROM deck").value["name"].tolist() == ["Bio", "art"]
    assert (
        "no such collation sequence: unicase" in foreign.fails("%sql SELECT name FROM deck ORDER BY name").error.message
    )
    assert foreign("%sql SELECT name FROM deck ORDER BY name COLLATE NOCASE").value["name"].tolist() == ["art", "Bio"]
    profile = foreign("%pipedb profile deck").value
    assert profile["name"].distinct == 2
    assert profile["size"].maximum == 3


def test_a_module_that_is_missing(foreign):
    assert "no such module: vec0" in foreign.fails("%sql SELECT * FROM vectors").error.message
    assert foreign("%sql SELECT count(*) AS n FROM place").value["n"].tolist() == [1]
    assert "place" in str(foreign("%pipedb tables").value)


def test_a_text_that_is_not_utf8(foreign):
    failed = foreign.fails("%sql SELECT * FROM city").error
    assert "column name, row 2" in failed.message
    assert "CAST(name AS BLOB)" in failed.message
    value = foreign("%sql SELECT id, CAST(name AS BLOB) AS name FROM city").value["name"].tolist()
    assert value == [b"Porto", b"Z\xe9ze"]
    assert "not UTF-8" in str(foreign("%pipedb profile city").value)
