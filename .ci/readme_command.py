"""Print the command that README gives for running the tests: the first fenced shell block that runs pytest."""

from __future__ import annotations

import re
import sys
from pathlib import Path

FENCE = re.compile(r"^```(?:sh|bash|console|shell)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_command(readme: str) -> str:
    """Give the command; SystemExit if README has none."""
    for block in FENCE.findall(readme):
        if re.search(r"\bpytest\b", block):
            return block.strip()
    raise SystemExit("README.md has no shell block that runs pytest")


if __name__ == "__main__":
    sys.stdout.write(test_command((Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")) + "\n")
