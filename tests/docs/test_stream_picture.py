"""The picture of the states of a stream is that of the tables."""

from __future__ import annotations

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipemagic.hrana.stream import ENDS, PHASES, TRANSACTIONS, Event, Phase, Tx, TxEvent

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "draw_stream_states.py"


@pytest.fixture
def script():
    return runpy.run_path(str(SCRIPT))


def texts(picture):
    return [text.text for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_on_the_page_is_that_of_the_tables(script):
    assert script["PICTURE"].read_text("utf-8") == script["draw"](), f"run python .ci/{SCRIPT.name}"
    page = (ROOT / "docs" / "analysts" / "transactions.md").read_text("utf-8")
    assert f"](../images/{script['PICTURE'].name})" in page


def test_the_picture_has_every_state_and_every_line_of_the_tables(script):
    drawn = texts(script["draw"]())
    for state in (*Phase, *Tx):
        assert state.value in drawn
    events = [event for text in drawn for event in text.split(", ")]
    for event in (*Event, *TxEvent):
        uses = [*PHASES, *TRANSACTIONS]
        assert events.count(event.value) >= sum(used is event for _, used in uses) > 0
    for event, end in ENDS.items():
        (line,) = [text for text in drawn if text.endswith(f": {end.value} of an open transaction")]
        assert event.value in line


def test_a_line_without_a_place_in_the_picture_is_an_error(script, monkeypatch):
    monkeypatch.setitem(PHASES, (Phase.EXPIRED, Event.LOSE), Phase.LOST)
    with pytest.raises(ValueError, match="a line of the table of the stream has no place"):
        script["draw"]()
