"""The magics of exercises: %%exercise defines one, %%check and %check check an answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipemagic import sql
from pipemagic.errors import PipemagicError, SessionError
from pipemagic.notebook import arguments
from pipemagic.notebook.arguments import Option, ParsedArguments, Positional
from pipemagic.notebook.commands.base import frame_of
from pipemagic.notebook.display import KEPT, say, show
from pipemagic.notebook.line_variables import LineVariables
from pipemagic.svg import FAINT
from pipemagic.text import escape_controls, literal_html

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.notebook.magics import PipeMagics
    from pipemagic.teaching.exercises import Check, Exercise

EXERCISE = Positional("EXERCISE", "the name of the exercise", completes="exercise")
OPTIONAL = Positional("EXERCISE", "the name of the exercise", completes="exercise", optional=True)
VARIABLE = Positional("VARIABLE", "a variable with a DataFrame to check", completes="frame", optional=True)
ON = Option("--on", "use this connection instead of the current one", "NAME")

ARGUMENTS = {"%%exercise": (EXERCISE,), "%%check": (EXERCISE,), "%check": (OPTIONAL, VARIABLE)}
"""The positional arguments of each magic."""


@dataclass(frozen=True, repr=False)
class Feedback:
    """What a check found: points, reasons, the first differing rows and hints."""

    check: Check

    @property
    def head(self) -> str:
        """The exercise and its points."""
        exercise, check = self.check.exercise, self.check
        state = "passed, " if check.passed else "" if check.messages else "no answer yet, "
        noun = "point" if exercise.points == 1 else "points"
        return f"{exercise.name}: {state}{check.points:g} of {exercise.points:g} {noun}"

    @property
    def hints(self) -> list[str]:
        """The hints so far, numbered."""
        of = len(self.check.exercise.hints)
        shown = () if self.check.passed or not self.check.messages else self.check.hints
        return [f"Hint {at} of {of}: {hint}" for at, hint in enumerate(shown, 1)]

    def __repr__(self) -> str:
        lines = [self.head, *(f"- {line.replace(chr(10), chr(10) + '  ')}" for line in self.check.messages)]
        if self.check.difference is not None:
            lines += ["The first rows that differ:", self.check.difference.map(_sql).to_string(index=False)]
        return escape_controls("\n".join([*lines, *self.hints]), keep=KEPT)

    def _repr_html_(self) -> str:
        colour = "#2e7d32" if self.check.passed else "#b26a00" if self.check.messages else FAINT
        parts = [f"<b>{_html(self.head)}</b>"]
        if self.check.messages:
            parts.append(f"<ul style='margin: 4px 0'>{''.join(map(_item, self.check.messages))}</ul>")
        if self.check.difference is not None:
            table = self.check.difference.map(lambda value: _html(_sql(value))).rename(columns=_html)
            parts.append(f"The first rows that differ:{table.to_html(index=False, escape=False, border=0)}")
        parts += [f"<div>{_html(hint)}</div>" for hint in self.hints]
        style = f"border-left: 4px solid {colour}; padding: 2px 10px"
        return literal_html(f'<div class="pipemagic-check" style="{style}">{"".join(parts)}</div>')


def _sql(value: object) -> object:
    return "NULL" if value is None else value


def _html(value: object) -> str:
    return escape(escape_controls(str(value), keep=KEPT))


def _item(message: str) -> str:
    """Return a message as an item of a list; the excerpt of SQL below its first line keeps its columns."""
    first, _, rest = message.partition("\n")
    return f"<li>{_html(first)}{f'<pre>{_html(rest)}</pre>' if rest else ''}</li>"


def check(magics: PipeMagics, line: str, cell: str | None, variables: Mapping[str, Any]) -> DataFrame | None:
    """Check the SQL of a cell, the state of the database, or a DataFrame; without a name return the summary."""
    from pipemagic.teaching.exercises import checking, exercise

    args = _parse("%check" if cell is None else "%%check", line, variables)
    name, variable = args.get("EXERCISE"), args.get("VARIABLE")
    if name is None:
        checked = summary()
        magics.frame_display.apply(checked)
        return checked
    chosen = exercise.load(name, folder_of(magics))
    recorder = magics.recorder(args.get("--on"))
    with nullcontext() if recorder is None else recorder.paused():
        if variable:
            outcome = checking.check_frame(chosen, variables.get(variable))
        elif cell is None:
            outcome = checking.check_state(chosen, magics.session.connection(args.get("--on")))
        else:
            outcome = _check_sql(magics, chosen, cell, args.get("--on"))
    outcome = checking.record(outcome)
    if recorder is not None and (outcome.passed or outcome.messages):
        recorder.add_check(chosen.name, outcome.points, chosen.points)
    show(Feedback(outcome))
    return _answer(magics, outcome) if cell is not None else None


def _answer(magics: PipeMagics, outcome: Check) -> DataFrame | None:
    """Return the frame of an answer, the value of its cell."""
    from pipemagic.client.result import Result
    from pipemagic.frames import to_frame
    from pipemagic.frames.logical_types import stored_with_time

    answer = outcome.answer
    if not isinstance(answer, Result):
        if answer is not None:
            magics.frame_display.apply(answer)
        return answer
    frame = to_frame(answer.wire, note=say)
    magics.frame_display.apply(frame, timed=stored_with_time(answer.wire))
    return frame


def _check_sql(magics: PipeMagics, exercise: Exercise, cell: str, on: str | None) -> Check:
    from pipemagic.teaching.exercises.checking import Check, check_cell
    from pipemagic.teaching.exercises.running import EMPTY

    connection = magics.session.connection(on)
    try:
        answer = magics.session.read(cell, magics.user_ns) if sql.split(cell) else EMPTY
    except PipemagicError as error:  # such as a parameter without a value
        return Check(exercise, 0, (str(error),))
    return check_cell(exercise, answer, connection)


def define(magics: PipeMagics, line: str, cell: str) -> DataFrame | None:
    """Define the exercise of a cell, write its file, and show the feedback on the reference."""
    from pipemagic.teaching.exercises import authoring, checking, exercise

    args = _parse("%%exercise", line, magics.user_ns)
    definition = exercise.parse_cell(args["EXERCISE"], cell)
    connection, folder = magics.session.connection(args.get("--on")), folder_of(magics)
    made = authoring.author(definition, connection, folder, lambda: _run_cell(magics, definition.solution))
    if definition.variable:
        outcome = checking.check_frame(made, magics.user_ns.get(definition.variable))
    elif definition.solution:
        outcome = checking.check_state(made, connection)
    else:
        outcome = checking.check_cell(made, magics.session.read(definition.sql), connection)
    if not outcome.passed:
        raise SessionError(f"the solution of {made.name} does not pass its check\n{Feedback(outcome)!r}")
    made.save(folder)
    show(Feedback(checking.record(outcome)))
    return _answer(magics, outcome)


def summary() -> DataFrame:
    """Return a row for each exercise checked in this notebook, and a row with the total."""
    from pipemagic.teaching.exercises import results

    rows = [(name, check.points, check.exercise.points) for name, check in results.items()]
    total = ("total", sum(row[1] for row in rows), sum(row[2] for row in rows))
    return frame_of([*rows, total], "exercise", "points", "of")


def folder_of(magics: PipeMagics) -> Path:
    """Return the folder of the exercises' files."""
    return Path(magics.settings.exercises)


def _parse(marker: str, line: str, variables: Mapping[str, Any]) -> ParsedArguments:
    accepted = ARGUMENTS[marker]
    usage = arguments.usage_of(marker, accepted, (ON,))
    return arguments.parse(line, accepted, (ON,), usage, LineVariables(line, usage, variables).value)


def _run_cell(magics: PipeMagics, text: str) -> None:
    magics.shell.run_cell(text, store_history=False).raise_error()  # type: ignore[no-untyped-call]
