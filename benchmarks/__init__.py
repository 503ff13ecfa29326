"""Measurements of pipemagic beside other programs; see README.md in this folder."""

from __future__ import annotations

import sys
from pathlib import Path

# The tests have the code that starts servers and installs packages.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
