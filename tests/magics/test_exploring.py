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


def test_profile(db):
    db(
        f'%%sql\nCREATE TABLE {QUOTED} (id INTEGER PRIMARY KEY, {QUOTED} TEXT, "a,b" REAL);\n'
        f"INSERT INTO {QUOTED} VALUES (1, '<i>', 0.5), (2, '<i>', 2.5), (3, NULL, NULL)"
    )
    shown = db(f"%pipedb profile {QUOTED}")
    assert shown.value.frame["nulls"].tolist() == [0, 1, 1]
    assert shown.value["a,b"].quartiles == (1.0, 1.5, 2.0)
    assert "3 rows, 3 columns" in shown.out
    assert "<i> ×2" in shown.out
    assert "<i>" not in shown.value._repr_html_()
    few = db(f"""%pipedb profile {QUOTED} --on db --columns 'ID,"a,b"'""").value
    assert [column.name for column in few.columns] == ["id", "a,b"]
    assert "did you mean id?" in db.fails(f"%pipedb profile {QUOTED} --columns idd").out
