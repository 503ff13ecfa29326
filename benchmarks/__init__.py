"""How fast pipemagic is, beside something that anybody can run. See README.md here."""

from __future__ import annotations

import sys
from pathlib import Path

# The tests start the same servers and install packages in the same way.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "helpers"))
