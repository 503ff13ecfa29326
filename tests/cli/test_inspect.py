"""`pipemagic db inspect`."""

from __future__ import annotations

import json


def test_usage_and_statements(run):
    run("group", "create", "edge", "--location", "ams")
    run("db", "create", "flights")
    run("db", "shell", "flights", "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
    run("db", "shell", "flights", "SELECT a FROM t WHERE a > 0")
    code, out, err = run("db", "inspect", "flights")
    assert (code, err) == (0, "")
    fields = dict(line.split(":") for line in out.splitlines())
    assert {name: value.strip() for name, value in fields.items()} == {
        "Space used": fields["Space used"].strip(), "Rows read": "5", "Rows written": "2",
    }  # fmt: skip
    lines = run("db", "inspect", "flights", "--queries")[1].splitlines()
    assert lines[4].split("  ")[0] == "RUNS"
    assert any(line.startswith("1 ") and line.endswith("SELECT a FROM t WHERE a > ?") for line in lines)
    data = json.loads(run("db", "inspect", "flights", "--queries", "--json")[1])
    assert (data["rows_read"], data["rows_written"]) == (5, 2)
    assert {query["query"]: query["rows_written"] for query in data["top_queries"]}[
        "INSERT INTO t VALUES (?), (?)"
    ] == 2
    assert "top_queries" not in json.loads(run("db", "inspect", "flights", "--json")[1])
    code, _, err = run("db", "inspect", "nothing")
    assert code == 1
    assert "could not find database with name nothing" in err
