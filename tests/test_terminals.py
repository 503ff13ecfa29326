"""Passwords of addresses, and what steers a terminal, in text from elsewhere."""

from __future__ import annotations

import time

import pytest

from pipemagic.terminals import without_passwords


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:secret@h/x", "http://***@h/x"),
        ("see postgresql+psycopg://user:p@s/s?e#c@h:5432/db, please", "see postgresql+psycopg://***@h:5432/db, please"),
        ("http://token@h and libsql://:secret@[::1]:80/x", "http://***@h and libsql://***@[::1]:80/x"),
        ("http://user:443/secret@h/x", "http://***@h/x"),
        ("http://user:443/@secret@h/x", "http://***@h/x"),
        ("'http://***@h'", "'http://***@h'"),
    ],
)
def test_user_and_password_are_masked(text, shown):
    assert without_passwords(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "https://h:443/@user/x",
        "https://[::1]:80/a/@user",
        "https://h/@user/x",
        "http://h/x?mail=a@b.de",
        "a:b@c",
        "http://h",
    ],
)
def test_other_text_stays(text):
    assert without_passwords(text) == text


@pytest.mark.parametrize("piece", [":", "://", "a", "://a:", "@)", ":@)", ":1/"])
def test_long_text_takes_no_long_time(piece):
    text, start = "@ x://" + piece * 100_000, time.perf_counter()
    assert without_passwords(text) == text
    assert time.perf_counter() - start < 1
