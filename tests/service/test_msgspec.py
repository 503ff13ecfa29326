"""A fault of msgspec that the service avoids."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

WAIT = 30.0

MSGSPEC_WITHOUT_MEMORY = """
import resource
import msgspec

body = b'"' + b"a" * 100_000_000 + b'"'
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 10_000_000,) * 2)
try:
    msgspec.json.decode(body)
except MemoryError:
    print("MemoryError")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is that of Linux")
@pytest.mark.skipif(msgspec.__version__ != "0.22.0", reason="run it with the new version, and change the number here")
def test_msgspec_ends_the_process_without_memory():
    """So bodies are counted before they are decoded. If it fails, msgspec raises MemoryError: drop the test, too."""
    ended = subprocess.run([sys.executable, "-c", MSGSPEC_WITHOUT_MEMORY], capture_output=True, timeout=WAIT)
    assert (ended.returncode, ended.stdout) == (-11, b"")  # SIGSEGV
