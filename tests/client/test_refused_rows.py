"""A load that a constraint refuses names the row of the frame, its values, and what they conflict with."""

from __future__ import annotations

import pandas as pd
import pytest

from pipemagic import errors

TABLES = [
    "CREATE TABLE airline(code TEXT PRIMARY KEY)",
    "INSERT INTO airline VALUES ('a'), ('b'), ('c'), ('x')",
    """CREATE TABLE flight(id INTEGER PRIMARY KEY, carrier TEXT NOT NULL UNIQUE REFERENCES airline(code),
    delay INTEGER CONSTRAINT positive CHECK (delay > 0), seats INTEGER CHECK (seats > delay))""",
    "INSERT INTO flight VALUES (9, 'x', 1, 2)",
]
GOOD = {"id": [1, 2, 3], "carrier": ["a", "b", "c"], "delay": [1, 2, 3], "seats": [10, 20, 30]}


@pytest.mark.parametrize("if_exists", ["append", "upsert"])
@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"carrier": ["a", None, "c"]}, "row 2: NOT NULL constraint failed: flight.carrier", ""),
        ({"carrier": ["a", "b", "a"]}, "row 3 (carrier = 'a'): UNIQUE constraint failed: flight.carrier",
         "row 1 has the same carrier"),
        ({"carrier": ["a", "x", "a"]}, "row 2 (carrier = 'x'): UNIQUE constraint failed: flight.carrier",
         "flight has a row with the same carrier"),
        ({"seats": [10, 20, 3]}, "row 3 (delay = 3, seats = 3): CHECK constraint failed: seats > delay", ""),
        ({"delay": [1, 2, 0]}, "row 3: CHECK constraint failed: positive", ""),
        ({"carrier": ["a", "b", "z"]}, "row 3 (carrier = 'z'): FOREIGN KEY constraint failed",
         "airline has no row with this code"),
        ({"carrier": ["z", "b", "b"]}, "row 3 (carrier = 'b'): UNIQUE constraint failed: flight.carrier",
         "row 2 has the same carrier"),
    ],
)  # fmt: skip
def test_the_row_is_named(full, if_exists, changes, message, hint):
    full.batch(TABLES)
    keys = ["id"] if if_exists == "upsert" else []
    with pytest.raises(errors.LoadError) as caught:
        full.load(pd.DataFrame(GOOD | changes), "flight", if_exists=if_exists, keys=keys)
    assert caught.value.message == f"{message}; nothing was changed"
    of_append = hint if if_exists == "append" or "airline" in hint else ""
    assert caught.value.hint == of_append
    assert full.execute("SELECT * FROM flight").rows == [(9, "x", 1, 2)]


def test_a_row_that_repeats_a_key_is_named(database):
    database.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    with pytest.raises(errors.LoadError) as caught:
        database.load(pd.DataFrame({"a": [1, 2, 1], "b": [1, 2, 3]}), "t", if_exists="append")
    assert caught.value.message == "row 3 (a = 1): UNIQUE constraint failed: t.a; nothing was changed"
    assert caught.value.hint == "row 1 has the same a"


def test_the_columns_of_a_key_are_named_together(full):
    full.execute('CREATE TABLE t(a TEXT COLLATE NOCASE, "b c", UNIQUE (a, "b c"))')
    full.execute("INSERT INTO t VALUES ('Q', 1)")
    with pytest.raises(errors.LoadError) as caught:
        full.load(pd.DataFrame({"a": ["p", "p", "q"], "b c": [1, 2, 1]}), "t", if_exists="append")
    assert caught.value.message == "row 3 (a = 'q', b c = 1): UNIQUE constraint failed: t.a, t.b c; nothing was changed"
    assert caught.value.hint == ""  # 'Q' is the same only for this column


def test_a_replaced_table_that_keeps_its_constraints_names_the_row(full):
    full.batch(["CREATE TABLE t(a CHECK (a > 0), b)", "INSERT INTO t VALUES (9, 9)"])
    frame = pd.DataFrame({"a": [1] * 3000, "b": range(3000)})
    frame.loc[2500, "a"] = -7
    with pytest.raises(errors.LoadError) as caught:
        full.load(frame, "t", if_exists="replace")
    assert caught.value.message == "row 2501 (a = -7): CHECK constraint failed: a > 0; nothing was changed"
    assert full.execute("SELECT * FROM t").rows == [(9, 9)]


def test_a_row_that_a_constraint_would_have_ignored_is_not_named(full):
    full.execute("CREATE TABLE t(a UNIQUE ON CONFLICT IGNORE, b CHECK (b > 0))")
    with pytest.raises(errors.LoadError) as caught:
        full.load(pd.DataFrame({"a": [1, 1, 3], "b": [1, 1, 0]}), "t", if_exists="append")
    assert caught.value.message == "CHECK constraint failed: b > 0; nothing was changed"


@pytest.mark.parametrize("check", ["UNIQUE", "CHECK (a <> 1)"])
def test_the_error_of_a_trigger_names_no_other_row(full, check):
    """SQLite counts the rows before it differently."""
    full.batch([
        "CREATE TABLE t(a)", f"CREATE TABLE log(a {check})",
        "CREATE TRIGGER r AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.a % 3); END",
    ])  # fmt: skip
    with pytest.raises(errors.LoadError) as caught:
        full.load(pd.DataFrame({"a": [2, 3, 4, 5]}), "t", if_exists="append")
    message = caught.value.message
    row = 3 if "CHECK" in check else 4
    assert message.startswith((f"row {row}: ", f"{check.split()[0]} constraint failed"))


def test_the_primary_key_of_the_parent_may_be_implied(full):
    full.batch(["CREATE TABLE p(k INTEGER PRIMARY KEY)", "CREATE TABLE t(a REFERENCES p)"])
    with pytest.raises(errors.LoadError) as caught:
        full.load(pd.DataFrame({"a": [None, 5.0]}), "t", if_exists="append")
    assert caught.value.message == "row 2 (a = 5.0): FOREIGN KEY constraint failed; nothing was changed"
    assert caught.value.hint == "p has no row with this k"
