"""The way back from what is sent to what was written."""

from hypothesis import given
from hypothesis import strategies as st

from pipemagic.session.text.woven import Edit, Piece, Source, whole


def test_every_character_has_a_place_in_what_was_written():
    source = Source("-- x\nSELECT :a, :b")
    woven = whole(source, 5, "SELECT :a, :b").edited([Edit(7, 9, "(1, 2)"), Edit(11, 13, "z")])
    assert woven.text == "SELECT (1, 2), z"
    assert [woven.place(offset).offset - 5 for offset in range(len(woven.text) + 1)] == [
        0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 9, 10, 11, 11
    ]  # fmt: skip
    assert woven.place(0).where == "line 2"


def test_a_piece_of_another_text_keeps_its_own_places():
    top = Source("SELECT 1\nFROM t", "the saved top")
    woven = whole(Source("SELECT 2"), 0, "SELECT 2").inserted(0, [Piece("(", top, 0, False), Piece(top.text, top, 0)])
    assert woven.text == "(SELECT 1\nFROM tSELECT 2"
    assert woven.place(11).where == "the saved top, line 2"
    again = woven.edited([Edit(10, 14, "from")])  # within the piece
    assert again.place(15) == woven.place(15)
    assert again.place(11).offset == 9


@given(st.text("ab\n", max_size=30), st.lists(st.integers(0, 30), max_size=6), st.text("xy", max_size=4))
def test_what_is_not_edited_is_found_where_it_was(text, cuts, new):
    cuts = sorted(cut for cut in cuts if cut <= len(text))
    edits = [Edit(start, end, new) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    woven = whole(Source(text), 0, text).edited(edits)
    for offset, char in enumerate(woven.text):
        if char not in new:
            assert text[woven.place(offset).offset] == char
