"""The magics of exercises: %%exercise defines one, %%check and %check check an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from IPython.core.magic import cell_magic, line_cell_magic, magics_class, needs_local_scope, no_var_expand
from traitlets import HasTraits

from pipemagic import sql
from pipemagic.errors import PipemagicError, SessionError
from pipemagic.notebook.arguments import Option, Positional
from pipemagic.notebook.display import KEPT, say, show
from pipemagic.notebook.load_source import add_load_hint
from pipemagic.notebook.magics import short_traceback, visible_variables
from pipemagic.notebook.plugin_magics import PluginMagics
from pipemagic.notebook.settings import Unicode
from pipemagic.svg import FAINT
from pipemagic.text import escape_controls, literal_html

if TYPE_CHECKING:
    from pandas import DataFrame

    from pipemagic.session.connection import Connection
    from pipemagic.teaching.exercises import Check, Exercise
    from pipemagic.teaching.exercises.exercise import Definition

EXERCISE = Positional("EXERCISE", "the name of the exercise", completes="exercise")
OPTIONAL = Positional("EXERCISE", "the name of the exercise", completes="exercise", optional=True)
VARIABLE = Positional("VARIABLE", "a variable with a DataFrame to check", completes="frame", optional=True)
ON = Option("--on", "use this connection instead of the current one", "NAME")

RESET = Option("--reset", "restore the tables that the answer changed, as they were before it")

ARGUMENTS = {"%%exercise": (EXERCISE,), "%%check": (EXERCISE,), "%check": (OPTIONAL, VARIABLE)}
"""The positional arguments of each magic."""


class Settings(HasTraits):
    """The settings of exercises, which are traits of ``%config PipeMagic``."""

    exercises = Unicode("exercises", help="folder of the files that %%exercise writes and %check reads").tag(
        config=True
    )


@dataclass(frozen=True, repr=False)
class Feedback:
    """What a check found: points, reasons, the first differing rows and hints."""

    check: Check

    @property
    def head(self) -> str:
        """The exercise and its points in quarters."""
        exercise, check = self.check.exercise, self.check
        of = f"{exercise.points:g} point{'' if exercise.points == 1 else 's'}"
        if not (check.passed or check.quarters):
            return f"{exercise.name}: {'not yet' if check.messages else 'no answer yet'} ({of})"
        return f"{exercise.name}: {'passed, ' if check.passed else ''}{check.quarters:g} of {of}"

    @property
    def hints(self) -> list[str]:
        """The hints so far, numbered."""
        of = len(self.check.exercise.hints)
        shown = () if self.check.passed or not self.check.messages else self.check.hints
        return [f"Hint {at} of {of}: {hint}" for at, hint in enumerate(shown, 1)]

    def __repr__(self) -> str:
        lines = [self.head, *(f"- {line.replace(chr(10), chr(10) + '  ')}" for line in self.check.messages)]
        if self.check.difference is not None:
            lines += [self.check.heading, self.check.difference.map(_sql).to_string(index=False)]
        return escape_controls("\n".join([*lines, *self.check.notes, *self.hints]), keep=KEPT)

    def _repr_html_(self) -> str:
        colour = "#2e7d32" if self.check.passed else "#b26a00" if self.check.messages else FAINT
        parts = [f"<b>{_html(self.head)}</b>"]
        if self.check.messages:
            parts.append(f"<ul style='margin: 4px 0'>{''.join(map(_item, self.check.messages))}</ul>")
        if self.check.difference is not None:
            table = self.check.difference.map(lambda value: _html(_sql(value))).rename(columns=_html)
            parts.append(f"{_html(self.check.heading)}{table.to_html(index=False, escape=False, border=0)}")
        parts += [f"<div style='color: {FAINT}'>{_html(note)}</div>" for note in self.check.notes]
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


@magics_class
class ExerciseMagics(PluginMagics):
    """The magics of exercises."""

    arguments: ClassVar = {
        marker: (accepted, (ON, RESET) if marker == "%check" else (ON,)) for marker, accepted in ARGUMENTS.items()
    }

    def names(self) -> Mapping[str, Callable[[], Iterable[str]]]:
        """Return the names of the exercises with a file."""
        return {"exercise": lambda: sorted(file.stem for file in self.folder.glob("*.json"))}

    @property
    def folder(self) -> Path:
        """The folder of the exercises' files."""
        return Path(self.pipe.settings.exercises)  # type: ignore[attr-defined] # a trait of `Settings`

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def check(self, line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        """Check the answer to an exercise: its points, what is wrong, and the next hint.

        SQL, which runs in a transaction that is rolled back::

            %%check late_flights
            SELECT carrier, count(*) AS late FROM flights WHERE dep_delay > 60 GROUP BY carrier

        The state of the database, a DataFrame, or a summary of all exercises checked so far::

            %check archive_table
            %check late_flights frame
            %check

        The tables before the answer, if it has committed a wrong one::

            %check archive_table --reset
        """
        with short_traceback():
            return self._check(line, cell, visible_variables(local_ns, self.pipe.user_ns))

    @no_var_expand
    @cell_magic
    def exercise(self, line: str, cell: str) -> Any:
        """Define an exercise, which students solve with %%check, and write its file.

        The header is SQL comments, the reference SQL is below it::

            %%exercise late_flights
            -- task: How many flights of each airline left more than an hour late?
            -- points: 2
            -- hint: dep_delay contains minutes.
            SELECT carrier, count(*) AS late FROM flights WHERE dep_delay > 60 GROUP BY carrier

        All keys: task, points, hint, requires, forbids, columns, names, feedback, tolerance, state, hidden, solution,
        variable. `pipemagic exercises release` makes the students' notebook.
        """
        with short_traceback():
            return self._define(line, cell)

    def _check(self, line: str, cell: str | None, variables: Mapping[str, Any]) -> DataFrame | None:
        """Check the SQL of a cell, the state of the database, or a DataFrame; without a name return the summary."""
        from pipemagic.teaching.classes.progress import recorder_of
        from pipemagic.teaching.exercises import checking, exercise

        args = self.parse("%check" if cell is None else "%%check", line, variables)
        name, variable, on = args.get("EXERCISE"), args.get("VARIABLE"), args.get("--on")
        if args.on("--reset"):
            self._reset(name, on)
            return None
        if name is None:
            checked = summary()
            self.pipe.frame_display.apply(checked)
            return checked
        chosen = exercise.load(name, self.folder)
        recorder = recorder_of(self.pipe.session, on)
        with nullcontext() if recorder is None else recorder.paused():
            if variable:
                outcome = checking.check_frame(chosen, variables.get(variable), self._connection(on))
            elif cell is None:
                outcome = checking.check_state(chosen, self.pipe.session.connection(on))
            else:
                outcome = self._check_sql(chosen, cell, on, variables)
        if cell is None:
            history = self.shell.history_manager
            outcome = replace(outcome, history=tuple(history.input_hist_raw) if history else ())
        outcome = checking.record(outcome)
        if recorder is not None and (outcome.passed or outcome.messages):
            recorder.add_check(outcome)
        show(Feedback(outcome))
        return self._answer(outcome) if cell is not None else None

    def _reset(self, name: str | None, on: str | None) -> None:
        """Restore the tables of an exercise."""
        from pipemagic.teaching.exercises import exercise, tables

        if name is None:
            raise SessionError("EXERCISE is missing", hint="%check EXERCISE --reset")
        done = tables.restore(exercise.load(name, self.folder), self.pipe.session.connection(on))
        say(f"{done}. Run your answer again.")

    def _connection(self, on: str | None) -> Connection | None:
        """Return the connection, None without one: the data of a DataFrame may be elsewhere."""
        try:
            return self.pipe.session.connection(on)
        except SessionError:
            return None

    def _check_sql(self, exercise: Exercise, text: str, on: str | None, variables: Mapping[str, Any]) -> Check:
        """Check SQL with the errors, hints and notes of %%sql."""
        from pipemagic.teaching.exercises.checking import Check, check_cell
        from pipemagic.teaching.exercises.running import EMPTY

        connection = self.pipe.session.connection(on)
        try:
            cell = self.pipe.read(f"\n{text}", variables) if sql.split(text) else EMPTY  # lines count as in the cell
        except PipemagicError as error:  # such as a parameter without a value
            return Check(exercise, 0, (str(_of_check(error)),))
        return check_cell(
            exercise,
            cell,
            connection,
            lambda ran: self.pipe.notes_on(cell, on, ran.outcomes, variables),
            lambda error: _of_check(add_load_hint(error, variables, on)),
        )

    def _answer(self, outcome: Check) -> DataFrame | None:
        """Return the frame of an answer, the value of its cell."""
        from pipemagic.client.result import Result
        from pipemagic.frames import to_frame
        from pipemagic.frames.logical_types import stored_with_time

        answer = outcome.answer
        if not isinstance(answer, Result):
            if answer is not None:
                self.pipe.frame_display.apply(answer)
            return answer
        frame = to_frame(answer.wire, note=say)
        self.pipe.frame_display.apply(frame, timed=stored_with_time(answer.wire))
        return frame

    def _define(self, line: str, cell: str) -> DataFrame | None:
        """Define the exercise of a cell, write its file, and show the feedback on the reference."""
        from pipemagic.teaching.exercises import authoring, checking, exercise
        from pipemagic.teaching.exercises.release import solution_of
        from pipemagic.teaching.exercises.tables import restored_after_error

        args = self.parse("%%exercise", line, self.pipe.user_ns)
        definition = exercise.parse_cell(args["EXERCISE"], cell)
        connection = self.pipe.session.connection(args.get("--on"))
        solution = solution_of(definition, line.strip().removeprefix(definition.name).strip())
        if definition.commits:
            self._undo_solution(definition.name, connection)
        keeping = restored_after_error(connection, definition.texts) if definition.commits else nullcontext()
        with keeping:
            made = authoring.author(definition, connection, self.folder, lambda: self._run_cell(solution))
            outcome = self._checked(definition, made, connection)
            if definition.hidden and definition.in_cells:
                self._check_hidden(definition, solution, outcome)
        made.save(self.folder)
        if not made.task:
            say(f"{made.name} has no task: add `-- task: ...`, which students read.")
        if definition.commits and not made.commits:
            say(f"%check {made.name} --reset will restore nothing: no table changed, or one with too many rows.")
        show(Feedback(checking.record(outcome)))
        answer = self._answer(outcome)
        if answer is not None and not len(answer) and not (made.probes[0].sql or definition.hidden):
            say(f"{made.name} has no rows, so each answer without rows is right: add `-- hidden: ...` with some.")
        return answer

    def _checked(self, definition: Definition, made: Exercise, connection: Connection) -> Check:
        """Return the check of the reference or of the solution, which has run; raise SessionError if it fails."""
        from pipemagic.teaching.exercises import checking

        if definition.variable:
            outcome = checking.check_frame(made, self.pipe.user_ns.get(definition.variable), connection)
        elif definition.commits:
            outcome = checking.check_state(made, connection)
        else:
            outcome = checking.check_cell(made, self.pipe.session.read(definition.sql), connection)
        if not outcome.passed:
            raise SessionError(f"the solution of {made.name} fails its own check\n{Feedback(outcome)!r}")
        return outcome

    def _undo_solution(self, name: str, connection: Connection) -> None:
        """Restore the tables if the solution has run: another run would change what it has changed."""
        from pipemagic.teaching.exercises import checking, exercise, tables

        if not (self.folder / f"{name}.json").exists():
            return
        made = exercise.load(name, self.folder)
        if not (all(probe.sql for probe in made.probes) and checking.check_state(made, connection).passed):
            return
        if not made.commits:
            raise SessionError(
                f"the solution of {name} has run already, and the exercise has no copy of its tables", hint=tables.AGAIN
            )
        say(f"{tables.restore(made, connection)}, as before the solution.")

    def _check_hidden(self, definition: Definition, solution: str, outcome: Check) -> None:
        """Raise SessionError if the solution is wrong on the hidden data, as a hard-coded one is."""
        from pipemagic.teaching.exercises.rerun import score_of_cells

        score = score_of_cells(
            outcome, [solution], reference=definition.sql, data=definition.hidden, variable=definition.variable
        )
        if score < 1:
            hint = "let it read the tables: variables of earlier cells are made before the hidden statements"
            raise SessionError(f"the solution of {definition.name} is wrong on the hidden data", hint=hint)

    def _run_cell(self, text: str) -> None:
        self.shell.run_cell(text, store_history=False).raise_error()  # type: ignore[no-untyped-call]


def _of_check(error: PipemagicError) -> PipemagicError:
    """Return an error of %%sql without the options that %%check does not have."""
    hint = error.hint.replace(", or add the key to --params", "").replace("write %sql --confirm ", "write ")
    return error.replace(hint=hint)


def summary() -> DataFrame:
    """Return a row for each exercise checked in this notebook, with points in quarters, and a row with the total."""
    from pipemagic.notebook.commands.base import frame_of
    from pipemagic.teaching.exercises import results

    rows = [(name, check.quarters, check.exercise.points) for name, check in results.items()]
    total = ("total", sum(row[1] for row in rows), sum(row[2] for row in rows))
    return frame_of([*rows, total], "exercise", "points", "of")
