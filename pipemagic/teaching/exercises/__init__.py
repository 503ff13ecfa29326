"""Exercises that check themselves: what teachers write, what students get, and how answers are graded.

``%%exercise`` and ``%%check`` are their magics. Graders call `points` and
`pipemagic.teaching.exercises.grading.verified_points` in the kernel of a notebook.
"""

from pipemagic.teaching.exercises.checking import Check, results
from pipemagic.teaching.exercises.exercise import Exercise

__all__ = ["Check", "Exercise", "points", "results"]


def points(name: str) -> float:
    """Return the points of the best answer to an exercise in this process; 0 without one."""
    check = results.get(name)
    return check.points if check else 0
