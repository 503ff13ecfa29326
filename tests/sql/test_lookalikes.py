"""Characters that look like those of SQL."""

from __future__ import annotations

import pytest

from pipemagic.sql.lookalikes import lookalikes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT n \u2013 1", [("EN DASH (U+2013)", 9, "-")]),
        ("WHERE\u00a0n", [("NO-BREAK SPACE (U+00A0)", 5, " ")]),
        ("name\u200b", [("ZERO WIDTH SPACE (U+200B)", 4, "")]),
        (
            "x = \u2018a\u2019",
            [("LEFT SINGLE QUOTATION MARK (U+2018)", 4, "'"), ("RIGHT SINGLE QUOTATION MARK (U+2019)", 6, "'")],
        ),
        ("(1\uff0c2)", [("FULLWIDTH COMMA (U+FF0C)", 2, ",")]),
        ("n \u2212 1", [("MINUS SIGN (U+2212)", 2, "-")]),
        ("n\u2003= 1", [("EM SPACE (U+2003)", 1, " ")]),
        ("'\u2013' AS \"\u00a0\" -- \u2018", []),
        ("SELECT größe, 名前 FROM t😀", []),
    ],
)
def test_characters_and_what_to_write(text, expected):
    found = list(lookalikes(text))
    assert [(character.name, character.offset, character.instead) for character in found] == expected
