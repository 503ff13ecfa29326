"""The sqld in the package is unpacked once, also if several services start at the same time."""

from __future__ import annotations

import os
import subprocess
import sys

from pipemagic.service.sqld.binary import NoSqld, locate

FIND_AND_RUN = """
import subprocess, sys
from pathlib import Path
from pipemagic.service.sqld.binary import find
subprocess.run([find(Path(sys.argv[1])), "--version"], check=True)
"""


def test_services_that_start_together_do_not_run_a_file_that_is_being_written(tmp_path, monkeypatch, require_real):
    monkeypatch.delenv("PIPEMAGIC_SQLD", raising=False)
    try:
        _, packed = locate()
    except NoSqld as reason:
        require_real(reason.message)
    if not packed:
        require_real("there is an sqld on the PATH, which is not unpacked")
    command = [sys.executable, "-c", FIND_AND_RUN, tmp_path / "cache"]
    processes = [
        subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, "\n".join(errors)
