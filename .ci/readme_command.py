"""Print the first shell command of README that contains a word. `.ci/run` runs it, so README stays true.

Usage: python readme_command.py WORD
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

FENCE = re.compile(r"^```(?:sh|bash|console|shell)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def command_with(word: str, readme: str) -> str:
    """Return the first command that contains the word; SystemExit if README has none."""
    for block in FENCE.findall(readme):
        if re.search(rf"\b{re.escape(word)}\b", block):
            return block.strip()
    raise SystemExit(f"README.md has no shell block with {word}")


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    sys.stdout.write(command_with(sys.argv[1], text) + "\n")
