"""Values that were cut by the server, read again."""

from __future__ import annotations

import pytest

from pipemagic.explore.sending import NotText, received


@pytest.mark.parametrize(
    ("letter", "coding"), [(b"a", "utf-8"), (b"a\0", "utf-16-le"), (b"\0a", "utf-16-be")], ids=["8", "16le", "16be"]
)
def test_a_text_that_is_cut_within_a_character_is_a_text_still(letter, coding):
    whole = "xyz😀".encode(coding)
    cut = whole[:-1]
    assert received("text", whole, letter, len(whole)) == "xyz😀"
    assert received("text", cut, letter, len(cut)) == "xyz"
    assert received("text", cut, letter, len(cut) + 1) == NotText(cut)  # nothing was cut: it is stored so
    assert isinstance(received("text", cut, letter, len(cut) + 1), NotText)
