"""Words that are kept out of code, docstrings, comments, messages and documentation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

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
FORMER = set(PRIVATE.split())
START = re.compile(r'^\s*"""(?:Gives?|Tells?|Says?)\b', re.MULTILINE)
"""Verbs with which a docstring does not begin."""


def words_in(text: str) -> set[str]:
    """Return the former names in a text."""
    words = {*re.findall("[a-z]+", text.lower()), *(name for name in FORMER if "_" in name and name in text)}
    return words & FORMER | {*START.findall(text)}


def test_code_and_documentation_have_no_private_words():
    paths = [*PACKAGE.rglob("*.py"), ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = {str(path): words_in(path.read_text("utf-8")) for path in paths}
    assert {path: words for path, words in found.items() if words} == {}


def test_private_words_are_found_in_identifiers_and_text():
    assert words_in('_told, is_woven, go_on, Nobody\n    """Tell it."""') == {
        "told", "woven", "go_on", "nobody", '    """Tell',
    }  # fmt: skip
    assert words_in("tellurium, foretold") == set()


LOOPS = ast.For | ast.AsyncFor | ast.comprehension
CODE = (PACKAGE, *(ROOT / name for name in ("tests", "benchmarks", "docs", "examples", ".ci")))


def pronouns_in(code: str) -> list[int]:
    """Return the lines with a loop variable, or a parameter of a lambda, that is called ``one`` and not by its noun."""
    nodes = list(ast.walk(ast.parse(code)))
    bound: list[ast.AST] = [node.target for node in nodes if isinstance(node, LOOPS)]
    bound += [node.args for node in nodes if isinstance(node, ast.Lambda)]
    names = [name for part in bound for name in ast.walk(part) if isinstance(name, ast.Name | ast.arg)]
    return sorted({name.lineno for name in names if "one" in (getattr(name, "id", ""), getattr(name, "arg", ""))})


def test_loop_variables_are_nouns():
    found = {str(path): pronouns_in(path.read_text("utf-8")) for folder in CODE for path in folder.rglob("*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_pronouns_are_found_in_loops_comprehensions_and_lambdas():
    code = "for at, one in x:\n    pass\n[one for [one] in x]\nsorted(x, key=lambda one: one)\none = some.one"
    assert pronouns_in(code) == [1, 3, 4]
