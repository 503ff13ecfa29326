"""The description of a cell's statements: parameters, columns and effect of each one, without running it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from pipemagic import svg
from pipemagic.explore.plans import heading
from pipemagic.text import escape_controls, literal_html

NOT_DESCRIBED = "unknown: this server does not describe statements"


@dataclass(frozen=True)
class Described:
    """The description of one statement.

    ``parameters`` are names with the types of their values, ``columns`` names with declared types ('' for none); None
    if the server does not describe statements. ``effect`` is 'read-only', 'writes to city', 'changes the schema' and
    the like. With a ``problem`` the statement would fail, or cannot be described.
    """

    text: str
    parameters: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] | None = ()
    effect: str = ""
    problem: str = ""

    def lines(self) -> list[tuple[str, str]]:
        """Return pairs of a label and its text, without those that are empty."""
        columns = NOT_DESCRIBED if self.columns is None else _typed(self.columns)
        pairs = [
            ("parameters", _typed(self.parameters)),
            ("columns", "" if self.problem else columns),
            ("effect", self.effect),
            ("problem", self.problem),
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
            lines.append(f"{number}  {heading(statement.text)}")
            lines += [f"   {label:<12}{text}" for label, text in statement.lines()]
        return "\n".join([*lines, NOTHING_RAN])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(_html(number, statement) for number, statement in enumerate(self.statements, start=1))
        table = f'<table class="pipemagic-dry-run"><tbody>{rows}</tbody></table>'
        return literal_html(f"{_STYLE}{table}<p>{NOTHING_RAN}</p>")


NOTHING_RAN = "Nothing was run."

_STYLE = (
    "<style>.pipemagic-dry-run tr, .pipemagic-dry-run td { background: none !important; border: none;"
    f" color: {svg.INK}; text-align: left !important; padding: 1px 16px 1px 6px; vertical-align: top }}"
    f" .pipemagic-dry-run .label {{ color: {svg.FAINT} }} .pipemagic-dry-run .problem {{ color: {svg.WARNING} }}"
    " .pipemagic-dry-run .text { font-weight: bold; white-space: pre }</style>"
)


def _html(number: int, statement: Described) -> str:
    head = f'<tr><td>{number}</td><td colspan="2" class="text">{escape(heading(statement.text))}</td></tr>'
    return head + "".join(
        f'<tr><td></td><td class="label">{label}</td><td class="{label}">{escape(text)}</td></tr>'
        for label, text in statement.lines()
    )
