"""Lists and names on two servers: sqld, and one that knows the seed only."""

from __future__ import annotations

import pytest
from seed_server import SeedServer

from pipemagic.client.database import Database
from pipemagic.errors import StatementError, UnsupportedError
from pipemagic.session import Connection, Session


@pytest.fixture
def numbers(session):
    session.run("CREATE TABLE {t} (i INTEGER, x TEXT)", {"t": 'we`ird "t"'})
    session.run("INSERT INTO {t} VALUES (1, '1'), (2, 'b'), (3, NULL)", {"t": 'we`ird "t"'})
    return session


def found(session, where, ids):
    return session.run(f"SELECT i FROM {{t}} WHERE {where} ORDER BY i", {"t": 'we`ird "t"', "ids": ids})["i"].tolist()


@pytest.mark.parametrize("many", [0, 5000])
def test_a_list_finds_what_a_list_written_out_finds(numbers, many):
    rest = list(range(100, 100 + many))
    assert found(numbers, "i IN :ids", [1, 3, *rest]) == [1, 3]
    assert found(numbers, "i NOT IN (:ids)", [1, 3, *rest]) == [2]
    assert found(numbers, "x IN :ids", [1, *rest]) == [1]  # a column of text
    assert found(numbers, "i IN :ids", ["2", *map(str, rest)]) == [2]
    assert found(numbers, "i NOT IN :ids", [1, None, *rest]) == []
    assert found(numbers, "x COLLATE NOCASE IN :ids", ["B", *map(str, rest)]) == [2]


def test_an_empty_list_holds_nothing(numbers):
    assert found(numbers, "i IN :ids", []) == []
    assert found(numbers, "x NOT IN :ids", ()) == [1, 2, 3]


def test_an_error_points_into_what_was_written(numbers):
    with pytest.raises(StatementError) as caught:
        found(numbers, "i IN :ids AND nope", list(range(50)))
    assert "no such column: nope" in caught.value.message


def test_a_server_that_ignores_arguments_is_detected(tmp_path):
    server = SeedServer(tmp_path, with_args=False)
    with Database(server.url, "token") as database:
        session = Session(environ={})
        session.adopt(Connection("main", database, "a test"))
        assert session.run("SELECT 1 AS {name}", {"name": "two words"}).columns.tolist() == ["two words"]
        assert session.run("SELECT 1 IN :none AS i", {"none": []})["i"].tolist() == [0]
        with pytest.raises(UnsupportedError, match="does not support parameters"):
            session.run("SELECT 1 IN :ids", {"ids": [1]})
    server.close()
