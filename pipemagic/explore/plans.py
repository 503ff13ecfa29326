"""The plan that SQLite makes for a statement (EXPLAIN QUERY PLAN), as a tree in text and as a picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipemagic import sql, svg

TABLE, INDEX = "full scan", "full index scan"
"""The marks of steps that read every row of a table, or every entry of an index."""

WIDTH = 100
"""Characters of a statement that are shown above its plan."""

_SCAN = re.compile(r"SCAN (?:TABLE )?(.+?)( USING .*| VIRTUAL TABLE .*)?", re.DOTALL)
_DERIVED = re.compile(r"(?:MATERIALIZE|CO-ROUTINE) (.+)", re.DOTALL)
_NO_TABLE = re.compile(r"\(.*|CONSTANT ROW|\d+(?:-ROW VALUES CLAUSE| CONSTANT ROWS?)|\d+ ROWS?", re.DOTALL)

_INDENT, _HEIGHT, _MARGIN = 22, 20, 12


@dataclass(frozen=True)
class Step:
    """One step of a plan: SQLite's words for it, how deep it stands (from 0), and TABLE, INDEX or ''."""

    detail: str
    depth: int
    mark: str = ""


@dataclass(frozen=True)
class StatementPlan:
    """The plan of one statement; ``problem`` says why there is none."""

    text: str
    steps: tuple[Step, ...] = ()
    problem: str = ""


@dataclass(frozen=True, repr=False)
class Plan:
    """The plans of the statements of a cell, none of which was run."""

    statements: tuple[StatementPlan, ...]

    @property
    def full_scans(self) -> list[Step]:
        """The steps that read a whole table."""
        return [step for statement in self.statements for step in statement.steps if step.mark == TABLE]

    def __str__(self) -> str:
        return "\n".join(_lines(self.statements))

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return _picture(self.statements)


def plan_of(text: str, rows: Sequence[Sequence[object]]) -> StatementPlan:
    """Read the rows of EXPLAIN QUERY PLAN: number, number of the step above, anything, words."""
    details = [str(row[3]) for row in rows]
    derived = _derived(text, details)
    depths: dict[object, int] = {}
    steps = []
    for (number, above, *_), detail in zip(rows, details, strict=True):
        depths[number] = depths.get(above, -1) + 1
        steps.append(Step(detail, depths[number], _mark(detail, derived)))
    return StatementPlan(text, tuple(steps))


def _mark(detail: str, derived: set[str]) -> str:
    match = _SCAN.fullmatch(detail)
    if match is None or _NO_TABLE.fullmatch(match[1]) or match[1].lower() in derived:
        return ""
    how = match[2] or ""
    if how.startswith(" VIRTUAL"):
        return ""
    return INDEX if how else TABLE


def _derived(text: str, details: Sequence[str]) -> set[str]:
    """Name what is no table but a part of the statement: common table expressions, and other names for them."""
    names = {match[1].lower() for detail in details if (match := _DERIVED.fullmatch(detail))}
    words = sql.significant(text)
    for before, *after in zip(words, words[1:], words[2:] + words[-1:], strict=False):
        other = after[1] if after[0].text.upper() == "AS" else after[0]
        if sql.normalize(before.text) in names and other.kind in ("word", "quoted"):
            names.add(sql.normalize(other.text))
    return names


def _lines(statements: Sequence[StatementPlan]) -> Iterator[str]:
    for number, statement in enumerate(statements, start=1):
        if len(statements) > 1:
            yield f"{number}  {heading(statement.text)}"
        indent = "   " if len(statements) > 1 else ""
        if not statement.steps:
            yield f"{indent}{svg.printable(statement.problem) or NOTHING}"
        for at, step in enumerate(statement.steps):
            mark = f"  \u2190 {step.mark}" if step.mark else ""
            yield f"{indent}{_branches(statement.steps, at)}{svg.printable(step.detail)}{mark}"


NOTHING = "nothing to plan"


def heading(text: str) -> str:
    """Give a statement in one line."""
    return svg.shortened(svg.printable(" ".join(text.split())), WIDTH)


def _branches(steps: Sequence[Step], at: int) -> str:
    """Draw the lines of the tree left of a step."""
    depth = steps[at].depth
    open_at = [_goes_on(steps, at, level) for level in range(1, depth + 1)]
    drawn = ["\u2502  " if goes_on else "   " for goes_on in [_goes_on(steps, at, 0), *open_at][:depth]]
    return "".join(drawn) + ("\u251c\u2500 " if _goes_on(steps, at, depth) else "\u2514\u2500 ")


def _goes_on(steps: Sequence[Step], at: int, depth: int) -> bool:
    """Tell whether another step of this depth follows below the same one."""
    for step in steps[at + 1 :]:
        if step.depth <= depth:
            return step.depth == depth
    return False


def _picture(statements: Sequence[StatementPlan]) -> str:
    parts, y, width = [], _MARGIN + 12.0, 300.0
    for number, statement in enumerate(statements, start=1):
        head = f"{number}  {heading(statement.text)}" if len(statements) > 1 else heading(statement.text)
        parts.append(svg.text(_MARGIN, y, head, weight="bold"))
        width = max(width, len(head) * svg.CHARACTER)
        y += _HEIGHT
        if not statement.steps:
            said = statement.problem or NOTHING
            parts.append(svg.text(_MARGIN + _INDENT, y, said, fill=svg.FAINT))
            width = max(width, _INDENT + len(said) * svg.CHARACTER)
            y += _HEIGHT
        lasts: dict[int, float] = {-1: y - _HEIGHT}
        for step in statement.steps:
            parts += _drawn(step, y, lasts)
            width = max(width, (step.depth + 1) * _INDENT + (len(step.detail) + len(step.mark) + 4) * svg.CHARACTER)
            lasts[step.depth] = y
            y += _HEIGHT
        y += _HEIGHT / 2
    return svg.picture(width + 2 * _MARGIN, y - _HEIGHT, "query plan", *parts)


def _drawn(step: Step, y: float, lasts: dict[int, float]) -> list[str]:
    """Draw a step, and the line from the one above it; ``lasts`` holds where the last step of each depth stands."""
    x = _MARGIN + (step.depth + 1) * _INDENT
    corner, above = x - _INDENT + 6, lasts[step.depth - 1] + 6
    colour = svg.WARNING if step.mark == TABLE else svg.INK
    drawn = [
        svg.line([(corner, above), (corner, y - 4), (x - 6, y - 4)]),
        svg.text(x, y, step.detail, fill=colour),
    ]
    if step.mark:
        drawn.append(svg.text(x + (len(step.detail) + 2) * svg.CHARACTER, y, f"\u2190 {step.mark}", fill=colour))
    return drawn
