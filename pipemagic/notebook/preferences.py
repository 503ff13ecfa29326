"""What the user prefers, as traits: ``%config PipeMagic.quiet = True``."""

from __future__ import annotations

from traitlets import Bool
from traitlets.config import Configurable


class PipeMagic(Configurable):
    """The settings of the magics in one shell."""

    quiet = Bool(False, help="print no lines and show no frame but the returned one").tag(config=True)
    progress = Bool(True, help="show progress of work that takes longer than a second").tag(config=True)
