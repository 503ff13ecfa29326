"""Each row of the page about speed has the figures of one line that the benchmarks printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "analysts" / "speed.md"
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


def rows(page: str) -> list[tuple[str, str, str]]:
    """Return the figure of pipemagic, that of the other program and the result of each row of the table."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:2] == "| "]
    return [(row[1], row[3], row[4]) for row in cells[1:]]


def is_printed(ours: str, theirs: str, result: str, lines: list[str]) -> bool:
    """Return True if one line has both figures, rounded as there, and their ratio, which the result states."""
    wanted = figures(f"{ours} | {theirs}")
    for line in lines:
        printed = [value for value, _ in figures(line)]
        exact = [[value for value in printed if abs(value - near) <= half * 1.001] for near, half in wanted]
        if all(exact):
            quotient = exact[0][0] / exact[1][0]  # of rounded medians, so it is near the printed ratio
            ratios = {value for figure in printed if figure for value in (figure, 1 / figure)}
            medians = {ratio for ratio in ratios if abs(ratio / quotient - 1) < 0.02}
            if any(result in results(1 / ratio if "rows/s" in ours else ratio) for ratio in medians):
                return True
    return False


def results(ratio: float) -> set[str]:
    """Return what a row can say of a ratio of costs (times, memory): that of pipemagic to that of the other program.

    As in README, it is a percentage below twice the cost, and a factor above.
    """
    word, factor = ("slower", ratio) if ratio >= 1 else ("faster", 1 / ratio)
    words = {f"{100 * (factor - 1):.0f}% {word}"}
    if factor >= 2:
        words = {f"{factor:.0f} times {word}", f"{factor:.1f} times {word}", f"{ratio:.1f} times larger"}
    return words | ({"as fast"} if abs(ratio - 1) < 0.035 else set())


def printed_lines() -> list[str]:
    blocks = re.findall(r"^```text\n(.*?)^```", PRINTED.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize(("ours", "theirs", "result"), rows(PAGE.read_text("utf-8")))
def test_the_figures_of_a_row_were_printed_and_the_result_follows(ours, theirs, result):
    assert is_printed(ours, theirs, result, printed_lines())


def test_other_figures_and_results_are_found():
    lines = ["reading  266.96 ms  pandas.read_sql  259.06 ms  1.03  <= 1.2"]
    assert is_printed("0.27 s", "0.26 s", "3% slower", lines)
    assert not is_printed("0.28 s", "0.26 s", "3% slower", lines)
    assert not is_printed("0.27 s", "0.26 s", "4% slower", lines)
    assert not is_printed("0.26 s", "0.27 s", "3% slower", lines)
    assert len(rows(PAGE.read_text("utf-8"))) >= 10
