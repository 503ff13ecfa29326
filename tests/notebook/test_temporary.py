"""The temporary service beside the embedded one: the names of connections, what a second connect says, and stop."""

from __future__ import annotations

import re
from time import perf_counter

import pytest
from started_services import crash
from waiting import until

from pipemagic import launcher
from pipemagic.errors import ConfirmError, ServiceError, SessionError
from pipemagic.service.locations import round_trip

SAME = "It is the same temporary database as before, "
ADDRESS = "Address: http://main-local.localhost:PORT"
TEMPORARY = ["Connected to temporary (temporary service).", ADDRESS]
MAIN = ["Connected to main (embedded service).", ADDRESS]


@pytest.fixture
def temporary(shell, data):
    """A shell with a temporary database, and a data folder of its own for the embedded service."""
    assert shell("%pipedb connect --temporary").stable_lines == TEMPORARY
    shell("%sql CREATE TABLE flights AS SELECT 1 AS a")
    return shell


def session_of(shell):
    return shell.ip.magics_manager.registry["PipeMagics"].session


def folder_of(shell):
    return session_of(shell)._services.to_stop()._lease.service.folder


def listed(shell):
    frame = shell("%pipedb connections").value
    return {name: (where, current) for name, where, current in frame.itertuples(index=False)}


# -- names


def test_temporary_and_embedded_connections_stay_side_by_side(temporary):
    assert temporary("%pipedb connect").stable_lines == MAIN
    assert listed(temporary) == {"temporary": ("temporary service", False), "main": ("embedded service", True)}
    temporary("%sql CREATE TABLE kept AS SELECT 2 AS a")
    assert temporary("%sql --on temporary SELECT a FROM flights").value["a"].tolist() == [1]
    assert temporary("%sql --on main SELECT a FROM kept").value["a"].tolist() == [2]
    assert "--on temporary" in temporary.fails("%sql SELECT a FROM flights").out
    assert temporary("%pipedb connect --temporary").lines[0] == "Connected to temporary (temporary service)."
    assert listed(temporary) == {"temporary": ("temporary service", True), "main": ("embedded service", False)}
    assert temporary("%pipedb databases").value["database"].tolist() == ["main"]
    assert temporary("%pipedb connect main").stable_lines == MAIN


@pytest.mark.parametrize(
    ("options", "name"), [("--as mine", "mine"), ("main", "main"), ("main --as mine", "mine"), ("other", "other")]
)
def test_a_named_temporary_connection_keeps_its_name(temporary, options, name):
    temporary("%pipedb create-database other --group default\n%pipedb close")
    connected = temporary(f"%pipedb connect {options} --temporary")
    assert connected.lines[0] == f"Connected to {name} (temporary service)."
    assert listed(temporary) == {name: ("temporary service", True)}


def test_a_second_connect_says_that_the_database_is_the_same(temporary):
    again = ["Connected to temporary (temporary service).", f"{SAME}with its table flights.", ADDRESS]
    assert temporary("%pipedb connect --temporary").stable_lines == again
    temporary("%sql CREATE VIEW late AS SELECT a FROM flights")
    again[1] = f"{SAME}with its tables flights, late."
    assert temporary("%pipedb connect --temporary").stable_lines == again
    assert temporary("%pipedb close\n%pipedb connect --temporary").stable_lines == ["Closed temporary.", *again]
    read_only = temporary("%pipedb connect --temporary --as reader --read-only").stable_lines
    assert read_only == ["Connected to reader (temporary service, read-only).", *again[1:]]
    temporary("%pipedb use temporary")
    temporary("%sql DROP VIEW late")
    temporary("%sql DROP TABLE flights")
    assert temporary("%pipedb connect --temporary").lines[:2] == [again[0], f"{SAME}without tables."]
    temporary("%sql " + "; ".join(f"CREATE TABLE t{number} (a)" for number in range(10)))
    assert temporary("%pipedb connect --temporary").lines[1].endswith("t6, t7 and 2 more.")


def test_the_tables_that_are_named_are_those_of_now(temporary):
    temporary("%pipedb connect --temporary\n%sql DROP TABLE flights\n%sql CREATE TABLE late (a)")
    assert temporary("%pipedb connect temporary").stable_lines == TEMPORARY
    session_of(temporary).organization.invalidate_tokens("main")
    assert temporary.fails("%sql SELECT a FROM late").error.hint.startswith("%pipedb connect --temporary creates")
    assert temporary("%pipedb connect --temporary").lines[1] == f"{SAME}with its table late."


def test_a_new_temporary_database_is_not_the_same(temporary):
    temporary("%pipedb delete-database main --confirm")
    assert temporary("%pipedb connect --temporary").stable_lines == TEMPORARY
    assert temporary("%pipedb connect").stable_lines == MAIN
    assert temporary("%pipedb connect").stable_lines == MAIN  # which everybody expects


def test_a_replaced_connection_reports_what_is_lost(temporary):
    temporary("%%sql\nCREATE TEMP TABLE mine AS SELECT 1 AS a;\nBEGIN")
    assert temporary("%pipedb connect --temporary").lines[:2] == [
        "Temporary tables of the earlier connection are gone: mine.", "The open transaction was rolled back.",
    ]  # fmt: skip
    temporary("%pipedb connect main")
    assert temporary("%pipedb connect").stable_lines == [
        "Closed the earlier connection main, to another database (temporary service).",
        *MAIN,
    ]


@pytest.mark.parametrize("line", ["%sql --on temporary SELECT 1", "%pipedb use temporary", "%pipedb connect temporary"])
def test_a_temporary_connection_that_is_missing_is_named_with_its_line(shell, data, line):
    failed = shell.fails(line)
    assert isinstance(failed.error, SessionError)
    assert failed.error.hint == "%pipedb connect --temporary"


def test_the_name_of_the_database_leads_to_the_connection(temporary):
    for line in ("%pipedb use main", "%sql --on main SELECT 1"):
        assert temporary.fails(line).error.hint == "the connection to the database main is called temporary"


def test_a_temporary_service_that_has_ended_is_replaced(temporary):
    temporary("%pipedb create-database other --group default\n%pipedb connect other\n%pipedb use temporary")
    crash(folder_of(temporary))
    failed = temporary.fails("%sql SELECT a FROM flights")
    assert isinstance(failed.error, ServiceError)
    assert failed.error.hint == "%pipedb connect --temporary starts a new one"
    assert temporary("%pipedb connect --temporary").stable_lines == [
        "The temporary service has ended; its databases were deleted: main, other.",
        *TEMPORARY,
    ]
    assert listed(temporary) == {"temporary": ("temporary service", True)}
    assert temporary("%pipedb tables").value.empty


# -- stop


def test_stop_names_the_temporary_databases_and_requires_confirm(temporary):
    failed = temporary.fails("%pipedb stop")
    assert isinstance(failed.error, ConfirmError)
    assert failed.out == (
        "CONFIRM: this command deletes the temporary database main and its contents; nothing was changed\n"
        "Hint: add --confirm to run it\n"
    )
    temporary("%pipedb create-database other --group default\n%pipedb connect other")
    assert "the temporary databases main and other and their contents" in temporary.fails("%pipedb stop").out
    assert temporary("%sql --on temporary SELECT a FROM flights").value["a"].tolist() == [1]
    folder = folder_of(temporary)
    assert temporary("%pipedb stop --confirm").lines == [
        "Stopped the temporary service and deleted its databases main, other.",
        "Closed temporary: its database was deleted.", "Closed other: its database was deleted.",
    ]  # fmt: skip
    assert not folder.exists()
    assert temporary("%pipedb stop").lines == ["The embedded service is not running."]


def test_stop_ends_the_temporary_service_first_and_then_the_embedded_one(temporary):
    temporary("%pipedb connect\n%sql CREATE TABLE kept AS SELECT 2 AS a")
    assert isinstance(temporary.fails("%pipedb stop").error, ConfirmError)
    assert temporary("%pipedb stop --confirm").lines == [
        "Stopped the temporary service and deleted its database main.", "Closed temporary: its database was deleted.",
    ]  # fmt: skip
    assert launcher.find() is not None
    assert temporary("%pipedb stop").lines == ["Stopped the embedded service."]
    assert temporary("%sql SELECT a FROM kept").value["a"].tolist() == [2]


def test_stop_asks_nothing_if_it_deletes_nothing(temporary):
    temporary("%pipedb delete-database main --confirm")
    assert temporary("%pipedb stop").lines == ["Stopped the temporary service."]
    temporary("%pipedb connect --temporary")
    crash(folder_of(temporary))
    assert temporary("%pipedb stop").lines == [
        "The temporary service has ended; its databases were deleted: main.", "The embedded service is not running.",
    ]  # fmt: skip
    temporary("%pipedb connect")
    assert temporary("%pipedb stop --confirm").lines == ["Stopped the embedded service."]


# -- lines that connect again


@pytest.mark.parametrize(
    "line",
    [
        "%pipedb connect --temporary", '%pipedb connect --temporary --as "my db"', "%pipedb connect other --temporary",
        "%pipedb connect other --temporary --as mine",
    ],
)  # fmt: skip
def test_a_refused_token_of_a_temporary_database_is_renewed_by_the_line_of_the_hint(temporary, line):
    temporary("%pipedb create-database other --group default\n%pipedb close")
    temporary(f"{line}\n%sql CREATE TABLE kept AS SELECT 3 AS a")
    connection = session_of(temporary).connection()
    assert connection.connect_line == line
    session_of(temporary).organization.invalidate_tokens(connection.listed_as)
    connection.close()
    assert temporary.fails("%sql SELECT a FROM kept").error.hint.startswith(f"{line} creates a new one")
    temporary(line)
    assert session_of(temporary).connection() is connection
    assert temporary("%sql SELECT a FROM kept").value["a"].tolist() == [3]


# -- limits


def test_the_limits_of_a_temporary_service_can_be_relaxed(shell, data):
    lines = shell("%pipedb connect --temporary --limits relaxed").stable_lines
    assert lines == ["Connected to temporary (temporary service with relaxed limits).", ADDRESS]
    shell("%sql SELECT 1")
    assert '"stream_ttl_ms": 3600000' in str(shell("%pipedb wire last").value)
    assert "temporary (temporary service with relaxed limits, current)" in shell("%pipedb status").out
    shell("%pipedb connect --temporary")  # the same one: no limits are named
    assert listed(shell) == {"temporary": ("temporary service with relaxed limits", True)}


def test_other_limits_need_another_service(temporary):
    assert temporary("%pipedb connect --temporary --limits exact").lines[0] == (
        "Connected to temporary (temporary service)."
    )
    failed = temporary.fails("%pipedb connect --temporary --limits relaxed")
    assert isinstance(failed.error, SessionError)
    assert failed.error.message == "the temporary service of this notebook was started without options"
    assert failed.error.hint == (
        "omit --limits to use it as it is\n"
        "to change the options, run %pipedb stop --confirm, which deletes its databases, and connect again"
    )
    assert temporary("%sql SELECT a FROM flights").value["a"].tolist() == [1]
    temporary("%pipedb stop --confirm")
    assert temporary("%pipedb connect --temporary --limits relaxed").stable_lines == [
        "Connected to temporary (temporary service with relaxed limits).",
        ADDRESS,
    ]


def test_a_temporary_service_that_has_ended_is_replaced_by_one_with_other_limits(temporary):
    crash(folder_of(temporary))
    assert temporary("%pipedb connect --temporary --limits relaxed").lines[-2] == (
        "Connected to temporary (temporary service with relaxed limits)."
    )


def test_limits_are_for_a_temporary_service(shell, data):
    failed = shell.fails("%pipedb connect --limits relaxed")
    assert failed.error.message == "--limits is for a temporary service, which this notebook starts"
    assert failed.error.hint.startswith("%pipedb connect --temporary --limits relaxed")
    with pytest.raises(SessionError, match="unknown limits 'loose'"):
        session_of(shell).connect(temporary=True, limits="loose")


# -- a location


@pytest.fixture
def in_mumbai(shell, data):
    """A shell with a temporary service in Mumbai, and a group whose primary is in Frankfurt."""
    lines = shell("%pipedb connect --temporary --here bom --simulate-latency").stable_lines
    assert lines == ["Connected to temporary (temporary service in bom with simulated latency).", ADDRESS]
    shell("%pipedb create-group world --location fra\n%pipedb create-database air --group world\n%pipedb connect air")
    shell("%sql CREATE TABLE location AS SELECT 'fra' AS code")
    return shell


def seconds_of_a_query(shell):
    shell("%sql --close SELECT 1")
    started = perf_counter()
    shell("%sql --close SELECT code FROM location")
    return perf_counter() - started


def test_responses_come_after_the_time_that_the_distance_takes(in_mumbai):
    to_frankfurt = round_trip("bom", "fra")
    assert to_frankfurt > 0.09
    assert seconds_of_a_query(in_mumbai) > to_frankfurt
    assert in_mumbai("%pipedb add-location world bom --wait").lines == ["Group world is in fra, bom."]
    until(lambda: seconds_of_a_query(in_mumbai) < to_frankfurt, "the replica in Mumbai does not answer")
    groups = in_mumbai("%pipedb groups").value.set_index("group")
    assert groups.locations.to_dict() == {"default": "bom", "world": "fra, bom"}


def test_a_replica_that_receives_no_changes_has_old_data_and_says_so_to_the_connection_that_wrote(in_mumbai):
    in_mumbai("%pipedb add-location world bom --wait\n%pipedb connect air --as reader\n%pipedb use air")
    paused = in_mumbai("%pipedb pause-location world bom --replication-only")
    assert paused.lines == [
        "Group world answers reads in bom, but its replicas there receive no changes until it is resumed."
    ]
    assert in_mumbai("%pipedb groups").value.set_index("group").status["world"] == "bom lagging"
    waits = in_mumbai.fails("%pipedb add-location world bom --if-not-exists --wait").error
    assert (waits.code, waits.hint) == ("LOCATION_PAUSED", "%pipedb resume-location world bom ends the pause")
    in_mumbai("%sql --close INSERT INTO location VALUES ('bom')")
    count = "SELECT count(*) AS n FROM location"
    assert in_mumbai(f"%sql --on reader {count}").value["n"].tolist() == [1]
    failed = in_mumbai.fails(f"%sql {count}")
    assert failed.error.code == "REPLICA_BEHIND"
    assert in_mumbai(f"%sql {count}").value["n"].tolist() == [1]  # as the hint says, it does not wait again
    assert in_mumbai("%pipedb resume-location world bom --wait").lines == ["Resumed group world in bom."]
    for name in ("air", "reader"):
        assert in_mumbai(f"%sql --on {name} {count}").value["n"].tolist() == [2]
    assert in_mumbai("%pipedb groups").value.set_index("group").status["world"] == "ok"


def test_the_latency_of_a_location_that_is_behind_or_paused(in_mumbai):
    def latency():
        return in_mumbai("%pipedb locations --latency").value.set_index("location").latency["nrt"]

    in_mumbai("%pipedb add-location world nrt --wait")
    assert re.fullmatch(r"\d+ ms", latency())
    in_mumbai("%pipedb pause-location world nrt --replication-only\n%sql --close INSERT INTO location VALUES ('nrt')")
    until(lambda: re.fullmatch(r"\d+ ms, \d+\.\d s behind", latency()), "the replica in Tokyo is not behind")
    in_mumbai("%pipedb pause-location world nrt")
    assert latency() == "paused"


def test_a_location_that_is_paused_answers_nothing(in_mumbai):
    in_mumbai("%pipedb add-location world bom --wait")
    assert in_mumbai("%pipedb pause-location world fra").lines == ["Paused group world in fra."]
    assert in_mumbai("%pipedb groups").value.set_index("group").status["world"] == "fra paused"
    assert in_mumbai.fails("%sql --close INSERT INTO location VALUES ('sin')").error.code == "PRIMARY_PAUSED"
    assert in_mumbai("%sql --close SELECT code FROM location").value["code"].tolist() == ["fra"]
    in_mumbai("%pipedb resume-location world fra\n%pipedb pause-location world bom")
    in_mumbai("%sql --close INSERT INTO location VALUES ('sin')")
    assert in_mumbai("%sql --close SELECT count(*) AS n FROM location").value["n"].tolist() == [2]
    in_mumbai("%pipedb pause-location world fra")
    nowhere = in_mumbai.fails("%sql --close SELECT 1").error
    assert nowhere.message.endswith("every location of the database is paused or not ready")
    assert nowhere.hint == (
        "nothing was run; `pipemagic group locations resume GROUP CODE`, in a notebook "
        "%pipedb resume-location GROUP CODE, ends the pause"
    )
    in_mumbai("%pipedb resume-location world fra")
    refused = in_mumbai.fails("%pipedb pause-location world fra --replication-only").error
    assert refused.message.endswith("fra is the primary location of the group, so it has no replication to pause")
    elsewhere = in_mumbai.fails("%pipedb pause-location world sin").error
    assert elsewhere.message.endswith("the group world is not at sin")
    assert elsewhere.hint == "%pipedb groups shows the locations of each group"


def test_a_service_with_other_options_says_how_it_was_started(in_mumbai):
    again = in_mumbai("%pipedb connect --temporary --here bom --simulate-latency").lines
    assert again[1] == f"{SAME}without tables."
    failed = in_mumbai.fails("%pipedb connect --temporary --here fra --simulate-latency").error
    assert failed.message == ("the temporary service of this notebook was started with --here bom --simulate-latency")
    assert failed.hint.startswith("omit --here and --simulate-latency to use it as it is\n")
    assert in_mumbai("%sql --on air SELECT code FROM location").value["code"].tolist() == ["fra"]
    in_mumbai("%pipedb stop --confirm")
    assert in_mumbai("%pipedb connect --temporary --here fra").lines[0] == (
        "Connected to temporary (temporary service in fra)."
    )


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ("--here fra", "--here is for a temporary service, which this notebook starts",
         "%pipedb connect --temporary --here fra; for a service that stays: pipemagic serve --here fra"),
        ("--temporary --here frra", "location 'frra' does not exist", "did you mean fra?"),
        ("--temporary --simulate-latency", "--simulate-latency requires --here",
         "add --here CODE, the location of this notebook"),
    ],
)  # fmt: skip
def test_options_of_a_location_that_are_wrong_start_nothing(shell, data, options, message, hint):
    failed = shell.fails(f"%pipedb connect {options}").error
    assert (failed.message, failed.hint) == (message, hint)
    assert session_of(shell)._services.to_stop() is None


def test_deleting_what_may_not_exist(in_mumbai):
    missing = in_mumbai(
        "%pipedb delete-group europe --if-exists --confirm\n%pipedb delete-database x --if-exists --confirm"
    )
    assert missing.lines == ["There is no group europe.", "There is no database x."]
    assert in_mumbai("%pipedb delete-group world --if-exists --confirm").lines == [
        "Deleted group world and its databases: air.", "Closed air: its database was deleted.",
    ]  # fmt: skip
    assert "group not found" in in_mumbai.fails("%pipedb delete-group europe --confirm").out
