"""The slowest and the most frequent statements of a database."""

from __future__ import annotations

from contextlib import closing

import pytest
from account_calls import person
from service_calls import caller_of, execute, new_service

from pipemagic.service.catalog.organizations import Role
from pipemagic.service.service import Service
from pipemagic.service.top_queries import LONGEST, MOST, TEXTS, without_values

STATS = "/v1/organizations/local/databases/flights/stats"
QUERIES = "/v1/organizations/local/databases/flights/usage/queries"


@pytest.fixture
def service(tmp_path, wall):
    with new_service(tmp_path, clock=wall, now=wall) as service:
        yield service


@pytest.fixture
def operator(service):
    return person(service, "local")


def top(operator, **query):
    return operator.ok("GET", QUERIES if query else STATS, query=query or None)


def runs(operator):
    return {item["query"]: item["runs"] for item in top(operator)["top_queries"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t WHERE a = 1", "SELECT * FROM t WHERE a = ?"),
        ("select 1.5e3, 'it''s', x'00', 0x1F -- secret", "select ?, ?, ?, ?"),
        ("SELECT /* 'secret' */ a\n\tFROM t WHERE b IN (1, 2)", "SELECT a FROM t WHERE b IN (?, ?)"),
        ("SELECT a/* secret */FROM t", "SELECT a FROM t"),
        ("SELECT :a, ?2, @b, $c", "SELECT :a, ?2, @b, $c"),
        ('SELECT "t"."a b" FROM "t" WHERE "t"."x" = "u"."y"', 'SELECT "t"."a b" FROM "t" WHERE "t"."x" = "u"."y"'),
        ('SELECT a AS "b" FROM "t" JOIN "u" ORDER BY "b"', 'SELECT a AS "b" FROM "t" JOIN "u" ORDER BY "b"'),
        ('UPDATE "t" SET "a" = "secret", "b" = 2 WHERE "c" = 3', 'UPDATE "t" SET "a" = ?, "b" = ? WHERE ? = ?'),
        ('UPDATE t SET a = f("secret", "secret" = 1)', "UPDATE t SET a = f(?, ? = ?)"),
        (
            'CREATE TABLE "t" ("a" TEXT DEFAULT "secret", "b", PRIMARY KEY ("a", "b"))',
            'CREATE TABLE "t" ("a" TEXT DEFAULT ?, "b", PRIMARY KEY ("a", "b"))',
        ),
        ('CREATE INDEX "i" ON "main"."t" ("a", "b")', 'CREATE INDEX "i" ON "main"."t" ("a", "b")'),
        (
            'INSERT INTO t ("a") VALUES (1) ON CONFLICT ("a") DO UPDATE SET "a" = "b"',
            'INSERT INTO t ("a") VALUES (?) ON CONFLICT ("a") DO UPDATE SET "a" = ?',
        ),
        ('SELECT a FROM t JOIN u ON f("secret") = b', "SELECT a FROM t JOIN u ON f(?) = b"),
        ('SELECT a FROM t WHERE b = "secret"', "SELECT a FROM t WHERE b = ?"),
        ('SELECT a FROM t WHERE b IN ("secret", "more")', "SELECT a FROM t WHERE b IN (?, ?)"),
        ('INSERT INTO "t" ("a") VALUES ("secret"), ("more")', 'INSERT INTO "t" ("a") VALUES (?), (?)'),
        ('SELECT a FROM t WHERE b IN (SELECT "secret" FROM "u")', 'SELECT a FROM t WHERE b IN (SELECT ? FROM "u")'),
        ("BEGIN IMMEDIATE", ""),
        ("COMMIT", ""),
        ("SELECT 'secret", "SELECT ?"),
        ("", ""),
    ],
)
def test_texts_without_values(text, expected):
    assert without_values(text) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "{}", "a, {}", "f({})", "f(a, {})", "a IS {}", "a IS NOT {}", "a IS NOT DISTINCT FROM b = {}", "({})",
        "a BETWEEN {} AND {}", "a -> {}", "a ->> {}", "a MATCH {}", "a REGEXP {}", "a LIKE b ESCAPE {}",
        "(a, b) = (1, {})", "CASE a WHEN {} THEN {} ELSE {} END", "CAST({} AS TEXT)", "{} = a", "a = ({} || b)",
        "a IN (SELECT {})", "NOT {}", "EXISTS (SELECT {})",
    ],
)  # fmt: skip
def test_a_literal_in_double_quotes_is_a_value_wherever_it_stands(expression):
    written = expression.replace("{}", '"secret"')
    expected = expression.replace("{}", "?").replace("1", "?")
    for form in ("SELECT {}", "SELECT a FROM t WHERE {}", "INSERT INTO t VALUES (1, {})", "UPDATE t SET a = {}"):
        assert without_values(form.replace("{}", written)) == form.replace("1", "?").replace("{}", expected)


@pytest.mark.parametrize("cut", range(4))
def test_a_text_that_is_cut_has_no_part_of_a_value(cut):
    text = "SELECT 1, " + "a" * (LONGEST - 13 - cut) + ", 'secret'"
    assert "s" not in without_values(text).lower().replace("select", "")
    assert without_values(text).endswith(" ...")


def test_statements_that_differ_in_literals_are_one(operator, db, wall):
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1), (2), (3)", "BEGIN", "COMMIT")
    for number in range(4):
        db.run(f"SELECT a FROM t WHERE a >= {number}")
    db.run("SELECT nonsense", "INSERT INTO nothing VALUES (1)")  # failed statements are not counted
    db.post(execute("SELECT a FROM t WHERE a = ?", {"type": "text", "value": "secret"}))
    assert runs(operator) == {
        "CREATE TABLE t (a)": 1, "INSERT INTO t VALUES (?), (?), (?)": 1,
        "SELECT a FROM t WHERE a >= ?": 4, "SELECT a FROM t WHERE a = ?": 1,
    }  # fmt: skip
    counted = {item["query"]: item for item in top(operator)["top_queries"]}
    assert counted["SELECT a FROM t WHERE a >= ?"]["rows_read"] == 3 + 3 + 2 + 1
    assert counted["INSERT INTO t VALUES (?), (?), (?)"]["rows_written"] == 3
    assert top(operator, **{"from": "2026-01-31T00:00:00Z"}) == top(operator)["top_queries"]


def test_the_slowest_and_the_most_frequent(service, operator, db):
    db.run("SELECT 1")
    queries, record = service.meter.queries, service.catalog.database("local", "flights")
    for number in range(30):
        queries.count(record.id, f"slow {number}", 1, 100.0 + number)
        queries.count(record.id, f"frequent {number}", 1000 + number, 1.0)
    listed = [item["query"] for item in top(operator)["top_queries"]]
    assert listed == [f"slow {number}" for number in reversed(range(20, 30))] + [
        f"frequent {number}" for number in reversed(range(20, 30))
    ]
    assert len(listed) == 2 * MOST
    assert top(operator)["top_queries"][0]["mean_duration_ms"] == 129_000


def test_only_the_last_day_counts(service, operator, db, wall):
    db.run("SELECT 1")
    service.meter.flush()
    wall.advance(23 * 3600)
    db.run("SELECT 1, 2")
    assert set(runs(operator)) == {"SELECT ?", "SELECT ?, ?"}
    assert [item["query"] for item in top(operator, **{"from": "2026-02-01T20:00:00Z"})] == ["SELECT ?, ?"]
    wall.advance(3 * 3600)
    assert set(runs(operator)) == {"SELECT ?, ?"}
    assert operator.refused("GET", QUERIES, query={"from": "yesterday"})[0] == 400


def test_the_memory_and_the_catalog_have_a_bound(service, operator, db):
    queries, record = service.meter.queries, service.catalog.database("local", "flights")
    for number in range(20):
        for text in range(3 * TEXTS):
            queries.count(record.id, f"{number} {text}", 1, 0.1)
        queries.count(record.id, "often", 50, 0.1)
        assert len(queries._pending[record.id]) <= TEXTS
        queries.flush()
        rows = service.catalog.store.rows("SELECT count(*) FROM queries")[0][0]
        assert rows <= TEXTS
    assert runs(operator)["often"] == 1000


def test_counts_survive_a_restart_and_end_with_their_database(tmp_path, service, operator, db, wall):
    db.run("SELECT 1")
    service.close()
    with closing(Service(tmp_path / "data", clock=wall, now=wall)) as again:
        operator = person(again, "local")
        assert runs(operator) == {"SELECT ?": 1}
        caller_of(again, "flights").run("SELECT 2")
        assert runs(operator) == {"SELECT ?": 2}
        caller_of(again, "flights").run("SELECT 3")
        operator.ok("DELETE", "/v1/organizations/local/databases/flights")
        again.meter.flush()
        assert again.catalog.store.rows("SELECT count(*) FROM queries") == [(0,)]


def test_who_sees_them(service, operator, db):
    db.run("SELECT 1")
    eve = person(service, "eve")
    assert eve.status("GET", STATS) == eve.status("GET", STATS.replace("/stats", "/usage")) == 404
    service.catalog.organizations.add_member("local", service.catalog.accounts.find("eve"), Role.VIEWER)
    assert runs(eve) == {"SELECT ?": 1}
