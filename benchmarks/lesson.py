"""Measure a lesson of 200 students, ten of them in real kernels, while one of them slows the service down."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

from benchmarks.crowd import MEMORY
from benchmarks.lines import Line, at_most
from benchmarks.measure import Plan
from benchmarks.students import ATTACKS, CELLS, KERNELS, STUDENTS, Attack, Lesson, Pace, hold_lesson, no_attack

FULL, SHORT = Pace(60, (0.2, 2.2)), Pace(25, (0.1, 0.8))
SLOWER = at_most(3)
"""The aim for the p95 of the others while one student slows the service down."""


def measure(plan: Plan) -> list[Line]:
    """Hold the lesson without and with each attack, each time on a new service."""
    pace = plan.pick(FULL, SHORT)
    undisturbed = _hold(pace)
    lines = resources(undisturbed)
    for name, (attackers, attack) in ATTACKS.items():
        lines += beside(name, _hold(pace, attack, attackers), undisturbed)
    return lines


def _hold(pace: Pace, attack: Attack = no_attack, attackers: int = 0) -> Lesson:
    parent = MEMORY if os.access(MEMORY, os.W_OK) else None  # an insert writes 1 GB twice
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        lesson = hold_lesson(Path(folder), pace, attack, attackers)
    check(lesson, attackers)
    return lesson


def check(lesson: Lesson, attackers: int = 0) -> None:
    """Raise an error if a cell of the other students failed or did not run, or if the attack ended before them."""
    if lesson.failures:
        raise RuntimeError(f"{len(lesson.failures)} students failed, the first: {lesson.failures[0]}")
    clients = STUDENTS - KERNELS - attackers
    expected = [clients, clients * (len(CELLS) - 1), KERNELS, KERNELS * len(CELLS)]
    if (ran := [len(latencies.seconds) for latencies in lesson.groups.values()]) != expected:
        raise RuntimeError(f"of {expected} cells {ran} ran")
    if lesson.attack < attackers:
        raise RuntimeError("the attack ended before the lesson")


def resources(lesson: Lesson) -> list[Line]:
    """Return the time of the creation, and the memory for each student."""
    return [
        Line(f"class create for {STUDENTS} students", "s", [lesson.creation]),
        Line(f"memory of the service for each of {STUDENTS} students", "KB", [lesson.service_growth / STUDENTS / 1000]),
        Line("memory of a kernel (PSS)", "MB", [statistics.median(lesson.kernel_memory) / 1e6]),
    ]


def beside(name: str, disturbed: Lesson, undisturbed: Lesson) -> list[Line]:
    """Return the figures of a lesson during an attack beside those of the undisturbed one."""
    lines = []
    for group, latencies in disturbed.groups.items():
        reference = undisturbed.groups[group]
        lines += [
            Line(f"{name}: {group}, p50", "s", [latencies.p50], "undisturbed", [reference.p50]),
            Line(f"{name}: {group}, p95", "s", [latencies.p95], "undisturbed", [reference.p95], SLOWER),
        ]
    ours, reference = (lesson.service_growth / STUDENTS / 1000 for lesson in (disturbed, undisturbed))
    return [*lines, Line(f"{name}: memory of the service for each student", "KB", [ours], "undisturbed", [reference])]
