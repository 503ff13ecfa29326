"""%pipedb tables, columns, schema, profile, check, diff."""

from __future__ import annotations

HOSTILE = """sel'ect "<script>alert(1)</script> 😀 é"""
QUOTED = '"' + HOSTILE.replace('"', '""') + '"'


def test_tables_columns_and_schema(db):
    db(
        "%%sql\nCREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\n"
        "INSERT INTO city (name) VALUES ('a'), ('b');\n"
        f"CREATE TABLE {QUOTED} ({QUOTED});\nCREATE INDEX named ON city (name)"
    )
    assert db("%pipedb tables").value.to_dict("list") == {"table": ["city", HOSTILE], "type": ["table", "table"]}
    assert db("%pipedb tables ITY --rows").value.to_dict("records") == [{"table": "city", "type": "table", "rows": 2}]
    assert db("%pipedb tables c?t* --on db").value["table"].tolist() == ["city"]
    assert db("%pipedb columns city").value["column"].tolist() == ["id", "name"]
    assert db(f"%pipedb columns {QUOTED}").value["column"].tolist() == [HOSTILE]
    assert "<script>" not in db(f"%pipedb columns {QUOTED}").value.to_html()
    shown = db("%pipedb schema city")
    assert str(shown.value) == (
        "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL);\nCREATE INDEX named ON city (name);"
    )
    assert shown.out.endswith(f"{shown.value}\n")
    assert str(db("%pipedb schema").value).count("CREATE") == 3
    for command in ("columns", "schema"):
        failed = db.fails(f"%pipedb {command} citi")
        assert failed.out == "UNKNOWN_NAME: there is no table or view 'citi'\ndid you mean city?\n"
