"""``python -m pipemagic`` is the ``pipemagic`` command."""

import sys

from pipemagic.cli import main

if __name__ == "__main__":
    sys.exit(main())
