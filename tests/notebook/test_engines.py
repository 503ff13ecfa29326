"""pandas and SQLAlchemy on the connection of the cells: the same stream, the same transaction."""

from __future__ import annotations

import os

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.exc import IntegrityError

import pipemagic
from pipemagic import SessionError
from pipemagic.dbapi.sqlalchemy import PipemagicDialect

FRAME = pd.DataFrame({"id": [2, 3], "name": ["Bob", "Cy"]})
PLAIN = pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy:UserWarning")


@pytest.fixture(params=["embedded", "sqld"])
def server(request):
    return request.param


@pytest.fixture(params=["creator", "URL"])
def engine(request, db) -> sa.Engine:
    """An engine on the connection of the notebook, in both ways, and a table."""
    registry.register("sqlite.pipemagic", PipemagicDialect.__module__, PipemagicDialect.__name__)
    db("%sql CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT)")
    options = {"creator": lambda: pipemagic.current().dbapi()} if request.param == "creator" else {}
    return sa.create_engine("sqlite+pipemagic://", **options)


@pytest.fixture(params=["engine", pytest.param("plain", marks=PLAIN)])
def library(request, engine) -> sa.Engine | pipemagic.dbapi.Connection:
    """What pandas takes: an engine, or a connection of PEP 249."""
    return engine if request.param == "engine" else pipemagic.current().dbapi()


@pytest.fixture
def committed(db):
    """Return a function that reads what is committed, on another connection."""
    with pipemagic.connect(pipemagic.current().address, os.environ["DB_TOKEN"]) as database:
        yield lambda: [name for (name,) in database.execute("SELECT name FROM t ORDER BY id").rows]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_transaction_of_the_cells(db, library, committed, end):
    db("%%sql\nBEGIN;\nINSERT INTO t VALUES (1, 'Ada')")
    assert pd.read_sql("SELECT name FROM t", library)["name"].tolist() == ["Ada"]
    assert FRAME.to_sql("t", library, index=False, if_exists="append") == 2
    assert pd.read_sql("SELECT name FROM t", library)["name"].tolist() == ["Ada", "Bob", "Cy"]
    assert pipemagic.current().in_transaction
    assert committed() == []
    assert db("%sql SELECT count(*) AS n FROM t").value["n"].tolist() == [3]
    db(f"%sql {end}")
    assert committed() == (["Ada", "Bob", "Cy"] if end == "COMMIT" else [])


def test_an_error_undoes_the_work_of_the_library_only(db, library, committed):
    db("%%sql\nBEGIN;\nINSERT INTO t VALUES (3, 'Ada')")
    with pytest.raises((IntegrityError, pipemagic.dbapi.IntegrityError, pd.errors.DatabaseError), match="UNIQUE"):
        FRAME.to_sql("t", library, index=False, if_exists="append")
    assert pipemagic.current().in_transaction
    db("%sql COMMIT")
    assert committed() == ["Ada"]


def test_without_a_transaction_of_the_cells(db, library, committed):
    assert FRAME.to_sql("t", library, index=False, if_exists="append") == 2
    assert not pipemagic.current().in_transaction
    assert committed() == ["Bob", "Cy"]
    db("%sql INSERT INTO t VALUES (5, 'Di')")
    with pytest.raises((IntegrityError, pipemagic.dbapi.IntegrityError, pd.errors.DatabaseError), match="UNIQUE"):
        pd.DataFrame({"id": [4, 5]}).to_sql("t", library, index=False, if_exists="append")
    assert not pipemagic.current().in_transaction
    assert committed() == ["Bob", "Cy", "Di"]


def test_a_new_table(db, library):
    db("%sql BEGIN")
    FRAME.to_sql("new", library, index=False)
    FRAME.to_sql("new", library, index=False, if_exists="replace")
    assert db("%sql SELECT sum(id) AS n FROM new").value["n"].tolist() == [5]
    db("%sql ROLLBACK")
    assert "no such table: new" in str(db.fails("%sql SELECT * FROM new").error)


def test_what_comes_back_to_the_pool_is_rolled_back(db, engine, committed):
    db("%%sql\nBEGIN;\nINSERT INTO t VALUES (1, 'Ada')")
    with engine.connect() as connection:
        connection.execute(sa.text("INSERT INTO t VALUES (2, 'Bob')"))
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO t VALUES (3, 'Cy')"))
        savepoint = connection.begin_nested()
        connection.execute(sa.text("INSERT INTO t VALUES (4, 'Di')"))
        savepoint.rollback()
    engine.dispose()
    assert pipemagic.current().in_transaction
    db("%sql COMMIT")
    assert committed() == ["Ada", "Cy"]


def test_infinite_values(db, library):
    frame = pd.DataFrame({"a": [float("inf"), 1.5, float("-inf"), None]})
    assert frame.to_sql("f", library, index=False) == 4
    stored = db("%sql SELECT typeof(a) AS kind, CAST(a AS TEXT) AS a FROM f").value
    assert stored["kind"].tolist() == ["real", "real", "real", "null"]
    assert stored["a"].tolist()[:3] == ["Inf", "1.5", "-Inf"]


def test_an_engine_follows_the_current_connection(db, engine):
    db("%%sql\nBEGIN;\nCREATE TABLE mine AS SELECT 1 AS a")
    assert pd.read_sql("SELECT a FROM mine", engine)["a"].tolist() == [1]
    db(f"%pipedb connect {pipemagic.current().address} --as other --token-env DB_TOKEN")
    with pytest.raises(pd.errors.DatabaseError, match="no such table: mine"):
        pd.read_sql("SELECT a FROM mine", engine)
    db("%pipedb use db")
    assert pd.read_sql("SELECT a FROM mine", engine)["a"].tolist() == [1]


def test_without_a_connection(db, engine):
    db("%pipedb close db")
    with pytest.raises(SessionError, match="%pipedb connect"):
        engine.connect()
