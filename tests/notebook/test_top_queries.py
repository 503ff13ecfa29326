"""The slowest and most frequent statements: `%pipedb usage --queries`."""

from __future__ import annotations

from pipemagic.management_api.models import TopQuery


def test_statements_of_a_database(shell, local_service):
    shell("%pipedb connect")
    shell("%pipedb create-database flights")
    shell("%pipedb connect flights")
    shell("%%sql\nCREATE TABLE t (a);\nINSERT INTO t VALUES (1), (2)")
    for number in range(3):
        shell(f"%%sql\nSELECT a FROM t WHERE a > {number} -- secret")
    table = shell("%pipedb usage --queries flights").value.set_index("query")
    assert list(table.columns) == ["runs", "mean_ms", "rows_read", "rows_written"]
    assert list(map(str, table.dtypes)) == ["Int64", "Float64", "Int64", "Int64"]
    assert table.loc["SELECT a FROM t WHERE a > ?"][["runs", "rows_read"]].tolist() == [3, 2 + 1 + 1]
    assert table.loc["INSERT INTO t VALUES (?), (?)", "rows_written"] == 2
    assert table["mean_ms"].min() > 0
    assert "secret" not in " ".join(table.index)


def test_a_service_that_reports_no_runs(shell, local_service, monkeypatch):
    from pipemagic.session.organization import Organization

    monkeypatch.setattr(Organization, "top_queries", lambda *_: [TopQuery("SELECT 1", 5)])
    shell("%pipedb connect")
    table = shell("%pipedb usage --queries flights").value
    assert table["runs"].isna().tolist() == table["mean_ms"].isna().tolist() == [True]
    assert table["rows_read"].tolist() == [5]
