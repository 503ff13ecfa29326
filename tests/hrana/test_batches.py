"""Batches run against SQLite itself, their conditions as the specification has them."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipemagic.errors import ProtocolError
from pipemagic.hrana import batches
from pipemagic.hrana.batches import DEEPEST_CONDITION, StepState, check_references, holds
from pipemagic.hrana.messages import (
    AndCond,
    AutocommitCond,
    Batch,
    ErrorCond,
    NotCond,
    OkCond,
    OrCond,
    Step,
    Stmt,
)

OK, ERROR, SKIPPED = StepState.OK, StepState.ERROR, StepState.SKIPPED


def run(batch, database):
    """Run a batch as a server does; give what became of each step."""
    check_references(batch)
    states = []
    for step in batch.steps:
        if not holds(step.condition, states, autocommit=not database.in_transaction):
            states.append(SKIPPED)
            continue
        try:
            database.execute(step.stmt.sql)
            states.append(OK)
        except sqlite3.Error:
            states.append(ERROR)
    return states


@pytest.fixture
def database():
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("CREATE TABLE t(a PRIMARY KEY)")
    yield database
    database.close()


def rows(database):
    return [row[0] for row in database.execute("SELECT a FROM t ORDER BY a")]


def stmts(*texts):
    return [Stmt(text) for text in texts]


INSERT_1, INSERT_2, BAD = "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "INSERT INTO nope VALUES (1)"


def test_a_chain_stops_at_the_first_error(database):
    assert run(batches.chain(stmts(INSERT_1, BAD, INSERT_2)), database) == [OK, ERROR, SKIPPED]
    assert rows(database) == [1]


def test_a_chain_can_roll_back_what_it_left_open(database):
    batch = batches.chain(stmts("BEGIN", INSERT_1, BAD, INSERT_2, "COMMIT"), rollback=True)
    assert run(batch, database) == [OK, OK, ERROR, SKIPPED, SKIPPED, OK]
    assert not database.in_transaction
    assert rows(database) == []


def test_a_chain_that_succeeds_keeps_its_transaction_open(database):
    assert run(batches.chain(stmts("BEGIN", INSERT_1), rollback=True), database) == [OK, OK, SKIPPED]
    assert database.in_transaction


def test_a_chain_that_fails_outside_a_transaction_rolls_nothing_back(database):
    assert run(batches.chain(stmts(INSERT_1, BAD), rollback=True), database) == [OK, ERROR, SKIPPED]


def test_an_empty_chain_is_empty():
    assert batches.chain([], rollback=True) == Batch([])


def test_a_transaction_applies_everything(database):
    assert run(batches.transactional(stmts(INSERT_1, INSERT_2)), database) == [OK, OK, OK, OK, SKIPPED]
    assert rows(database) == [1, 2]


def test_a_transaction_applies_nothing_if_a_statement_fails(database):
    states = run(batches.transactional(stmts(INSERT_1, BAD, INSERT_2)), database)
    assert states == [OK, OK, ERROR, SKIPPED, SKIPPED, OK]
    assert rows(database) == []
    assert not database.in_transaction


def test_a_transaction_whose_commit_fails_is_rolled_back(database):
    database.execute("PRAGMA foreign_keys = ON")
    database.execute("CREATE TABLE c(a REFERENCES t(a) DEFERRABLE INITIALLY DEFERRED)")
    states = run(batches.transactional(stmts("INSERT INTO c VALUES (9)")), database)
    assert states == [OK, OK, ERROR, OK]
    assert not database.in_transaction


def test_a_transaction_that_cannot_begin_adds_no_second_error(database):
    database.execute("BEGIN")
    assert run(batches.transactional(stmts(INSERT_1)), database) == [ERROR, SKIPPED, SKIPPED, SKIPPED]


def test_a_transaction_works_on_version_2():
    assert not batches.uses_autocommit(batches.transactional(stmts("A")))
    assert batches.uses_autocommit(batches.chain(stmts("A"), rollback=True))


def test_a_probe_runs_nothing(database):
    for batch in batches.probe(stmts(INSERT_1, BAD)):
        assert run(batch, database) == [SKIPPED]
    assert rows(database) == []


@pytest.mark.parametrize(
    ("cond", "expected"),
    [
        (None, True),
        (OkCond(0), True),
        (OkCond(1), False),
        (OkCond(2), False),
        (ErrorCond(0), False),
        (ErrorCond(1), True),
        (ErrorCond(2), True),  # a skipped step did not succeed
        (NotCond(OkCond(2)), True),
        (AndCond([]), True),
        (OrCond([]), False),
        (AndCond([OkCond(0), OkCond(1)]), False),
        (OrCond([OkCond(1), OkCond(0)]), True),
        (AutocommitCond(), True),
    ],
)
def test_conditions_mean_what_the_specification_says(cond, expected):
    assert holds(cond, [OK, ERROR, SKIPPED], autocommit=True) is expected


@pytest.mark.parametrize(
    ("step", "wrap"),
    [(1, lambda c: c), (2, NotCond), (-1, lambda c: AndCond([OkCond(0), c])), (10**30, lambda c: OrCond([c]))],
)
def test_a_condition_points_to_an_earlier_step(step, wrap):
    batch = Batch([Step(Stmt("A")), Step(Stmt("B"), wrap(OkCond(step)))])
    with pytest.raises(ProtocolError, match="Invalid reference to step in a batch condition"):
        check_references(batch)


conditions = st.recursive(
    st.builds(OkCond, st.integers(-1, 3)) | st.builds(ErrorCond, st.integers(-1, 3)) | st.just(AutocommitCond()),
    lambda inner: (
        st.builds(NotCond, inner)
        | st.builds(AndCond, st.lists(inner, max_size=3))
        | st.builds(OrCond, st.lists(inner, max_size=3))
    ),
)  # fmt: skip


@given(st.lists(st.none() | conditions, max_size=4), st.booleans())
def test_checked_conditions_can_be_evaluated(conds, autocommit):
    batch = Batch([Step(Stmt("A"), cond) for cond in conds])
    try:
        check_references(batch)
    except ProtocolError:
        return
    for number, cond in enumerate(conds):
        assert holds(cond, [OK] * number, autocommit=autocommit) in (True, False)


@pytest.mark.parametrize("wrap", [NotCond, lambda c: AndCond([c]), lambda c: OrCond([c])])
def test_deep_conditions_are_refused_before_they_overflow_the_stack(wrap):
    cond = OkCond(0)
    for _ in range(DEEPEST_CONDITION - 1):
        cond = wrap(cond)
    check_references(Batch([Step(Stmt("A")), Step(Stmt("B"), cond)]))
    for _ in range(20_000):
        cond = wrap(cond)
    with pytest.raises(ProtocolError, match="nested more than 64 levels"):
        check_references(Batch([Step(Stmt("A")), Step(Stmt("B"), cond)]))
    while not isinstance(cond, OkCond):  # taken apart here, since freeing it in one go recurses as deeply
        cond = cond.cond if isinstance(cond, NotCond) else cond.conds[0]
