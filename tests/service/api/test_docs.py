"""The page about the management API documents every path."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipemagic.service.api.routing import ROUTES

PAGE = Path(__file__).parents[3] / "docs" / "management-api.md"


def plain(path):
    """Return a path as the page writes it, with unnamed parameters."""
    return re.sub(r"\{\w+\}", "{}", path.replace("/v1/organizations/{org}/", ".../"))


@pytest.fixture(scope="module")
def documented():
    spans = re.findall(r"`([^`]+)`", PAGE.read_text("utf-8"))
    return {plain(span.split(" ")[-1].partition("?")[0]) for span in spans}


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
def test_every_path_is_documented(documented, path):
    assert plain(path) in documented
