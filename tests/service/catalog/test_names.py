"""Names of accounts, organizations, groups and databases, and the slugs derived from them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipemagic.service.catalog.names import LABEL_LIMIT, RESERVED_SLUGS, SLUG_LIMIT, check_name, check_slug, slug_of
from pipemagic.service.responses import Refused

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
names = st.one_of(st.text(max_size=80), st.from_regex(r"\A[a-z0-9-]{1,70}\Z"), st.sampled_from(sorted(RESERVED_SLUGS)))
slugs = st.from_regex(rf"\A[a-z0-9]([a-z0-9-]{{0,{SLUG_LIMIT - 2}}}[a-z0-9])?\Z")


def status(check, *arguments):
    """Return the status of the error that a check raises; 200 if there is none."""
    try:
        check(*arguments)
    except Refused as refused:
        return refused.status
    return 200


@given(names, slugs)
@example("a" * 62, "b")
@example("ａ", "b")
@example("a\n", "b")
@example("a/../b", "b")
@example("a%2fb", "b")
def test_a_valid_name_is_part_of_a_valid_host_label(name, slug):
    fit = LABEL.fullmatch(name) and len(name) <= LABEL_LIMIT - 1 - len(slug)
    assert status(check_name, "database", name, slug) == (200 if fit else 400)
    if fit:
        assert LABEL.fullmatch(f"{name}-{slug}")


@given(names)
def test_a_valid_slug_leaves_room_for_names(slug):
    fit = LABEL.fullmatch(slug) and len(slug) <= SLUG_LIMIT
    assert status(check_slug, slug) == (400 if not fit else 422 if slug in RESERVED_SLUGS else 200)
    if fit:
        assert status(check_name, "database", "x" * (LABEL_LIMIT - 1 - SLUG_LIMIT), slug) == 200


@given(st.text(max_size=100))
def test_a_slug_derived_from_a_name_is_empty_or_valid(name):
    slug = slug_of(name)
    assert slug == slug_of(slug)
    if slug and len(slug) <= SLUG_LIMIT and slug not in RESERVED_SLUGS:
        assert check_slug(slug) == slug


@pytest.mark.parametrize(
    ("name", "slug"), [("Data Club", "data-club"), ("--A_b.C--", "a-b-c"), ("été", "t"), ("!", "")]
)
def test_slugs(name, slug):
    assert slug_of(name) == slug
