"""Errors carry what is known as data."""

from __future__ import annotations

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
