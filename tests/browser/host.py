"""Run scripts of this folder one after another with one shared chromium and JupyterLab (see lab.py).

Argument: the path of chromium. Reads one JSON line for each script, with its name and arguments, and responds with one
JSON line: the output of the script, and its traceback or null.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).parent


def run(script: str, arguments: list[str]) -> tuple[str, str | None]:
    printed = io.StringIO()
    sys.argv = [script, *arguments]
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(HERE / script), run_name="__main__")
    except BaseException:  # noqa: BLE001 - the caller reports it
        return printed.getvalue(), traceback.format_exc()
    return printed.getvalue(), None


def main(chromium: str) -> None:
    for line in sys.stdin:
        script, *arguments = json.loads(line)
        print(json.dumps(run(script, [chromium, *arguments])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
