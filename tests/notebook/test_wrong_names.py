"""Errors on unknown connections, profiles, databases, groups and locations suggest a similar name."""

from __future__ import annotations

import pytest


@pytest.fixture
def named(shell, local_service):
    """A shell with the connection main, the database flights, the group default and the profile work."""
    shell("%pipedb connect")
    shell("%pipedb create-database flights --group default")
    shell("%pipedb profiles --save work")
    return shell


@pytest.mark.parametrize(
    "line",
    ["use {}", "connect {}", "close {}", "status --on {}", "rollback --on {}", "wire --on {}", "tables --on {}",
     "columns t --on {}", "profile t --on {}", "rules t --foreign-keys --on {}", "diff t --to {}", "copy t --to {}",
     "load frame --table t --on {}", "profiles --save x --on {}", "plot bar t --x a --on {}", "diagram --on {}",
     "suspend-database {} --confirm", "resume-database {}", "protect-database {}", "unprotect-database {}",
     "delete-database {} --confirm",
     "invalidate-tokens {} --confirm", "create-token {} --to-env X"],
)  # fmt: skip
def test_unknown_connection_or_database(named, line):
    named("import pandas; frame = pandas.DataFrame({'a': [1]})")
    assert "did you mean main?" in named.fails("%pipedb " + line.format("maain")).out


@pytest.mark.parametrize(
    "line", ["%sql --on {} SELECT 1", "%%sql --on {}\nSELECT 1", "%sql --explain --on {} SELECT 1"]
)
def test_unknown_connection_of_a_cell(named, line):
    assert "did you mean main?" in named.fails(line.format("maain")).out
    assert "did you mean flights?\n%pipedb connect flights" in named.fails(line.format("flihgts")).out


@pytest.mark.parametrize(
    "line", ["use {}", "connect {}", "profiles --delete {}", "profiles --trust {}", "status --on {}"]
)
def test_unknown_profile(named, line):
    assert "did you mean work?" in named.fails("%pipedb " + line.format("wrok")).out


def test_the_hint_on_a_closed_connection_connects_it(named):
    assert "'flights' does not exist\nHint: %pipedb connect flights" in named.fails("%pipedb use flights").out
    named("%pipedb close")
    assert "did you mean main?\n%pipedb connect main" in named.fails("%pipedb use maain").out
    named("%pipedb connect main")


def test_no_suggestion_for_a_dissimilar_name(named):
    assert "%pipedb connect zzzzz" in named.fails("%pipedb use zzzzz").out
    assert "%pipedb profiles lists them" in named.fails("%pipedb profiles --delete zzzzz").out
    assert "%pipedb databases lists the existing ones" in named.fails("%pipedb delete-database zzzzz --confirm").out


@pytest.mark.parametrize(
    "line",
    [
        "delete-group {} --confirm",
        "create-database x --group {}",
        "add-location {} fra",
        "remove-location {} fra",
        "pause-location {} fra",
        "resume-location {} fra",
    ],
)
def test_unknown_group(named, line):
    assert "did you mean default?" in named.fails("%pipedb " + line.format("defualt")).out


@pytest.mark.parametrize("line", ["add-location default {}", "create-group x --location {}"])
def test_unknown_location(named, line):
    assert "did you mean fra?" in named.fails("%pipedb " + line.format("frra")).out
