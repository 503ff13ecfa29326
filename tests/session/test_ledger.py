"""What a transaction holds, from the statements that ran."""

import pytest

from pipemagic.session.ledger import Ledger, is_rollback, listing
from pipemagic.sql import split


def after(*scripts):
    ledger = Ledger()
    for script in scripts:
        ledger = ledger.ahead(split(script))
    return ledger


@pytest.mark.parametrize(
    ("script", "held"),
    [
        ("INSERT INTO t VALUES (1)", []),
        ("BEGIN; INSERT INTO t VALUES (1)", ["BEGIN", "INSERT INTO t VALUES (1)"]),
        ("BEGIN; SELECT 1; COMMIT", []),
        ("begin immediate; select 1; end", []),
        ("BEGIN; SELECT 1; ROLLBACK", []),
        ("BEGIN; SAVEPOINT a; SELECT 1; ROLLBACK TO a", ["BEGIN", "SAVEPOINT a"]),
        (
            "BEGIN; SAVEPOINT a; SELECT 1; SAVEPOINT a; SELECT 2; RELEASE a; SELECT 3; ROLLBACK TO a; SELECT 4",
            ["BEGIN", "SAVEPOINT a", "SELECT 4"],
        ),
        ("SAVEPOINT a; SAVEPOINT b; SELECT 1; ROLLBACK TO a; SELECT 2", ["SAVEPOINT a", "SELECT 2"]),
        ("BEGIN; SAVEPOINT a; RELEASE a", ["BEGIN", "SAVEPOINT a", "RELEASE a"]),
        ("SAVEPOINT a; SELECT 1; RELEASE SAVEPOINT A", []),
        ('SAVEPOINT a; SAVEPOINT "b c"; RELEASE "b c"', ["SAVEPOINT a", 'SAVEPOINT "b c"', 'RELEASE "b c"']),
        ("SAVEPOINT a; SAVEPOINT b; RELEASE a", []),
        ("EXPLAIN BEGIN", []),
    ],
)
def test_the_statements_of_the_open_transaction(script, held):
    ledger = after(script)
    assert ledger.statements == held
    assert ledger.open == bool(held)


@pytest.mark.parametrize(
    ("before", "script", "index"),
    [
        ("", "SELECT 1; BEGIN; SELECT 2", 1),
        ("", "BEGIN; COMMIT; SELECT 1", None),
        ("", "BEGIN; COMMIT; BEGIN", 2),
        ("BEGIN", "SELECT 1", None),
        ("BEGIN", "COMMIT; SAVEPOINT x", 1),
    ],
)
def test_where_in_a_cell_the_open_transaction_began(before, script, index):
    assert after(before).began_at(split(script)) == index


def test_looking_ahead_changes_nothing():
    ledger = after("SAVEPOINT a")
    ledger.ahead(split("RELEASE a"))
    assert ledger.statements == ["SAVEPOINT a"]


@pytest.mark.parametrize(
    ("sql", "whole"),
    [("ROLLBACK", True), ("rollback transaction", True), ("ROLLBACK TO x", False), ("COMMIT", False),
     ("ROLLBACK TRANSACTION TO SAVEPOINT x", False)],
)  # fmt: skip
def test_a_rollback_to_a_savepoint_is_not_one_of_the_transaction(sql, whole):
    (statement,) = split(sql)
    assert is_rollback(statement) is whole


def test_a_long_list_of_statements_is_cut():
    assert listing(["BEGIN", "x " * 60]) == f"  BEGIN\n  {'x ' * 34}x..."
    assert listing(["s"] * 6).count("\n") == 5
    assert listing(["s"] * 7).endswith("\n  and 2 more")
