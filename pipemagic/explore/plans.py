"""Query plans (EXPLAIN QUERY PLAN) as trees, and descriptions of statements that are not run, in text and in HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from pipemagic import sql, svg
from pipemagic.errors import with_hint
from pipemagic.text import escape_controls, literal_html, shorten

TABLE, INDEX = "full scan", "full index scan"
"""The marks of steps that read all rows of a table, or all entries of an index."""

WIDTH = 100
"""Maximum number of characters of a statement above its plan."""

NO_PLAN = "no query plan"

_SCAN = re.compile(r"SCAN (?:TABLE )?(.+?)( USING .*| VIRTUAL TABLE .*)?", re.DOTALL)
_DERIVED = re.compile(r"(?:MATERIALIZE|CO-ROUTINE) (.+)", re.DOTALL)
_NO_TABLE = re.compile(r"\(.*|CONSTANT ROW|\d+(?:-ROW VALUES CLAUSE| CONSTANT ROWS?)|\d+ ROWS?", re.DOTALL)
_ARROW = "  \u2190 "


@dataclass(frozen=True)
class PlanStep:
    """A step of a plan: SQLite's description, its depth in the tree from 0, and TABLE, INDEX or ''."""

    detail: str
    depth: int
    mark: str = ""


@dataclass(frozen=True)
class StatementPlan:
    """The plan of a statement; ``problem`` is the reason if it has none, ``hint`` the next step then."""

    text: str
    steps: tuple[PlanStep, ...] = ()
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True, repr=False)
class QueryPlan:
    """The plans of the statements of a cell, which were not run."""

    statements: tuple[StatementPlan, ...]

    @property
    def full_scans(self) -> list[PlanStep]:
        """The steps that read all rows of a table."""
        return [step for statement in self.statements for step in statement.steps if step.mark == TABLE]

    def __str__(self) -> str:
        return "\n".join(_lines(self.statements))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the tree with full scans highlighted and all text escaped."""
        scan = f'<span style="color: {svg.WARNING}">'
        lines = (
            f"{scan}{escape(line)}</span>" if line.endswith(_ARROW + TABLE) else escape(line)
            for line in _lines(self.statements)
        )
        return literal_html("<pre>" + "\n".join(lines) + "</pre>")


def plan_of(text: str, rows: Sequence[Sequence[object]]) -> StatementPlan:
    """Return the plan from the rows of EXPLAIN QUERY PLAN: id, id of the parent, unused, description."""
    details = [str(row[3]) for row in rows]
    derived = _derived(text, details)
    depths: dict[object, int] = {}
    steps = []
    for (id_, parent, *_), detail in zip(rows, details, strict=True):
        depths[id_] = depths.get(parent, -1) + 1
        steps.append(PlanStep(detail, depths[id_], _mark(detail, derived)))
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
    """Return the names of common table expressions and their aliases, which are not tables."""
    names = {match[1].lower() for detail in details if (match := _DERIVED.fullmatch(detail))}
    tokens = sql.significant(text)
    for before, *after in zip(tokens, tokens[1:], tokens[2:] + tokens[-1:], strict=False):
        other = after[1] if after[0].text.upper() == "AS" else after[0]
        if sql.normalize(before.text) in names and other.kind in ("word", "quoted"):
            names.add(sql.normalize(other.text))
    return names


def _heading(text: str) -> str:
    """Return a statement on one line."""
    return shorten(escape_controls(" ".join(text.split())), WIDTH)


def _lines(statements: Sequence[StatementPlan]) -> Iterator[str]:
    for number, statement in enumerate(statements, start=1):
        if len(statements) > 1:
            yield f"{number}  {_heading(statement.text)}"
        indent = "   " if len(statements) > 1 else ""
        for line in _tree(statement.steps) or _problem(statement):
            yield indent + line


def _problem(statement: StatementPlan) -> list[str]:
    """Return the lines for a statement without a plan."""
    return with_hint(escape_controls(statement.problem) or NO_PLAN, escape_controls(statement.hint)).split("\n")


def _tree(steps: Sequence[PlanStep]) -> list[str]:
    """Return a line for each step, with the lines of the tree before it."""
    lines: list[str] = []
    open_depths: set[int] = set()  # depths at which another step of the same parent follows
    for step in reversed(steps):
        open_depths = {depth for depth in open_depths if depth <= step.depth}
        branches = "".join("\u2502  " if depth in open_depths else "   " for depth in range(step.depth))
        corner = "\u251c\u2500 " if step.depth in open_depths else "\u2514\u2500 "
        mark = f"{_ARROW}{step.mark}" if step.mark else ""
        lines.append(f"{branches}{corner}{escape_controls(step.detail)}{mark}")
        open_depths.add(step.depth)
    return lines[::-1]


# -- descriptions: parameters, columns and effect of each statement

_NOT_DESCRIBED = "unknown: this server does not describe statements"


@dataclass(frozen=True)
class Described:
    """The description of one statement.

    ``parameters`` are names with the types of their values, ``columns`` names with declared types ('' for none); None
    if the server does not describe statements. ``effect`` is 'read-only', 'writes to city', 'changes the schema' and
    the like. With a ``problem`` the statement would fail, or cannot be described; ``hint`` is the next step then.
    """

    text: str
    parameters: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] | None = ()
    effect: str = ""
    problem: str = ""
    hint: str = ""

    def lines(self) -> list[tuple[str, str]]:
        """Return pairs of a label and its text, without those that are empty."""
        columns = _NOT_DESCRIBED if self.columns is None else _typed(self.columns)
        pairs = [
            ("parameters", _typed(self.parameters)),
            ("columns", "" if self.problem else columns),
            ("effect", self.effect),
            ("problem", self.problem),
            ("hint", self.hint),
        ]
        return [(label, escape_controls(text)) for label, text in pairs if text]


def _typed(names: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name} {type_}".rstrip() for name, type_ in names)


@dataclass(frozen=True, repr=False)
class DryRun:
    """The descriptions of a cell's statements, none of which was run."""

    statements: tuple[Described, ...]

    def __str__(self) -> str:
        lines = []
        for number, statement in enumerate(self.statements, start=1):
            lines.append(f"{number}  {_heading(statement.text)}")
            lines += [f"   {label:<12}{text}" for label, text in statement.lines()]
        return "\n".join([*lines, _NOTHING_RAN])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(_html(number, statement) for number, statement in enumerate(self.statements, start=1))
        table = f'<table class="pipemagic-dry-run"><tbody>{rows}</tbody></table>'
        return literal_html(f"{_STYLE}{table}<p>{_NOTHING_RAN}</p>")


_NOTHING_RAN = "Nothing was run."

_STYLE = (
    "<style>.pipemagic-dry-run tr, .pipemagic-dry-run td { background: none !important; border: none;"
    f" color: {svg.INK}; text-align: left !important; padding: 1px 16px 1px 6px; vertical-align: top }}"
    f" .pipemagic-dry-run .label {{ color: {svg.FAINT} }} .pipemagic-dry-run .problem {{ color: {svg.WARNING} }}"
    " .pipemagic-dry-run .text { font-weight: bold; white-space: pre }</style>"
)


def _html(number: int, statement: Described) -> str:
    head = f'<tr><td>{number}</td><td colspan="2" class="text">{escape(_heading(statement.text))}</td></tr>'
    return head + "".join(
        f'<tr><td></td><td class="label">{label}</td><td class="{label}">{escape(text)}</td></tr>'
        for label, text in statement.lines()
    )
