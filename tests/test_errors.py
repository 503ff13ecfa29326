"""Errors have their details as fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pipemagic
from pipemagic.errors import AuthError, StatementError


def test_a_copy_with_other_fields_keeps_the_rest():
    error = AuthError("no", status=401, hint="log in", code="X")
    other = error.replace(message="the token expired", hint="")
    assert (type(other), str(other), other.args, other.status, other.code) == (
        AuthError, "the token expired", ("the token expired",), 401, "X",
    )  # fmt: skip
    assert str(error) == "no\nlog in"
    failed = StatementError("syntax error", index=1, sql="SELEC", offset=0)
    assert vars(failed.replace(message="typo")) == {**vars(failed), "message": "typo"}


FIELDS = {"message", "hint", "code"}


def assigned(path: Path) -> Iterator[str]:
    """Yield the fields of errors that a module assigns to, other than a class to its own."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr in FIELDS and ast.unparse(target.value) != "self":
                yield ast.unparse(target)


def test_errors_are_not_modified_after_their_creation():
    root = Path(pipemagic.__file__).parent
    found = {str(path.relative_to(root).as_posix()): list(assigned(path)) for path in root.rglob("*.py")}
    assert {path: fields for path, fields in found.items() if fields} == {}
