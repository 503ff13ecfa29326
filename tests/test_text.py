"""Amounts, passwords of addresses, control characters and tables in text that people read."""

from __future__ import annotations

import time

import pytest

from pipemagic.text import escape_controls, format_size, mask_passwords, shorten, text_table


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
    assert mask_passwords(text) == shown


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
    assert mask_passwords(text) == text


@pytest.mark.parametrize("piece", [":", "://", "a", "://a:", "@)", ":@)", ":1/"])
def test_masking_takes_linear_time(piece):
    text, start = "@ x://" + piece * 100_000, time.process_time()
    assert mask_passwords(text) == text
    assert time.process_time() - start < 5  # a moment; minutes if the time is quadratic


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (5 * 10**12, "5.0 TB"),
     (5 * 10**16, "50000.0 TB")],
)  # fmt: skip
def test_sizes(size, text):
    assert format_size(size) == text


def test_control_characters_are_escaped_except_those_to_keep():
    assert escape_controls("a\x1b[31m\r\n\u202eb\ud800 é日") == "a\\u001b[31m\\r\\n\\u202eb\\ud800 é日"
    assert escape_controls("a\n\tb\x00", keep="\n\t") == "a\n\tb\\u0000"


def test_long_text_is_shortened_to_the_width():
    assert [shorten(text, 4) for text in ("abcd", "abcde")] == ["abcd", "abc…"]


def test_a_table_aligns_wide_letters_escapes_controls_and_omits_empty_columns():
    rows = [["name", "", "n"], ["日本", "", "10"], ["a\nb", "", "2"]]
    assert list(text_table(rows, [False, False, True])) == ["name   n", "日本  10", "a\\nb   2"]
