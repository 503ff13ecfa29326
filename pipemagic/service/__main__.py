"""The service as a child process: ``python -m pipemagic.service``. See `pipemagic.launcher`.

The first line on standard output is one JSON object: url, organization, pid and idle_timeout, or error, hint and code.
After that, the process does not depend on its parent, unless an option requires it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

_ROOT = str(Path(__file__).resolve().parents[2])
if _ROOT not in sys.path:  # run by path: the same code as in the parent process
    sys.path.insert(0, _ROOT)

from pipemagic.errors import PipemagicError  # noqa: E402
from pipemagic.service.limits import LimitMode, Limits  # noqa: E402
from pipemagic.service.process import run  # noqa: E402
from pipemagic.service.settings import IDLE_TIMEOUT, UNICODE, Settings, read_switch  # noqa: E402


def _announce(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    os.dup2(2, 1)  # the starter's pipe is no longer needed: later output goes to the log


def main(arguments: list[str] | None = None) -> int:
    """Run the service; return 0 after a regular end, 1 if it could not start."""
    parser = argparse.ArgumentParser(prog="python -m pipemagic.service", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--idle-timeout", type=float, default=IDLE_TIMEOUT)
    parser.add_argument("--temporary", action="store_true")
    parser.add_argument("--limits", type=LimitMode, default=LimitMode.EXACT)
    parser.add_argument("--here")
    parser.add_argument("--simulate-latency", action="store_true")
    options = parser.parse_args(arguments)
    idle_timeout = None if options.temporary else options.idle_timeout
    try:
        unicode = read_switch(UNICODE, os.environ)
        settings = Settings(
            options.data, idle_timeout=idle_timeout, temporary=options.temporary, unicode=unicode,
            limits=Limits(mode=options.limits), here=options.here, simulate_latency=options.simulate_latency,
        )  # fmt: skip
        run(settings, _announce)
    except PipemagicError as error:
        _announce({"error": error.message, "hint": error.hint, "code": error.code})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
