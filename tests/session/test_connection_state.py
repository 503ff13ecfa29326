"""Which statements set something that a new connection would not have."""

import pytest

from pipemagic.session.connection_state import DEFERRED, ConnectionSettings
from pipemagic.sql import split


def after(script):
    settings = ConnectionSettings()
    for statement in split(script):
        settings.update(statement)
    return settings


@pytest.mark.parametrize(
    ("script", "replayed"),
    [
        ("PRAGMA foreign_keys = OFF", ["PRAGMA foreign_keys = OFF"]),
        ("pragma main.cache_size(100)", ["pragma main.cache_size(100)"]),
        ("PRAGMA foreign_keys=0; PRAGMA query_only=1; PRAGMA foreign_keys=1",
         ["PRAGMA foreign_keys=1", "PRAGMA query_only=1"]),
        ("PRAGMA foreign_keys", []),  # only asks
        ("PRAGMA table_info(t)", []),
        ("PRAGMA user_version = 3", []),  # changes the file
        ("PRAGMA journal_mode = WAL", []),
        ("SELECT 'PRAGMA foreign_keys = OFF'", []),
    ],
)  # fmt: skip
def test_settings_of_the_connection_are_kept_for_replay(script, replayed):
    assert list(after(script).pragmas.values()) == replayed


def test_the_line_reports_restored_settings_and_lost_tables():
    assert after("CREATE TABLE t (a)").note() == ""
    assert after("PRAGMA foreign_keys = OFF; CREATE TEMP TABLE t (a)").note() == (
        "The connection was reopened (set again: PRAGMA foreign_keys = OFF; temporary tables are gone: t). "
        "Create t without TEMP, or create and use it in one cell."
    )


def test_the_end_of_a_transaction_ends_deferred_foreign_keys():
    assert after("BEGIN; PRAGMA defer_foreign_keys = ON").effects() == {"defer_foreign_keys": DEFERRED}
    assert after("BEGIN; PRAGMA defer_foreign_keys = ON; ROLLBACK TO s").deferred
    assert after("BEGIN; PRAGMA defer_foreign_keys(1); PRAGMA defer_foreign_keys").deferred
    for end in ("COMMIT; BEGIN", "ROLLBACK", "PRAGMA defer_foreign_keys = OFF"):
        assert after(f"BEGIN; PRAGMA defer_foreign_keys = ON; {end}").effects() == {}
