"""Print code lines and modules of the package's parts: lines without blanks, comments and docstrings.

Run it as ``python .ci/size.py [FOLDER...]``. Without arguments it prints each part of `PARTS`.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = [
    "pipemagic", "pipemagic/service", "pipemagic/cli", "pipemagic/launcher.py", "client and session",
    "frames and loading", "pipemagic/notebook", "pipemagic/notebook/panels", "pipemagic/explore",
    "pipemagic/teaching", "tests",
]  # fmt: skip
"""Folders, files and `GROUPS`."""

LOADING = "client/bulk"
"""The folder of the client that loads and copies tables."""

GROUPS = {
    "client and session": [
        "client", "http", "management_api", "session", "hrana", "sql", "errors.py", "config.py",
    ],
    "frames and loading": ["frames", LOADING],
}  # fmt: skip
"""Folders and files of the package that are counted together; `LOADING` is counted only in its own group."""

LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(path: Path) -> int:
    """Return the number of code lines of a module."""
    source = path.read_text("utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def size(name: str) -> tuple[int, int]:
    """Return the code lines and the modules of a folder, a file or a group."""
    parts = [ROOT / "pipemagic" / part for part in GROUPS[name]] if name in GROUPS else [ROOT / name]
    paths = [path for part in parts for path in (part.rglob("*.py") if part.is_dir() else [part])]
    if name in GROUPS and LOADING not in GROUPS[name]:
        paths = [path for path in paths if not path.is_relative_to(ROOT / "pipemagic" / LOADING)]
    return sum(map(code_lines, paths)), len(paths)


def main(names: list[str]) -> None:
    """Print a line for each part."""
    for name in names or PARTS:
        lines, modules = size(name)
        print(f"{lines:7,} code lines in {modules:3} modules  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
