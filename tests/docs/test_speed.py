"""Each row of the page about speed has the figures of one line that the benchmarks printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "speed.md"
PRINTED = ROOT / "benchmarks" / "README.md"

_FIGURE = re.compile(r"(?<![\w^.])(\d[\d,]*(?:\.\d+)?)(?: (ms)\b)?")


def figures(text: str) -> list[tuple[float, float]]:
    """Return each number with half a unit of its last digit; milliseconds become seconds."""
    found = []
    for number, milliseconds in _FIGURE.findall(text):
        digits = number.replace(",", "")
        unit = 0.001 if milliseconds else 1.0
        found.append((float(digits) * unit, 0.5 * unit * 10.0 ** -len(digits.partition(".")[2])))
    return found


def rows(page: str) -> list[str]:
    """Return the rows of the tables, without their first column and without those of the summary."""
    _, _, tables = page.partition("\n## Read\n")
    cells = [line.strip("|").split("|") for line in tables.splitlines() if line.startswith("|")]
    return [" | ".join(row[1:]) for row in cells if figures(" ".join(row[1:]))]


def is_printed(row: str, lines: list[str]) -> bool:
    """Return True if one line has all figures of a row, rounded as there."""
    wanted = figures(row)
    return any(
        all(any(abs(value - exact) <= half * 1.001 for exact, _ in figures(line)) for value, half in wanted)
        for line in lines
    )


def printed_lines() -> list[str]:
    blocks = re.findall(r"^```text\n(.*?)^```", PRINTED.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("row", rows(PAGE.read_text("utf-8")))
def test_the_figures_of_a_row_were_printed(row):
    assert is_printed(row, printed_lines())


def test_other_figures_are_found():
    lines = ["reading  266.96 ms  pandas.read_sql  259.06 ms  1.03  <= 1.2"]
    assert is_printed("1.03 | 0.27 s | `pandas.read_sql` | 0.26 s", lines)
    assert not is_printed("1.03 | 0.28 s | `pandas.read_sql` | 0.26 s", lines)
    assert len(rows(PAGE.read_text("utf-8"))) >= 20
