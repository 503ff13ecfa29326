"""What the tests with a browser share."""

from __future__ import annotations

import os
import shutil

import pytest


@pytest.fixture
def chromium(require_real):
    """The path of a chromium: from PIPEMAGIC_CHROMIUM, or on the PATH."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = os.environ.get("PIPEMAGIC_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        require_real("there is no chromium on the PATH, and PIPEMAGIC_CHROMIUM names none")
    return found
