"""Previews of values: decoding of text that the server cut, formatting in one line."""

from __future__ import annotations

import pytest

from pipemagic.explore.previews import InvalidText, decode_preview, format_number


@pytest.mark.parametrize(
    ("letter", "encoding"), [(b"a", "utf-8"), (b"a\0", "utf-16-le"), (b"\0a", "utf-16-be")], ids=["8", "16le", "16be"]
)
def test_text_may_be_cut_within_a_character(letter, encoding):
    whole = "xyz😀".encode(encoding)
    cut = whole[:-1]
    assert decode_preview("text", whole, letter, len(whole)) == "xyz😀"
    assert decode_preview("text", cut, letter, len(cut)) == "xyz"
    invalid = decode_preview("text", cut, letter, len(cut) + 1)  # shorter than the limit, so stored like this
    assert isinstance(invalid, InvalidText)
    assert invalid == cut


@pytest.mark.parametrize(
    ("number", "text"), [(2026, "2026"), (336776, "336,776"), (12345.678, "12,345.7"), (2e20, "2e+20")]
)
def test_numbers(number, text):
    assert format_number(number) == text
