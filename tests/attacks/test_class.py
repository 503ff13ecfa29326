"""A class of 200: each student has a database of one account and runs the cells of a notebook, with pauses.

Some students slow the service down; the others see no failure and wait at most three times as long.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from students import ATTACKS, CELLS, KERNELS, STUDENTS, Lesson, Pace, hold_lesson

sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.lesson import beside, resources
from benchmarks.lines import table

SHARED = "PYTEST_XDIST_WORKER" in os.environ
"""Whether tests of other workers use the cores meanwhile."""
SLOWER, UNNOTICED = (10, 0.25) if SHARED else (3, 0.0)
"""The factor by which p95 may exceed that of the undisturbed lesson, and a p95 in seconds that is always accepted."""
PACE = Pace(25, (0.1, 0.8))
"""All students start within 25 s, more than twice as densely as in a minute, and their pauses are short."""


def check(lesson: Lesson, attackers: int = 0) -> None:
    """Fail if a cell of the other students failed or did not run."""
    assert lesson.failures == []
    clients = STUDENTS - KERNELS - attackers
    assert {name: len(latencies.seconds) for name, latencies in lesson.groups.items()} == {
        "clients, first cells": clients,
        "clients, later cells": clients * (len(CELLS) - 1),
        "kernels, first cells": KERNELS,
        "kernels, later cells": KERNELS * len(CELLS),
    }


def is_slowed_little(attack: str, reference: Lesson, folder: Path) -> bool:
    """Hold a lesson during an attack; return True if no p95 is much longer than that of the reference."""
    attackers, begin = ATTACKS[attack]
    lesson = hold_lesson(folder, PACE, begin, attackers)
    lines = beside(attack, lesson, reference)
    print(f"\n{table(lines)}")
    check(lesson, attackers)
    assert lesson.attack >= attackers, "the attack ended before the lesson"
    return all((line.ratio or 0) <= SLOWER or line.median <= UNNOTICED for line in lines if line.aim)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, measuring) -> Lesson:
    """A lesson without an attack."""
    with measuring:
        return hold_lesson(tmp_path_factory.mktemp("class"), PACE)


def test_a_class_of_200_sees_no_failure(undisturbed):
    check(undisturbed)
    print(f"\n{table(resources(undisturbed))}")


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.usefixtures("alone")
def test_a_class_works_while_some_students_slow_the_service_down(undisturbed, tmp_path, attack):
    # Other programs on the machine may slow one attempt, so the second one has its own reference.
    attempts = [lambda: undisturbed, lambda: hold_lesson(tmp_path / "undisturbed", PACE)]
    assert any(is_slowed_little(attack, reference(), tmp_path / str(n)) for n, reference in enumerate(attempts))
