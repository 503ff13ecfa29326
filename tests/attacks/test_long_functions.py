"""A statement that spends much time in SQL functions, after several short runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from probes import check_p99, connections, exchange, meets_p99, post_sql, probing, undisturbed
from waiting import pause

TRIMS = f"SELECT {', '.join(['ltrim(?1,?2)'] * 70)}"
TEXT, CHARACTERS = 11_200, 2_600
"""Sizes of the two arguments; every trim compares their product, 29 million pairs."""
LONGEST = 4.0  # seconds of the attack that count


def trims(text: int, characters: int) -> dict[str, object]:
    texts = ["a" * text, "b" * (characters - 1) + "a"]
    return {"sql": TRIMS, "args": [{"type": "text", "value": text} for text in texts]}


@contextmanager
def busy_process() -> Iterator[None]:
    """Keep one core busy outside of the service, as the attack does inside."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


@pytest.mark.usefixtures("alone")
def test_trims_of_a_read_only_token_do_not_slow_other_users(scene):
    token = scene.mallory.issue("work", authorization="read-only")
    for _ in range(10):
        assert b'"type":"ok"' in exchange(scene.service, post_sql(token, trims(10, 10), keep=False))
    # The statement needs a core, and other tests may need the others. That delay of the probes is not caused by the
    # service, so the same load runs during the first measurement.
    for _ in range(3):
        with busy_process():
            before = undisturbed(scene.service, scene.probes)
        with connections(scene.service, 1) as [connection], probing(scene.service, scene.probes) as during:
            connection.sendall(post_sql(token, trims(TEXT, CHARACTERS)))
            pause(LONGEST)
        if meets_p99(before, during):
            break
    check_p99(before, during)
