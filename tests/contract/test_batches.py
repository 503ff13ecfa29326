"""Batches and their conditions (section 8)."""

import pytest
from contract_wire import CLOSE, batch, error, execute, not_, ok, rows_of

INSERT, BAD = "INSERT INTO t VALUES (1)", "INSERT INTO nope VALUES (1)"
NEVER = {"type": "or", "conds": []}
BOTH = pytest.mark.parametrize("version", [2, 3])


@pytest.fixture
def table(db):
    db.run("CREATE TABLE t(a)")
    return db


@BOTH
def test_each_step_has_a_result_or_an_error_or_nothing(table, version):
    answer = table.post(batch("SELECT 1", BAD, ("SELECT 2", NEVER)), CLOSE, version=version)
    result = answer.result()
    assert result.keys() >= {"step_results", "step_errors", "replication_index"}
    assert rows_of(result["step_results"][0]) == [[1]]
    assert result["step_results"][1:] == [None, None]
    assert [bool(step_error) for step_error in result["step_errors"]] == [False, True, False]


def test_an_empty_batch_is_accepted(empty):
    result = empty.post(batch(), CLOSE).result()
    assert (result["step_results"], result["step_errors"]) == ([], [])


def test_without_conditions_every_step_runs(table):
    assert [status == "ok" for status in table.post(batch(BAD, INSERT, INSERT), CLOSE).steps()] == [False, True, True]
    assert table.rows("SELECT count(*) FROM t") == [[2]]


# Step 0 succeeds, step 1 fails, step 2 is skipped; does step 3 run?
CONDITIONS = {
    "none": (None, True),
    "ok": (ok(0), True),
    "ok failed": (ok(1), False),
    "ok skipped": (ok(2), False),
    "error": (error(1), True),
    "error ok": (error(0), False),
    "error skipped": (error(2), True),
    "not": (not_(ok(1)), True),
    "not error skipped": (not_(error(2)), False),
    "not ok skipped": (not_(ok(2)), True),
    "not not": (not_(not_(ok(1))), False),
    "and": ({"type": "and", "conds": [ok(0), error(1)]}, True),
    "and false": ({"type": "and", "conds": [ok(0), ok(1)]}, False),
    "and nothing": ({"type": "and", "conds": []}, True),
    "or": ({"type": "or", "conds": [ok(1), ok(0)]}, True),
    "or nothing": (NEVER, False),
}


@pytest.mark.parametrize(("cond", "runs"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_condition_controls_its_step(table, cond, runs):
    answer = table.post(batch("SELECT 1", BAD, ("SELECT 2", NEVER), ("SELECT 3", cond)), CLOSE)
    assert answer.steps()[3] == ("ok" if runs else "skipped")


def test_a_null_condition_is_none(empty):
    step = {"stmt": {"sql": "SELECT 1"}, "condition": None}
    assert empty.post(batch(step), CLOSE).steps() == ["ok"]


def test_is_autocommit_is_a_condition_of_version_3(empty):
    auto = {"type": "is_autocommit"}
    answer = empty.post(
        batch(("SELECT 1", auto), "BEGIN", ("SELECT 2", auto), ("ROLLBACK", not_(auto)), ("SELECT 3", auto)),
        CLOSE,
        version=3,
    )
    assert answer.steps() == ["ok", "ok", "skipped", "ok", "ok"]


@pytest.mark.parametrize(
    "cond", [ok(1), ok(2), ok(-1), error(1), not_(ok(1)), {"type": "and", "conds": [ok(0), ok(5)]}], ids=repr
)
def test_a_condition_may_only_point_to_an_earlier_step(table, cond):
    answer = table.post(batch(INSERT, (INSERT, cond)))
    assert (answer.status, answer.content_type) == (400, "text/plain")
    assert table.rows("SELECT count(*) FROM t") == [[0]]


def test_deeply_nested_conditions_are_refused(table):
    cond = ok(0)
    for _ in range(200):
        cond = {"type": "and", "conds": [cond]}
    assert table.post(batch(INSERT, (INSERT, cond)), CLOSE).status == 400
    assert table.rows("SELECT count(*) FROM t") == [[0]]


def test_an_unparsable_step_is_an_error_of_its_own(table):
    answer = table.post(batch(INSERT, "SELEC", (INSERT, ok(1))), CLOSE)
    assert answer.steps() == ["ok", "SQL_PARSE_ERROR", "skipped"]


def test_arguments_are_checked_step_by_step(table):
    answer = table.post(batch({"stmt": {"sql": "INSERT INTO t VALUES (?)"}}, INSERT), CLOSE)
    assert answer.steps() == ["ARGS_INVALID", "ok"]


def test_a_batch_is_not_a_transaction(table):
    table.post(batch(INSERT, BAD), CLOSE)
    assert table.rows("SELECT count(*) FROM t") == [[1]]


def transaction(*texts):
    """Return the batch of published clients, which applies all statements or none."""
    steps = ["BEGIN IMMEDIATE"]
    steps += [(text, ok(number)) for number, text in enumerate(texts)]
    commit = len(steps)
    return batch(*steps, ("COMMIT", ok(commit - 1)), ("ROLLBACK", not_(ok(commit))))


@BOTH
def test_a_transaction_in_one_batch(table, version):
    answer = table.post(transaction(INSERT, INSERT), CLOSE, version=version)
    assert answer.steps() == ["ok"] * 4 + ["skipped"]
    assert table.rows("SELECT count(*) FROM t") == [[2]]


def test_a_failed_transaction_in_one_batch_applies_nothing(table):
    answer = table.post(transaction(INSERT, BAD, INSERT), CLOSE)
    steps = answer.steps()
    assert [steps[0], steps[1], *steps[3:]] == ["ok", "ok", "skipped", "skipped", "ok"]
    assert table.rows("SELECT count(*) FROM t") == [[0]]


def test_the_replication_index_is_that_of_the_batch(table):
    result = table.post(batch(INSERT), CLOSE).result()
    assert result["replication_index"] == table.run("SELECT 1").result()["replication_index"]


def test_results_of_steps_have_columns_counts_and_rowids(table):
    result = table.post(batch(INSERT, "INSERT INTO t VALUES (5) RETURNING a"), CLOSE).result()["step_results"]
    assert [outcome["affected_row_count"] for outcome in result] == [1, 1]
    assert [outcome["last_insert_rowid"] for outcome in result] == ["1", "2"]
    assert result[1]["cols"] == [{"name": "a", "decltype": None}]


def test_a_batch_works_across_requests_of_a_stream(table):
    stream = table.stream()
    assert stream.send(batch("BEGIN", INSERT)).steps() == ["ok", "ok"]
    assert stream.send(execute("COMMIT")).codes == ["ok"]
    assert table.rows("SELECT count(*) FROM t") == [[1]]
