"""The page about the management API has a place for each of its routes; tests/docs reads the built page."""

from __future__ import annotations

import re
from pathlib import Path

from pipemagic.service.api.openapi import DATABASE_API, description
from pipemagic.service.api.routing import ROUTES

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "management-api.md"


def test_every_path_is_documented():
    places = re.findall(r"^<!-- openapi: (\w+) -->$", PAGE.read_text("utf-8"), re.MULTILINE)
    tags = [description()["paths"][route.path][route.method.lower()]["tags"] for route in ROUTES]
    assert DATABASE_API not in places
    assert sorted(places) == sorted({tag for (tag,) in tags})
