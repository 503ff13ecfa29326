"""Errors have their details as fields, and a code with a meaning, usual causes and advice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import apsw

import pipemagic
from pipemagic.errors import AuthError, StatementError
from pipemagic.notebook.commands.pages import error_texts, meaning_of
from pipemagic.service import responses

ROOT = Path(pipemagic.__file__).parent


@cache
def modules() -> dict[str, ast.Module]:
    """Return the parsed modules of the package by path."""
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}


def test_a_copy_with_other_fields_keeps_the_rest():
    error = AuthError("no", status=401, hint="log in", code="X")
    other = error.replace(message="the token expired", hint="")
    assert (type(other), str(other), other.args, other.status, other.code) == (
        AuthError, "the token expired", ("the token expired",), 401, "X",
    )  # fmt: skip
    assert str(error) == "no\nHint: log in"
    failed = StatementError("syntax error", index=1, sql="SELEC", offset=0)
    assert vars(failed.replace(message="typo")) == {**vars(failed), "message": "typo"}


FIELDS = {"message", "hint", "code"}


def assigned(module: ast.Module) -> Iterator[str]:
    """Yield the fields of errors that a module assigns to, other than a class to its own."""
    for node in ast.walk(module):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr in FIELDS and ast.unparse(target.value) != "self":
                yield ast.unparse(target)


def test_errors_are_not_modified_after_their_creation():
    found = {path: list(assigned(module)) for path, module in modules().items()}
    assert {path: fields for path, fields in found.items() if fields} == {}


TEXTS = {code: texts for group in error_texts().values() for code, texts in group.items()}
NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
OTHER_NAMES = re.compile(
    r"(?:CAP|CURRENT|FILEIO|JUPYTER|JUPYTERHUB|LIBSQL|O|PIPEMAGIC|PROGRESS|REQUESTS|RUST|SQLD|SSL|TCP|TURSO|XDG)_.+"
    r"|.+_PROXY|SQLITE_TMPDIR|FIRST_LETTER|HIGHEST_PARAMETER|KEY_VALUES_MISMATCH|LOAD_EXTENSION|FTS3_TOKENIZER"
    r"|SHELL_SETTINGS|STRAIGHT_JOIN|AUTO_INCREMENT|LEGACY_TRANSACTION_CONTROL|SQLITE_BUSY_SNAPSHOT|SQLITE_UNKNOWN"
)
"""Texts in the package that look like codes: environment variables, options of sockets, names of SQLite,
words of MySQL, extended codes of SQLite, and the code of sqld for all that SQLite calls generic."""
NO_ERRORS = {"SQLITE_OK", "SQLITE_ROW", "SQLITE_DONE", "SQLITE_NOTICE", "SQLITE_WARNING"}


def texts_in(tree: ast.AST) -> Iterator[str]:
    """Yield the names with an underscore in a module, and the values of ``code``."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if NAME.fullmatch(text):
                yield text
            case (
                ast.keyword(arg="code", value=ast.Constant(value=str(text)))
                | ast.Assign(targets=[ast.Name(id="code" | "unchanged")], value=ast.Constant(value=str(text)))
            ) if text:
                yield text


def test_every_error_code_is_described_and_no_other():
    """`responses` has the codes of HTTP statuses; the service sends SQLite's primary result codes."""
    named = {text for module in modules().values() for text in texts_in(module)}
    sqlite = {str(name) for number, name in apsw.mapping_result_codes.items() if isinstance(number, int)} - NO_ERRORS
    codes = {text for text in named if not OTHER_NAMES.fullmatch(text)} | sqlite | {*responses._CODES.values()}
    assert codes <= set(TEXTS)
    assert set(TEXTS) - codes <= ONE_WORD
    assert len(TEXTS) == sum(len(group) for group in error_texts().values()), "a code is in two groups"


ONE_WORD = {"BLOCKED", "HOSTING", "ERROR"}
"""Codes that `texts_in` does not find: they are arguments without a keyword."""


def test_the_texts_on_error_codes_are_sentences():
    for code, texts in TEXTS.items():
        assert texts.keys() <= {"meaning", "causes", "advice"}, code
        sentences = [meaning_of(code, texts), *texts["causes"], texts["advice"]]
        assert len(sentences) > 2, code
        assert [text for text in sentences if not re.fullmatch(r"[A-Z`p].{7,}\.", text)] == [], code


def test_the_text_of_an_error_has_no_control_characters():
    """A server's message may quote data, and a traceback is printed to a terminal; the message itself stays exact."""
    error = StatementError("no such column: a\x1b]0;title\x07\u202e\x9b31m\tb", code="X", hint="line\ntwo\x1b[2J")
    assert str(error) == "no such column: a\\u001b]0;title\\u0007\\u202e\\u009b31m\tb\nHint: line\ntwo\\u001b[2J"
    assert error.message == "no such column: a\x1b]0;title\x07\u202e\x9b31m\tb"
