"""Words that are kept out of code, docstrings, comments, messages and documentation."""

from __future__ import annotations

import ast
import re
import textwrap
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


FOLDERS = ("cli", "client", "hrana", "http", "management_api", "service", "session", "teaching/classes")
PARTICIPLES = {
    "asked", "chosen", "found", "gathered", "given", "held", "kept", "known", "listed", "made", "named", "said",
    "shown", "taken", "used", "wanted",
}  # fmt: skip
"""Names that say how a variable was obtained, not what it is."""


def participles_in(code: str) -> list[int]:
    """Return the lines that bind one of the participles. Fields of classes, attributes and parameters may have them."""
    tree = ast.parse(code)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    fields = {id(name) for node in classes for part in node.body for name in targets_of(part)}
    names = [name for name in ast.walk(tree) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
    lines = {name.lineno for name in names if id(name) not in fields and name.id.strip("_") in PARTICIPLES}
    others = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar)]
    return sorted(lines | {node.lineno for node in others if node.name in PARTICIPLES})


def targets_of(node: ast.stmt) -> list[ast.AST]:
    """Return the nodes of the targets of an assignment; [] for another statement."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [part for target in targets for part in ast.walk(target)]


def test_loop_variables_are_nouns():
    found = {str(path): pronouns_in(path.read_text("utf-8")) for folder in CODE for path in folder.rglob("*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_results_are_named_by_nouns():
    paths = [path for name in FOLDERS for path in (PACKAGE / name).rglob("*.py")]
    lines = {str(path): participles_in(path.read_text("utf-8")) for path in paths}
    assert {path: numbers for path, numbers in lines.items() if numbers} == {}


def test_participles_are_found_where_names_are_bound():
    code = """\
        found, total = f()
        [known for known in x]
        if (_kept := x.kept):
            pass
        try: pass
        except E as given: pass
        match x:
            case [*taken]: pass
        class C:
            found: int = 0
            def f(self, known, *, given=1): self.kept = known.taken(asked=given); unfound = well_known = given
    """
    assert participles_in(textwrap.dedent(code)) == [1, 2, 3, 6, 8]


def test_pronouns_are_found_in_loops_comprehensions_and_lambdas():
    code = "for at, one in x:\n    pass\n[one for [one] in x]\nsorted(x, key=lambda one: one)\none = some.one"
    assert pronouns_in(code) == [1, 3, 4]
