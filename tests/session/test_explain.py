"""Query plans and dry runs in plain Python, also on a server with only ``execute`` and ``close``."""

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


def test_a_dry_run_reports_the_effect(cities):
    first, second = cities.describe('SELECT * FROM city; INSERT INTO "we""ird ☃" SELECT id FROM city').statements
    assert first.effect == "read-only"
    assert second.effect == 'writes to "we""ird ☃"'
    assert cities.run("SELECT count(*) AS n FROM city")["n"].tolist() == [0]


def test_a_server_without_describe_reports_only_errors(seed_session):
    seed_session.run("CREATE TABLE t (a INTEGER)")
    described, wrong = seed_session.describe("SELECT a, :n FROM t; SELECT b FROM t", {"n": 1}).statements
    assert (described.columns, described.effect) == (None, "read-only")
    assert wrong.problem == "no such column: b"
    assert described.parameters == ((":n", "INTEGER"),)
    assert "columns     unknown: this server does not describe statements" in str(
        seed_session.describe("SELECT a FROM t")
    )


def test_a_description_does_not_open_a_stream(cities):
    cities.connection().close()
    cities.explain("SELECT 1")
    cities.describe("SELECT 1")
    assert cities.connection().stream is None


def test_a_dry_run_knows_the_type_of_every_float(cities):
    values = {"a": 0.5, "b": 0.9746602879796197}  # the digits of the second one are chosen for careless readers
    (statement,) = cities.describe("SELECT :a, :b", values).statements
    assert statement.parameters == ((":a", "REAL"), (":b", "REAL"))
