"""Plans and dry runs in plain Python, also on a server that knows the seed only."""

from __future__ import annotations

import pytest

from pipemagic.explore.plans import TABLE


@pytest.fixture
def cities(session):
    session.run('CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE "we""ird ☃" (a INTEGER)')
    return session


def test_a_plan_has_steps(cities):
    plan = cities.explain("SELECT name FROM city WHERE id > :n", {"n": 1})
    (statement,) = plan.statements
    assert [(step.depth, step.mark) for step in statement.steps] == [(0, "")]
    assert "INTEGER PRIMARY KEY" in statement.steps[0].detail
    assert [step.mark for step in cities.explain('SELECT * FROM "we""ird ☃"').full_scans] == [TABLE]


def test_a_dry_run_names_what_is_read_and_written(cities):
    first, second = cities.describe('SELECT * FROM city; INSERT INTO "we""ird ☃" SELECT id FROM city').statements
    assert (first.reads, first.writes, first.does) == (("city",), (), "only reads")
    assert (second.reads, second.writes, second.does) == (("city",), ('we"ird ☃',), "writes")
    assert cities.run("SELECT count(*) AS n FROM city")["n"].tolist() == [0]


def test_columns_are_not_known_where_the_server_does_not_describe(seed_session):
    seed_session.run("CREATE TABLE t (a INTEGER)")
    (described,) = seed_session.describe("SELECT a, :n FROM t", {"n": 1}).statements
    assert described.columns is None
    assert described.parameters == ((":n", "INTEGER"),)
    assert "columns     not known: this server does not describe statements" in str(
        seed_session.describe("SELECT a FROM t")
    )


def test_nothing_of_it_uses_the_stream_of_the_cells(cities):
    cities.connection().close()
    cities.explain("SELECT 1")
    cities.describe("SELECT 1")
    assert cities.connection().stream is None


def test_a_dry_run_knows_the_type_of_every_float(cities):
    values = {"a": 0.5, "b": 0.9746602879796197}  # the digits of the second one are chosen for careless readers
    (statement,) = cities.describe("SELECT :a, :b", values).statements
    assert statement.parameters == ((":a", "REAL"), (":b", "REAL"))
