"""Count the functions of the package that one warm ``%sql SELECT 1`` calls in the kernel.

Print a JSON list of ``[module, function, calls]``. Functions of all threads count, but not those of the service, which
is another process.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import pipemagic

WARM = 5
RUNS = 5
"""The number of counted cells; the smallest count includes no function of another thread."""

HOME = f"{Path(pipemagic.__file__).parent.as_posix()}/"
CELL = "SELECT 1 AS one"

counts: Counter[tuple[str, str]] = Counter()
counting = False


def profile(frame: FrameType, event: str, _: object) -> None:
    code = frame.f_code
    file = code.co_filename.replace("\\", "/")
    if counting and event == "call" and file.startswith(HOME) and not code.co_name.startswith("<"):
        counts[file.removeprefix(HOME), code.co_qualname] += 1


def main() -> None:
    """Run the cell several times and print the smallest count."""
    global counting, counts
    config = Config()
    config.HistoryManager.enabled = False
    threading.setprofile(profile)
    sys.setprofile(profile)
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "pipemagic")
    shell.run_line_magic("pipedb", "connect --temporary")
    for _ in range(WARM):
        shell.run_line_magic("sql", CELL)
    found = []
    for _ in range(RUNS):
        counts = Counter()
        counting = True
        frame = shell.run_line_magic("sql", CELL)
        counting = False
        assert frame.iloc[0, 0] == 1, frame
        found.append(counts)
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    shell.run_line_magic("unload_ext", "pipemagic")
    print(json.dumps([[*function, calls] for function, calls in sorted(min(found, key=len).items())]))


if __name__ == "__main__":
    main()
