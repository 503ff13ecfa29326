"""Build batches and evaluate the conditions of their steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from pipemagic.errors import ProtocolError
from pipemagic.hrana.messages import (
    AndCond,
    AutocommitCond,
    Batch,
    Cond,
    ErrorCond,
    NotCond,
    OkCond,
    OrCond,
    Step,
    Stmt,
)

DEEPEST_CONDITION = 64
"""The maximum depth of nested conditions; clients need three."""


class StepState(Enum):
    """The outcome of a step."""

    OK = "ok"
    ERROR = "error"
    SKIPPED = "skipped"


def chain(stmts: Sequence[Stmt], *, rollback: bool = False) -> Batch:
    """Return a batch that stops at the first error: each step runs only if the previous one succeeded.

    With ``rollback`` another step rolls back an open transaction after an error; its entry follows those of the
    statements.
    """
    steps = [Step(stmt, OkCond(number - 1) if number else None) for number, stmt in enumerate(stmts)]
    if rollback and steps:
        failed_inside = AndCond([NotCond(OkCond(len(steps) - 1)), NotCond(AutocommitCond())])
        steps.append(Step(Stmt("ROLLBACK", want_rows=False), failed_inside))
    return Batch(steps)


def transactional(stmts: Sequence[Stmt], *, mode: str = "IMMEDIATE") -> Batch:
    """Return a batch that applies all statements or none.

    Step 0 is BEGIN, the last two are COMMIT and ROLLBACK.
    """
    steps = [Step(Stmt(f"BEGIN {mode}", want_rows=False))]
    steps += [Step(stmt, OkCond(number)) for number, stmt in enumerate(stmts)]
    commit = len(steps)
    steps.append(Step(Stmt("COMMIT", want_rows=False), OkCond(commit - 1)))
    # Without the first condition a failed BEGIN would add a second error.
    undo = AndCond([OkCond(0), NotCond(OkCond(commit))])
    steps.append(Step(Stmt("ROLLBACK", want_rows=False), undo))
    return Batch(steps)


def probe(stmts: Sequence[Stmt]) -> list[Batch]:
    """Return one-step batches that a server parses but never runs: each fails only if it cannot be parsed."""
    never = OrCond([])
    return [Batch([Step(stmt, never)]) for stmt in stmts]


def check_references(batch: Batch) -> None:
    """Raise ProtocolError unless every condition refers to an earlier step and is not nested too deeply.

    It is not recursive; conditions that it accepts are safe for the recursion of `holds`.
    """
    for number, step in enumerate(batch.steps):
        for cond, depth in _parts(step.condition):
            if depth > DEEPEST_CONDITION:
                raise ProtocolError(f"a batch condition is nested more than {DEEPEST_CONDITION} levels deep")
            if isinstance(cond, OkCond | ErrorCond) and not 0 <= cond.step < number:
                raise ProtocolError("Invalid reference to step in a batch condition")


def _parts(cond: Cond | None) -> Iterator[tuple[Cond, int]]:
    """Yield a condition and everything inside it, each with its depth."""
    stack = [(cond, 1)] if cond is not None else []
    while stack:
        part, depth = stack.pop()
        yield part, depth
        match part:
            case NotCond(inner):
                stack.append((inner, depth + 1))
            case AndCond(inners) | OrCond(inners):
                stack.extend((inner, depth + 1) for inner in inners)


def holds(cond: Cond | None, states: Sequence[StepState], *, autocommit: bool) -> bool:
    """Evaluate the condition of a step with the outcomes of the steps before it.

    The condition must be one that `check_references` accepts.
    """
    match cond:
        case None:
            return True
        case OkCond(step):
            return states[step] is StepState.OK
        case ErrorCond(step):
            return states[step] is not StepState.OK
        case NotCond(inner):
            return not holds(inner, states, autocommit=autocommit)
        case AndCond(inners):
            return all(holds(inner, states, autocommit=autocommit) for inner in inners)
        case OrCond(inners):
            return any(holds(inner, states, autocommit=autocommit) for inner in inners)
        case AutocommitCond():
            return autocommit


def uses_autocommit(batch: Batch) -> bool:
    """Return True if a condition uses ``is_autocommit``, which version 2 does not have."""
    return any(isinstance(part, AutocommitCond) for step in batch.steps for part, _ in _parts(step.condition))
