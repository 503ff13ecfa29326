"""What the statements of a cell would do, found out without running one: what they take, give, read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from pipemagic import svg
from pipemagic.explore.plans import heading

SCHEMA = "SELECT rootpage, tbl_name FROM sqlite_master WHERE rootpage > 0"
"""Which table each page of EXPLAIN's opcodes belongs to."""

NOT_KNOWN = "not known"

_REGISTER = 0x10
"""A flag in p5: p2 is not the page but where the page's number will be."""


@dataclass(frozen=True)
class Described:
    """One statement.

    ``parameters`` are names with the types of their values, ``columns`` names with declared types ('' for none); None
    where the server does not tell. ``does`` says in a few words what kind of statement it is. ``problem`` says why
    the rest is not known.
    """

    text: str
    parameters: tuple[tuple[str, str], ...] = ()
    columns: tuple[tuple[str, str], ...] | None = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    does: str = ""
    problem: str = ""

    def lines(self) -> list[tuple[str, str]]:
        """Give what there is to say, in pairs: of what, and what."""
        if self.columns is None:
            columns = f"{NOT_KNOWN}: this server does not describe statements"
        else:
            columns = ", ".join(f"{name} {declared}".strip() for name, declared in self.columns)
        pairs = [
            ("parameters", ", ".join(f"{name} {kind}" for name, kind in self.parameters)),
            ("columns", "" if self.problem else columns),
            ("reads", ", ".join(self.reads)),
            ("writes", ", ".join(self.writes)),
            ("does", self.does),
            ("problem", self.problem),
        ]
        return [(of, svg.printable(what)) for of, what in pairs if what]


@dataclass(frozen=True, repr=False)
class DryRun:
    """The statements of a cell, none of which was run."""

    statements: tuple[Described, ...]

    def __str__(self) -> str:
        lines = []
        for number, statement in enumerate(self.statements, start=1):
            lines.append(f"{number}  {heading(statement.text)}")
            lines += [f"   {of:<12}{what}" for of, what in statement.lines()]
        return "\n".join([*lines, NOTHING_RAN])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(_html(number, statement) for number, statement in enumerate(self.statements, start=1))
        return f'{_STYLE}<table class="pipemagic-dry-run"><tbody>{rows}</tbody></table><p>{NOTHING_RAN}</p>'


NOTHING_RAN = "Nothing was run."

_STYLE = (
    "<style>.pipemagic-dry-run tr, .pipemagic-dry-run td { background: none !important; border: none;"
    f" color: {svg.INK}; text-align: left !important; padding: 1px 16px 1px 6px; vertical-align: top }}"
    f" .pipemagic-dry-run .of {{ color: {svg.FAINT} }} .pipemagic-dry-run .problem {{ color: {svg.WARNING} }}"
    " .pipemagic-dry-run .text { font-weight: bold; white-space: pre }</style>"
)


def _html(number: int, statement: Described) -> str:
    head = f'<tr><td>{number}</td><td colspan="2" class="text">{escape(heading(statement.text))}</td></tr>'
    return head + "".join(
        f'<tr><td></td><td class="of">{of}</td><td class="{of}">{escape(what)}</td></tr>'
        for of, what in statement.lines()
    )


@dataclass(frozen=True)
class Touched:
    """The tables that a statement reads and writes, and whether it changes the schema."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    schema: bool = False


def touched(program: Iterable[Sequence[object]], tables: Mapping[object, str]) -> Touched:
    """Read the rows of EXPLAIN; ``tables`` tells which table a page belongs to (that of an index is its table's)."""
    reads, writes, schema = [], [], False
    for _, opcode, p1, p2, p3, _, p5, *_ in program:
        if opcode in ("OpenRead", "ReopenIdx"):
            reads.append(_table(p2, p3, tables))
        elif opcode == "OpenWrite" and not (isinstance(p5, int) and p5 & _REGISTER):
            schema = schema or p2 == 1
            writes.append(_table(p2, p3, tables))
        elif opcode in ("Clear", "Destroy"):
            writes.append(_table(p1, p2 if opcode == "Clear" else p3, tables))
        elif opcode in ("VUpdate", "VCreate", "VDestroy"):
            writes.append("a virtual table")
        elif opcode == "VOpen":
            reads.append("a virtual table")
        elif opcode in ("ParseSchema", "DropTable", "DropIndex", "DropTrigger"):
            schema = True
        elif opcode == "Vacuum":
            writes.append("the whole database")
    written = _once(writes)
    return Touched(tuple(name for name in _once(reads) if name not in written), written, schema)


def _table(page: object, database: object, tables: Mapping[object, str]) -> str:
    if page == 1:
        return "the schema"
    if database == 1:
        return "a temporary table"
    if database != 0:
        return "a table of an attached database"
    return tables.get(page, "a table that is not known")


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name != "the schema"))
