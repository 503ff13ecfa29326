"""Positions in what was written, from positions in what is sent."""

from hypothesis import given
from hypothesis import strategies as st

from pipemagic.session.source_map import Edit, Segment, Source, SourceMap


def whole(source, start, text):
    return SourceMap((Segment(text, source, start),))


def test_every_character_has_a_position_in_what_was_written():
    source = Source("-- x\nSELECT :a, :b")
    made = whole(source, 5, "SELECT :a, :b").edited([Edit(7, 9, "(1, 2)"), Edit(11, 13, "z")])
    assert made.text == "SELECT (1, 2), z"
    assert [made.position(offset).offset - 5 for offset in range(len(made.text) + 1)] == [
        0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 9, 10, 11, 11
    ]  # fmt: skip
    assert made.position(0).where == "line 2"


def test_a_segment_of_another_text_keeps_its_own_positions():
    top = Source("SELECT 1\nFROM t", "the saved SELECT top")
    made = whole(Source("SELECT 2"), 0, "SELECT 2").edited(
        [Edit(0, 0, (Segment("(", top, 0, False), Segment(top.text, top, 0)))]
    )
    assert made.text == "(SELECT 1\nFROM tSELECT 2"
    assert made.position(11).where == "the saved SELECT top, line 2"
    again = made.edited([Edit(10, 14, "from")])  # within the segment
    assert again.position(15) == made.position(15)
    assert again.position(11).offset == 9


@given(st.text("ab\n", max_size=30), st.lists(st.integers(0, 30), max_size=6), st.text("xy", max_size=4))
def test_unedited_text_keeps_its_position(text, cuts, new):
    cuts = sorted(cut for cut in cuts if cut <= len(text))
    edits = [Edit(start, end, new) for start, end in zip(cuts[::2], cuts[1::2], strict=False)]
    made = whole(Source(text), 0, text).edited(edits)
    for offset, char in enumerate(made.text):
        if char not in new:
            assert text[made.position(offset).offset] == char
