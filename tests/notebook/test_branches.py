"""`%pipedb create-database NEW --branch-of OLD`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pipemagic.errors import ParameterError, ServerError, UsageError
from pipemagic.management_api.branches import describe_branch, local_time, parse_moment
from pipemagic.management_api.models import DatabaseInfo


@pytest.fixture
def flights(shell, local_service):
    """A shell with the database flights, in which a table has two rows."""
    shell("%pipedb connect")
    shell("%pipedb create-database flights")
    shell("%pipedb connect flights")
    shell("%%sql\nCREATE TABLE t (a);\nINSERT INTO t VALUES (1), (2)")
    return shell


def test_a_copy_of_a_database(flights):
    lines = flights("%pipedb create-database copy --branch-of flights").lines
    assert lines[0] == "Database copy is in group default."
    assert lines[1].startswith("copy has the content of flights as of 20")
    flights("%pipedb connect copy")
    assert flights("%%sql\nSELECT a FROM t").value["a"].tolist() == [1, 2]
    listed = flights("%pipedb databases").value
    assert dict(zip(listed["database"], listed["parent"], strict=True))["copy"] == "flights"
    again = flights("%pipedb create-database copy --branch-of flights --if-not-exists").lines
    assert again == ["Database copy is in group default.", "The database already existed; flights was not copied."]


def test_a_copy_is_in_the_group_of_the_original(flights):
    flights("%pipedb create-group asia --location nrt\n%pipedb create-database trains --group asia")
    assert flights("%pipedb create-database late --branch-of trains").lines[0] == "Database late is in group asia."
    cell = flights.fails("%pipedb create-database early --branch-of trians")
    assert cell.lines[-1] == "Hint: did you mean trains?"


def test_a_time_in_two_words_needs_quotes(flights):
    cell = flights.fails("%pipedb create-database early --branch-of flights --at 2026-01-01 10:00")
    assert cell.lines[-1] == 'Hint: a value with spaces needs quotes: --at "..."'


def test_a_time_is_stated_in_the_answer(flights):
    moment = datetime.now().isoformat(sep=" ", timespec="milliseconds")
    lines = flights(f'%pipedb create-database copy --branch-of flights --at "{moment}"').lines
    assert lines[1] == f"copy has the content of flights as of {local_time(parse_moment(moment).timestamp())}."


def test_a_time_without_a_backup(flights):
    cell = flights.fails('%pipedb create-database copy --branch-of flights --at "2026-01-01 10:00"')
    assert isinstance(cell.error, ServerError)
    assert "there is no backup of flights from" in cell.lines[0]
    assert "this service makes no backups: run it with `pipemagic serve --backups N`" in cell.lines[0]
    assert "copy" not in flights("%pipedb databases").value["database"].tolist()


@pytest.mark.parametrize(
    ("options", "kind", "line"),
    [
        ("--branch-of flights --at noon", ParameterError, "PARAMETER: 'noon' is not a time"),
        ("--at 2026-01-01", UsageError, "USAGE: --at requires --branch-of"),
        ("--branch-of a --from-dump b.sql", UsageError, "USAGE: --from-dump and --branch-of cannot be used together"),
    ],
)
def test_options_that_are_refused(flights, options, kind, line):
    cell = flights.fails(f"%pipedb create-database copy {options}")
    assert isinstance(cell.error, kind)
    assert cell.lines[0] == line


@pytest.mark.parametrize("text", ["2026-11-29 14:00", "2026-11-29T14:00:00", " 2026-11-29 14:00:00.0 "])
def test_a_time_without_an_offset_is_local(text):
    assert parse_moment(text) == datetime(2026, 11, 29, 14).astimezone()


def test_a_time_with_an_offset():
    assert parse_moment("2026-11-29T14:00:00+01:00") == datetime(2026, 11, 29, 13, tzinfo=UTC)
    assert parse_moment("2026-11-29 14:00Z") == datetime(2026, 11, 29, 14, tzinfo=UTC)


def test_the_answer_about_an_older_backup():
    moment = datetime(2026, 11, 29, 14, tzinfo=UTC)
    older = (moment - timedelta(minutes=9)).timestamp()
    sentence = describe_branch(DatabaseInfo("new", parent="old", branched=older), moment)
    assert sentence == (
        f"new has the content of old as of {local_time(older)}, the last backup before "
        f"{local_time(moment.timestamp())}: changes after the backup are not in it."
    )
    assert describe_branch(DatabaseInfo("new", parent="old"), moment) == (  # a service that reports no moment
        f"new has the content of old as of {local_time(moment.timestamp())}."
    )
    assert describe_branch(DatabaseInfo("new"), moment) == ""
