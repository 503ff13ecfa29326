"""Endless statements of one token, with several spellings of the Authorization header."""

from __future__ import annotations

import itertools

import pytest
from probes import ENDLESS, check_p99, connections, exchange, post_sql, quieter_period, statuses, undisturbed
from waiting import pause

STATEMENTS = 66
SPELLINGS = {
    "two cases": ("Bearer ", "bearer "),
    "many cases and spaces": (
        "Bearer ",
        "bearer ",
        "BEARER ",
        "bEARER ",
        "Bearer  ",
        "Bearer   ",
        " Bearer ",
        "bearer  ",
    ),
}
SECONDS = 2.0


@pytest.mark.parametrize("schemes", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.usefixtures("alone")
def test_endless_statements_of_one_token_do_not_slow_other_users(fresh_scene, schemes):
    service = fresh_scene.service
    before = undisturbed(service, fresh_scene.probes)
    with connections(service, STATEMENTS) as attackers:
        for connection, scheme in zip(attackers, itertools.cycle(schemes)):
            connection.sendall(post_sql(fresh_scene.attacker, ENDLESS, scheme=scheme))
        pause(0.5)
        during = quieter_period(service, fresh_scene.probes, seconds=SECONDS)
    check_p99(before, during)


ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
ALTERED = {
    "padding": lambda token: token + "==",
    "one character of padding": lambda token: token + "=",
    "padding in excess": lambda token: token + "====",
    "a character behind the padding": lambda token: token + "==A",
    "a character outside the alphabet": lambda token: token + "~",
    "a character outside the alphabet within": lambda token: token[:-3] + "~" + token[-3:],
    "many characters outside the alphabet": lambda token: token + "!" * 1000,
    "another last character of the same bits": lambda token: token[:-1] + ALPHABET[ALPHABET.index(token[-1]) ^ 1],
    "a fourth part": lambda token: token + ".",
}


@pytest.mark.parametrize("alter", ALTERED.values(), ids=ALTERED)
def test_a_token_is_accepted_in_its_one_spelling_only(scene, alter):
    for token, expected in ((scene.attacker, 200), (alter(scene.attacker), 401)):
        assert statuses(exchange(scene.service, post_sql(token, "SELECT 1", keep=False))) == [expected]
