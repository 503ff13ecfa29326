"""The examples of a page of the documentation: its fences, hidden cells and commands, and reasons not to run one."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [
    README,
    DOCS / "index.md",
    *(
        page
        for part in ("tutorial", "analysts", "teachers", "operators", "reference")
        for page in sorted((DOCS / part).glob("*.md"))
    ),
]
GENERATED = {DOCS / "reference" / f"{name}.md" for name in ("commands", "errors", "python")}
OTHER_VARIABLES = (
    "PIPEMAGIC_API_TOKEN",
    "PIPEMAGIC_API_URL",
    "PIPEMAGIC_TOKEN",
    "PIPEMAGIC_URL",
    "TURSO_API_TOKEN",
    "TURSO_AUTH_TOKEN",
)
"""Settings of the machine that examples must not see."""

CELLS = {"ipython", "python", "{code-cell} ipython3"}
"""Kinds of fences that are cells."""
SHELLS = {"sh", "console"}

_FENCE = re.compile(r"(?P<indent> *)(?P<ticks>`{3,}|:{3,})(?P<kind>[^`]*)")
_OPERATOR = re.compile(r"[|&;<>()]+")

# Parts of outputs that differ between runs, and what replaces them on both sides of the comparison.
_VARYING = [
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|µs)\b"), "TIME"),
    (re.compile(r"(?<=\w):\d{4,5}\b"), ":PORT"),
    (re.compile(r"\beyJ[\w.-]+|\bpmp_\w+"), "TOKEN"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UUID"),
]
_VARYING_OF_COMMANDS = [
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b"), "DATE"),
    (re.compile(r"\b\d\d:\d\d\b"), "HH:MM"),
    (re.compile(r"\b\d+ (?:s|min) ago +"), "TIME ago  "),
    (re.compile(r"(?<=--code )[0-9B-Z]{8}\b"), "CODE"),
]


def name(page: Path) -> str:
    """Return the path of a page below docs/, without its suffix."""
    return str(page.relative_to(ROOT)).removeprefix("docs/").removesuffix(".md")


@dataclass
class Block:
    """A fence or a comment of a page. ``line`` is the first line of its text."""

    kind: str
    text: str
    line: int


@dataclass
class Cell:
    """A cell. ``expected`` is its output on the page, None if none is shown; ``not_run`` is the reason or ''.

    ``raises`` is whether it has the tag for an error of myst-nb.
    """

    source: str
    line: int
    expected: str | None = None
    not_run: str = ""
    hidden: bool = False
    raises: bool = False


@dataclass
class Step:
    """A command of a ``console`` fence with its output, or a whole fence or comment of commands.

    ``expected`` is the output on the page. If it is None, the output counts for nothing, but all commands must succeed.
    """

    source: str
    line: int
    expected: str | None = None
    not_run: str = ""


def blocks(page: Path) -> list[Block]:
    """Return the fences, comments and paragraphs of a page, in order.

    The kind of a line of text is ``''``, that of code without a language is ``plain``.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    found: list[Block] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if fence := _FENCE.fullmatch(line):
            end = number + 1
            while end < len(lines) and lines[end].strip() != fence["ticks"]:
                end += 1
            found.append(
                Block(fence["kind"].strip() or "plain", _join(lines[number + 1 : end], fence["indent"]), number + 2)
            )
        elif line.lstrip().startswith("<!--"):
            end = number
            while "-->" not in lines[end]:
                end += 1
            text = "\n".join(lines[number : end + 1]).lstrip().removeprefix("<!--").partition("-->")[0]
            found.append(Block("comment", text.strip(), number + 1))
        else:
            end = number
            if line.strip():
                after_blank = number > 0 and not lines[number - 1].strip()
                found.append(Block("plain" if after_blank and _is_code(lines[:number], line) else "", line, number + 1))
        number = end + 1
    return found


def _is_code(before: list[str], line: str) -> bool:
    """Return True if an indented line behind a blank one is code, not part of a list."""
    start = next((earlier for earlier in reversed(before) if earlier.strip() and not earlier.startswith(" ")), "")
    return line.startswith("    ") and not re.match(r"[-*+:] |\d+[.)] |\[", start)


def _join(lines: list[str], indent: str) -> str:
    return "".join(f"{line.removeprefix(indent)}\n" for line in lines)


def cells(page: Path) -> list[Cell]:
    """Return the cells of a page with their outputs."""
    found: list[Cell] = []
    before = Block("", "", 0)
    for block in blocks(page):
        if block.kind in CELLS:
            source = re.sub(r"\A(?::[\w-]+:.*\n)+\n?", "", block.text)  # options of a cell of myst-nb
            raises = "raises-exception" in block.text.removesuffix(source)
            found.append(Cell(source, block.line, not_run=_reason(before), raises=raises))
        elif block.kind == "comment" and block.text.startswith("cell\n"):
            found.append(Cell(block.text.removeprefix("cell\n"), block.line + 1, hidden=True))
        elif block.kind == "text" and is_cell(before):
            found[-1].expected = block.text
        before = block
    return found


def is_cell(block: Block) -> bool:
    """Return True if the block is a cell, shown or hidden."""
    return block.kind in CELLS or (block.kind == "comment" and block.text.startswith("cell\n"))


def _reason(before: Block) -> str:
    is_reason = before.kind == "comment" and before.text.startswith("not run:")
    return before.text.removeprefix("not run:").strip() if is_reason else ""


def steps(page: Path) -> list[Step]:
    """Return the shell commands of a page, in order."""
    found: list[Step] = []
    before = Block("", "", 0)
    for block in blocks(page):
        if block.kind in SHELLS and (reason := _reason(before)):
            found.append(Step(block.text, block.line, not_run=reason))
        elif block.kind == "console":
            found += _steps_of_console(block)
        elif block.kind == "sh":
            found.append(Step(block.text, block.line))
        elif block.kind == "comment" and block.text.startswith("shell\n"):
            found.append(Step(block.text.removeprefix("shell\n"), block.line + 1))
        elif block.kind == "text" and before.kind in SHELLS:
            found[-1].expected = block.text
        before = block
    return found


def _steps_of_console(block: Block) -> list[Step]:
    found: list[Step] = []
    continues = False
    for number, line in enumerate(block.text.splitlines(keepends=True), block.line):
        if line.startswith("$ "):
            found.append(Step(line.removeprefix("$ "), number, expected=""))
        elif not found:
            raise ValueError(f"line {number} of a console fence is the output of no command: {line!r}")
        elif continues:
            found[-1].source += line
        else:
            found[-1].expected = f"{found[-1].expected}{line}"
        continues = line.endswith("\\\n")
    return found


def commands(page: Path) -> list[tuple[int, list[str]]]:
    """Return the line and the arguments of each ``pipemagic`` command in the fences of shell commands."""
    found = []
    for block in blocks(page):
        if block.kind not in SHELLS:
            continue
        text = block.text.replace("\\\n", " ")
        for offset, line in enumerate(text.splitlines()):
            if block.kind == "sh" or line.startswith("$ "):
                found += [(block.line + offset, words[1:]) for words in _simple_commands(line.removeprefix("$ "))]
    return found


def _simple_commands(line: str) -> list[list[str]]:
    """Split a line of shell at its operators; return the parts that call ``pipemagic``, without redirections."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    words.commenters = "#"
    parts: list[list[str]] = [[]]
    target = False
    for word in words:
        if _OPERATOR.fullmatch(word):
            target = bool(re.search("[<>]", word))
            if not target:
                parts.append([])
        elif target:
            target = False
        else:
            parts[-1].append(word)
    return [part for part in map(_without_assignments, parts) if part and part[0] == "pipemagic"]


def _without_assignments(words: list[str]) -> list[str]:
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0]):
        words = words[1:]
    return words


def normalize(output: str) -> str:
    """Replace times, ports, tokens and identifiers; remove the numbers of outputs and blanks at the ends of lines."""
    text = re.sub(r"^Out\[\d+\]: ?\n?", "", output, flags=re.MULTILINE)
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return re.sub(r"[ \t\r]+$", "", text, flags=re.MULTILINE).strip()


def normalize_commands(output: str, home: str = "/home/ada") -> str:
    """Replace dates, times of day, ages and the home folder, too."""
    text = output.replace(home, "/home/ada")
    for pattern, name in _VARYING_OF_COMMANDS:
        text = pattern.sub(name, text)
    return normalize(text)
