"""Addresses and tokens with what people paste around them."""

from __future__ import annotations

import pytest

from pipemagic.client.pasted import strip_quotes, token_in
from pipemagic.client.secrets import BearerToken
from pipemagic.errors import ConnectError

TOKEN = "eyJhbGciOiJFZERTQSJ9.eyJhIjoicncifQ.c2lnbmF0dXJl-_="

AROUND = [
    "{}", '"{}"', "'{}'", "`{}`", "“{}”", "‘{}’", "„{}“", "  {} ", "{}\n", "\n{}\r\n", '"{}"\n', '" {} "', "'\"{}\"'",
    "\ufeff{}", "\u200b{}\u200b", "\xa0{}",
]  # fmt: skip
"""What is around a pasted value."""


@pytest.mark.parametrize("around", AROUND)
def test_what_is_around_a_value_is_removed(around: str) -> None:
    assert strip_quotes(around.format("http://h:1")) == "http://h:1"
    assert token_in(around.format(TOKEN)) == TOKEN
    assert token_in(around.format(f"Bearer {TOKEN}")) == TOKEN
    assert BearerToken(around.format(TOKEN)).value == f"Bearer {TOKEN}".encode()


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {TOKEN}", f"bearer  {TOKEN}\n", f"BEARER\t{TOKEN}", f'Bearer "{TOKEN}"',
        f"Authorization: Bearer {TOKEN}", f"authorization:bearer {TOKEN}", f"Bearer\n{TOKEN}",
    ],
)  # fmt: skip
def test_the_name_of_the_scheme_is_removed(text: str) -> None:
    assert token_in(text) == TOKEN


@pytest.mark.parametrize("text", ["", " \n", '""', "''", '" "', "Bearer", '"Bearer "', "Authorization: Bearer"])
def test_nothing_is_no_token(text: str) -> None:
    assert token_in(text) == ""
    assert not BearerToken(text)


@pytest.mark.parametrize(
    ("inside", "name"),
    [
        (" ", "a space"), ("\n", "a line break"), ("\r\n", "a line break"), ("\t", "a tab"),
        ("\x00", "a control character"), ('"', "a quotation mark"), ("\\n", "a backslash"),
        ("…", r"the character U\+2026 \(HORIZONTAL ELLIPSIS\)"),
        ("\u200b", r"the character U\+200B \(ZERO WIDTH SPACE\)"),
        ("é", r"the character U\+00E9 \(LATIN SMALL LETTER E WITH ACUTE\)"),
        ("<", "the character <"), ("=", "the character ="),
    ],
)  # fmt: skip
def test_a_character_that_no_token_has_is_named_and_the_token_is_not_shown(inside: str, name: str) -> None:
    with pytest.raises(
        ConnectError, match=f"^the token in the variable T contains {name}, so it was not sent"
    ) as caught:
        token_in(f"s3cret1{inside}s3cret2", "the token in the variable T")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ConnectError, match=f"the token contains {name}"):
        BearerToken(f"s3cret1{inside}s3cret2")


@pytest.mark.parametrize("text", ['"s3cret', "s3cret'", "\"s3cret'"])
def test_a_quotation_mark_without_its_pair(text: str) -> None:
    with pytest.raises(ConnectError, match="contains a quotation mark") as caught:
        token_in(text)
    assert "s3cret" not in str(caught.value)
