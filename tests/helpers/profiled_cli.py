"""Run the command line and count the project's functions: ``python profiled_cli.py FILE COMMAND...``.

The first SIGUSR2 begins to count and creates FILE; the next one writes a line for each function that ran, with the
number of its calls, its module and its name, and renames FILE to FILE.done.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

MARK = "/pipemagic/"

calls: Counter[tuple[str, str]] = Counter()
counting = False


def count(frame: Any, event: str, _: object) -> None:
    """Count a call of a function of the project; comprehensions and lambdas belong to theirs."""
    if counting and event == "call":
        code = frame.f_code
        _, mark, module = code.co_filename.replace("\\", "/").rpartition(MARK)
        if mark and not code.co_name.startswith("<"):
            calls[module, getattr(code, "co_qualname", code.co_name)] += 1


def switch(*_: object) -> None:
    """Begin to count, or write the counts."""
    global counting
    counting = not counting
    if counting:
        calls.clear()
        REPORT.touch()
    else:
        REPORT.write_text("".join(f"{number} {module} {name}\n" for (module, name), number in sorted(calls.items())))
        REPORT.rename(REPORT.with_suffix(".done"))


if __name__ == "__main__":
    REPORT = Path(sys.argv[1])
    del sys.argv[1]
    signal.signal(signal.SIGUSR2, switch)
    threading.setprofile(count)
    sys.setprofile(count)
    from pipemagic.cli import main

    sys.exit(main())
