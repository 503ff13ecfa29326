"""%%sql --save and --with, %pipedb snippets, on both servers."""

from __future__ import annotations

import pytest

from pipemagic.errors import SessionError, StatementError, UsageError


def test_a_saved_select_can_be_a_table_of_a_later_cell(db):
    db("%%sql\nCREATE TABLE flights (dest, delay);\nINSERT INTO flights VALUES ('ATL', 90), ('LAX', 5), ('LAX', 70)")
    db("minutes, limit = 60, 1")
    saved = db("%%sql --save late\nSELECT dest, delay FROM flights\nWHERE delay > :minutes")
    assert saved.lines == ["Saved late."]
    assert len(saved.value) == 2
    worst = "SELECT * FROM late ORDER BY delay DESC LIMIT :limit"
    assert db(f"%%sql --save worst --with late\n{worst}").value["dest"].tolist() == ["ATL"]
    frame = db("%sql --with worst,late SELECT worst.dest, count(*) AS n FROM worst, late").value
    assert frame.to_dict("list") == {"dest": ["ATL"], "n": [2]}
    db("minutes = 80")
    assert db("%sql --with late SELECT count(*) AS n FROM late").value["n"].tolist() == [1]
    assert isinstance(db.fails("%sql SELECT * FROM late").error, StatementError)  # only with --with

    listed = db("%pipedb snippets").value
    assert listed["snippet"].tolist() == ["late", "worst"]
    assert listed["with"].tolist() == ["", "late"]
    assert listed["sql"][0] == "SELECT dest, delay FROM flights WHERE delay > :minutes"
    assert db("%pipedb snippets worst").lines == ["%%sql --save worst --with late", worst]
    assert isinstance(db.fails("%pipedb snippets --delete late").error, SessionError)
    assert db("%pipedb snippets --delete worst").lines == ["Deleted worst."]


def test_a_select_that_fails_is_not_saved(db):
    db.fails("%sql --save x SELECT nope FROM sqlite_master")
    assert len(db("%pipedb snippets").value) == 0
    error = db.fails("%sql --save x DROP TABLE t").error  # refused before it is run
    assert isinstance(error, SessionError)
    with pytest.raises(UsageError, match="NAME and --delete cannot be used together"):
        raise db.fails("%pipedb snippets x --delete x").error
