"""Query plans and dry runs in plain Python, also on a server with only ``execute`` and ``close``."""

from __future__ import annotations

import pytest


@pytest.fixture
def cities(session):
    session.run('CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE "we""ird ☃" (a INTEGER)')
    return session


def test_a_server_without_describe_reports_only_errors(seed_session):
    seed_session.run("CREATE TABLE t (a INTEGER)")
    described, wrong = seed_session.describe("SELECT a, :n FROM t; SELECT b FROM t", {"n": 1}).statements
    assert (described.columns, described.effect) == (None, "read-only")
    assert (wrong.problem, wrong.hint) == ("no such column: b", "t has a")
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
