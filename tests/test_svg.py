"""SVG: escaped and well formed."""

from xml.etree import ElementTree

import pytest

from pipemagic import svg

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a & b",
    "tab\tand\x00nul\x1b",
    "naïve ⟨日本⟩",
]


@pytest.mark.parametrize("words", HOSTILE)
def test_text_stays_text(words):
    drawn = svg.picture(100, 20, words, svg.text(0, 12, words), svg.element("g", {"data_name": words}, "inside"))
    root = ElementTree.fromstring(drawn)
    shown = words.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")
    assert [element.tag.split("}")[1] for element in root] == ["title", "text", "g"]
    assert root[0].text == root[1].text == shown
