"""Every command that uses a database accepts --on NAME."""

from __future__ import annotations

import pytest

from pipemagic.errors import UsageError
from pipemagic.notebook.commands import COMMANDS

BESIDE = {
    "connect", "use", "connections", "close", "stop", "snippets", "panel", "organization", "locations", "groups",
    "databases", "create-group", "create-database", "export-database", "add-location", "overages",
    "suspend-database", "resume-database", "protect-database", "unprotect-database", "protect-group", "unprotect-group",
    "unarchive-group", "audit-logs", "pause-location", "resume-location",
    "delete-group", "delete-database", "remove-location", "organizations", "usage", "create-token",
    "invalidate-tokens", "create-api-token", "api-tokens", "revoke-api-token",
}  # fmt: skip
"""Subcommands that use no connection or all of them, or name one as an argument."""

NEEDS = {"profiles": "--save x", "rules": "--not-null a"}
"""Other options that these need to send a request."""


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - BESIDE))
def test_a_command_accepts_on(name):
    """If this fails for a new command, add the option ON to it, or list it above if it uses no database."""
    assert "--on" in [option.flag for option in COMMANDS[name].options]


def test_each_command_uses_the_connection(shell):
    shell("import pandas as pd\nframe = pd.DataFrame({'a': [1]})")
    unasked = []
    for name in sorted(set(COMMANDS) - BESIDE):
        command = COMMANDS[name]
        words = [
            positional.choices[0] if positional.choices else "frame"
            for positional in command.positionals
            if not positional.optional
        ]
        words += [
            f"{option.flag} {option.choices[0] if option.choices else 'frame'}"
            for option in command.options
            if option.required
        ]
        line = f"%pipedb {name} {' '.join([*words, NEEDS.get(name, '')])} --on nope"
        done = shell.run(line)
        wants_more = isinstance(done.error, UsageError) and "unknown option" not in str(done.error)
        if not wants_more and "connection 'nope' does not exist" not in str(done.error):
            unasked.append((line, done.error))
    assert unasked == []


def test_a_cell_runs_on_the_connection(db, monkeypatch):
    url = db.ip.find_line_magic("sql").__self__.session.connection().database.url
    db("%sql CREATE TABLE t (a)")
    db(f"%pipedb connect {url} --as other --token-env DB_TOKEN")
    db("%sql --on db BEGIN; INSERT INTO t VALUES (1)")
    assert db("%sql --on other SELECT count(*) AS n FROM t").value["n"].tolist() == [0]
    assert db("%sql --on db SELECT count(*) AS n FROM t; ROLLBACK").value["n"].tolist() == [1]
