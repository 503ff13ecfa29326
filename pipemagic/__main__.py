"""``python -m pipemagic`` is the ``pipemagic`` command."""

import sys

from pipemagic.cli import main

sys.exit(main())
