"""Statements that run for long: many endless ones, and one that SQLite cannot stop inside of its functions."""

from __future__ import annotations

import itertools

from probes import ENDLESS, answered, connections, open_streams, post_sql
from waiting import until

STATEMENTS, SHARE = 66, 32
"""Endless statements of one database, and how many of them get a thread."""
SCHEMES = ("Bearer ", "bearer ", "BEARER  ")
"""Spellings of the Authorization header: the statements are of one token all the same."""

TRIMS = f"SELECT {', '.join(['ltrim(?1,?2)'] * 70)}"
TEXT, CHARACTERS = 11_200, 2_600
"""Sizes of the two arguments; every trim compares their product, 29 million pairs."""


def test_endless_statements_of_one_token_leave_threads_for_others(fresh_scene):
    service = fresh_scene.service
    with connections(service, STATEMENTS) as attackers:
        for connection, scheme in zip(attackers, itertools.cycle(SCHEMES)):
            connection.sendall(post_sql(fresh_scene.attacker, ENDLESS, scheme=scheme))
        until(lambda: open_streams(service) == SHARE)
        fresh_scene.others_work()
        assert answered(attackers) == []
        assert open_streams(service) == SHARE


def test_others_are_answered_during_a_statement_of_long_functions(scene):
    """A read-only token suffices; the response comes after those of the others, or not at all."""
    texts = ["a" * TEXT, "b" * (CHARACTERS - 1) + "a"]
    trims = {"sql": TRIMS, "args": [{"type": "text", "value": text} for text in texts]}
    token = scene.mallory.issue("work", authorization="read-only")
    with connections(scene.service, 1) as [connection]:
        connection.sendall(post_sql(token, *[trims] * 10))
        until(lambda: open_streams(scene.service) == 1)
        scene.others_work()
        assert answered([connection]) == []
    until(lambda: open_streams(scene.service) == 0)
