"""The client's checks of names agree with those of the service."""

from __future__ import annotations

import itertools

import pytest

from pipemagic.client import names
from pipemagic.service.catalog.names import check_name, check_slug
from pipemagic.service.responses import Refused

NAMES = ["".join(letters) for length in range(4) for letters in itertools.product("a7-A_ é", repeat=length)]
NAMES += [letter * length for letter in "a7-" for length in (29, 30, 31, 32, 33, 51, 52, 53, 57, 58, 61, 62, 63, 64)]
NAMES += ["main\n", "main ", " main", "a/b", "../x", "a.b", "١", "ß", "\x00", "a" * 400]


def refused(check, *arguments):
    try:
        check(*arguments)
    except Refused as refusal:
        return refusal.status == 400
    return False


@pytest.mark.parametrize(
    ("kind", "slug"), [("group", "a"), ("database", "local"), ("group", "acme-tools"), ("database", "o" * 32)]
)
def test_names_are_wrong_where_the_service_refuses_them(kind, slug):
    for name in NAMES:
        assert bool(names.problem(kind, name, slug)) == refused(check_name, kind, name, slug), name


def test_names_of_tokens_and_organizations():
    for name in NAMES:
        assert bool(names.problem("token", name, "acme")) == refused(check_name, "token", name, ""), name
        assert bool(names.problem("organization", name)) == refused(check_slug, name), name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("flights", ""),
        ("", "Enter a database name."),
        ("Flights", "the name of a database can contain only lower-case letters, digits and hyphens, not F"),
        ("my flights", "the name of a database can contain only lower-case letters, digits and hyphens, not spaces"),
        ("\x07", "the name of a database can contain only lower-case letters, digits and hyphens, not U+0007"),
        ("-flights", "the name of a database cannot begin or end with a hyphen"),
        (
            "f" * 58,
            "the name of a database can have at most 57 characters here, which leaves room for -local in a host name, "
            "not 58",
        ),
    ],
)
def test_messages_of_errors(name, words):
    assert names.problem("database", name, "local") == words


def test_a_slug_that_is_too_long_leaves_nothing():
    assert "at most 0 characters" in names.problem("group", "g", "s" * 70)
