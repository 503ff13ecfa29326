"""No test of a suite is left out in silence: how outcomes are compared with the list of reasons."""

from __future__ import annotations

import unittest

import pytest
from published_suites import run


class Suite(unittest.TestCase):
    __test__ = False  # pytest collects no tests here

    def test_good(self):
        pass

    def test_bad(self):
        raise OSError("broken")

    def test_half(self):
        for number in range(3):
            with self.subTest(number=number):
                assert number != 1

    def test_not_here(self):
        self.skipTest("no such computer")


REASONS = {"Suite.test_bad": "broken", "Suite.test_half": "the middle", "Suite.test_not*": "elsewhere"}


@pytest.fixture(scope="module")
def outcomes():
    return run(unittest.defaultTestLoader.loadTestsFromTestCase(Suite))


def test_outcomes(outcomes):
    assert outcomes.passed == {"Suite.test_good"}
    assert outcomes.figure == "1 of 4 tests pass"
    outcomes.check(REASONS)
    assert outcomes.counts(dict.fromkeys(REASONS, "same")) == ["   3 do not: same"]
    assert outcomes.counts(REASONS) == ["   3 do not: the reasons are in the test"]


@pytest.mark.parametrize(
    ("test", "line"),
    [
        ("Suite.test_bad", "OSError: broken"),
        ("Suite.test_half", "number=1|assert number != 1"),
        ("Suite.test_not*", "skipped: no such computer"),
    ],
)
def test_each_test_that_does_not_pass_needs_a_reason(outcomes, test, line):
    with pytest.raises(pytest.fail.Exception, match=line):
        outcomes.check({name: reason for name, reason in REASONS.items() if name != test})


def test_a_reason_for_a_test_that_passes_is_an_error(outcomes):
    with pytest.raises(pytest.fail.Exception, match="test_good passes and is in the list"):
        outcomes.check(REASONS | {"Suite.test_g*": "none"})
    assert outcomes.unknown(REASONS | {"Other.*": "none"}) == ["Other.*"]
