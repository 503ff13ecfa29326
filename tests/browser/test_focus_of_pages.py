"""The focus, where one panel is on several pages; the script runs in a process for them all (see host.py)."""

from __future__ import annotations


def test_the_focus_goes_to_the_page_that_acted(run):
    assert run("focus_of_pages.py") == ["one INPUT", "one BUTTON", "two INPUT", "two BUTTON", "TEXTAREA", "BODY"]
