"""Words that are kept out of code, docstrings, comments, messages and documentation."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipemagic

PACKAGE = Path(pipemagic.__file__).parent  # which may be installed, not the one of the checkout
ROOT = Path(__file__).parents[1]

# Former names without a meaning outside of this project, as parts of identifiers and in text.
PRIVATE = """
    affinities aftermath anew atlocation belonging bookkeeping careless catchingup delivering forgive forgives forgiven
    freshness glance go_on haste holdings inorganization inquiries inquiring inquiry linger lock_out looks_brief nobody
    nobodys_key pacing passage passages preferences settle somebody steprows stranger strangers surroundings tells
    token_places told transcripts turned_to webtokens whence wirepages wish wished woven writerqueue
"""

_WORD = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(PRIVATE.split())})(?![A-Za-z])", re.IGNORECASE)
_FORBIDDEN_START = re.compile(r"(?:Give|Gives|Tell|Tells|Say|Says)\b")


def words_of_code(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each identifier, string and comment of a module."""
    with tokenize.open(path) as file:
        source = file.read()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.COMMENT) or (
            token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
        ):
            yield from enumerate(token.string.split("\n"), token.start[0])


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstring of a module and of its classes and functions."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


def test_private_words_are_found_in_identifiers_and_text():
    assert [bool(_WORD.search(text)) for text in ("_told", "is_woven", "Nobody reads", "tellurium", "foretold")] == [
        True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("folder", [*sorted(path.name for path in PACKAGE.iterdir() if path.is_dir()), ""])
def test_code_has_no_private_words(folder):
    paths = (PACKAGE / folder).rglob("*.py") if folder else PACKAGE.glob("*.py")
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {match[0]}"
        for path in sorted(paths)
        for line, text in words_of_code(path)
        for match in _WORD.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_docstrings_do_not_begin_with_give_tell_or_say():
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {match[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in docstrings(path)
        if (match := _FORBIDDEN_START.match(text))
    ]
    assert not found, "\n".join(found)


def test_documentation_has_no_private_words():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for line, text in enumerate(path.read_text("utf-8").split("\n"), 1)
        for match in _WORD.finditer(text)
    ]
    assert not found, "\n".join(found)
