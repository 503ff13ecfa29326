"""Repeated EXPLAIN of statements that fire triggers while the schema changes, which could corrupt SQLite's memory."""

from __future__ import annotations

import pytest
from promises import Promise
from served import serve

pytestmark = pytest.mark.promise(Promise.NO_CRASH)


def test_explain_of_a_statement_whose_trigger_was_recreated(tmp_path) -> None:
    with serve(tmp_path / "data") as service, service.database("flights") as database:
        for columns in ("v", "v, w, x") * 5:
            database.run(
                f"CREATE TABLE t({columns})",
                "CREATE TRIGGER tr AFTER INSERT ON t BEGIN DELETE FROM t; END",
                "EXPLAIN INSERT INTO t DEFAULT VALUES",
                "DROP TABLE t",
            )
