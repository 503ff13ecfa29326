"""All that is done with an organization, on the embedded service."""

from __future__ import annotations

import time

import pytest

from pipemagic import launcher
from pipemagic.client.database import Database
from pipemagic.client.secrets import Token
from pipemagic.errors import AuthError, NotFound, ServerError
from pipemagic.service.files import PLATFORM_TOKEN_FILE
from pipemagic.session import Session
from pipemagic.session.services import Embedded


@pytest.fixture
def data(local_service):
    """The data folder of a service without databases."""
    return local_service.folder


@pytest.fixture
def embedded(data):
    embedded = Embedded(data)
    yield embedded
    embedded.close()


@pytest.fixture
def prepared(embedded):
    """The embedded service with the database main."""
    embedded.prepare()
    return embedded


@pytest.fixture
def platform(embedded):
    """The organization, with a group of two locations and two databases; ``told`` counts the changes."""
    platform = embedded.platform
    platform.create_group("edge", "ams")
    platform.add_location("edge", "nrt")
    platform.create_database("flights", "edge")
    platform.create_database("trains", "edge")
    platform.told = 0

    def tell(_deleted):
        platform.told += 1

    platform.on_change = tell
    return platform


def names(listing):
    return [one.name for one in listing.items]


def test_a_database_is_deleted(platform):
    platform.delete_database("flights")
    assert (names(platform.databases()), platform.told) == (["trains"], 1)
    assert platform.names("database") == ["trains"]


def test_a_group_is_deleted_with_its_databases(platform):
    platform.delete_group("edge")
    assert (names(platform.groups()), names(platform.databases()), platform.told) == ([], [], 1)


def test_a_deletion_by_another_client_is_a_change_too(platform):
    with pytest.raises(NotFound, match="could not find database with name nope"):
        platform.delete_database("nope")
    with pytest.raises(NotFound, match="group not found"):
        platform.delete_group("nope")
    assert platform.told == 2


def test_a_refused_statement_changes_nothing(platform):
    with pytest.raises(ServerError, match="invalid group name"):
        platform.create_group("No", "ams")
    assert platform.told == 0


def test_a_location_is_removed_but_not_the_primary(platform):
    assert platform.remove_location("edge", "nrt").locations == ("ams",)
    assert platform.told == 1
    with pytest.raises(ServerError, match="primary") as caught:
        platform.remove_location("edge", "ams")
    assert caught.value.status == 400


def test_instances_have_a_state_and_a_lag(platform):
    platform.wait_for_location("edge", "nrt")
    primary, replica = platform.instances("flights")
    assert (primary.name, primary.type, primary.lag) == ("ams", "primary", 0)
    assert (replica.name, replica.type, replica.state) == ("nrt", "replica", "ok")
    assert replica.lag < 60
    with pytest.raises(NotFound, match="could not find database with name nope"):
        platform.instances("nope")


def test_a_token_lets_read_or_write(platform):
    url = platform.databases().items[0].url
    with Database(url, platform.create_token("flights")) as database:
        database.execute("CREATE TABLE t(a)")
    with Database(url, platform.create_token("flights", expiration="7d", read_only=True)) as database:
        assert database.execute("SELECT count(*) FROM t").rows == [(0,)]
        with pytest.raises(AuthError):
            database.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(ServerError, match="expiration"):
        platform.create_token("flights", expiration="soon")


def test_settings_plan_and_use(platform):
    assert [(one.slug, one.type) for one in platform.organizations()] == [("local", "personal")]
    settings = platform.settings()
    assert (settings.name, settings.type, settings.overages) == ("local", "personal", False)
    assert (settings.blocked_reads, settings.blocked_writes) == (False, False)
    used = platform.usage()
    assert (used.figures["databases"], used.figures["groups"], used.figures["locations"]) == (2, 1, 2)
    assert set(used.databases) == {"flights", "trains"}
    assert used.databases["flights"]["storage_bytes"] >= 0
    plan, quotas = platform.quotas()
    assert (plan, quotas["rows_read"], quotas["storage_bytes"]) == ("self-hosted", 0, 0)


def test_other_members_of_lists(platform):
    assert platform.closest() in {location.code for location in platform.locations()}
    (group,) = platform.groups().items
    assert group.version
    made = platform.databases().items[0].created
    assert abs(time.time() - made) < 600


def test_a_name_is_looked_at_without_asking(platform):
    assert platform.name_problem("database", "flights") == ""
    assert "at most 57 characters here, which leaves room for -local" in platform.name_problem("group", "g" * 58)


def test_another_token_in_the_data_folder_is_taken(prepared):
    prepared.platform._api.transport.token = Token("an-earlier-one")
    assert names(prepared.platform.groups()) == ["default"]


def test_a_renewed_platform_token_is_found(prepared, data):
    """Its file is removed and the service started again, as one does when it has become known."""
    first = (data / PLATFORM_TOKEN_FILE).read_text()
    launcher.stop(data)
    (data / PLATFORM_TOKEN_FILE).unlink()
    assert names(prepared.platform.databases()) == ["main"]
    assert (data / PLATFORM_TOKEN_FILE).read_text() != first
    prepared.platform.delete_database("main")


def test_a_session_continues_after_the_platform_token_was_renewed(data):
    with Session(environ={}) as session:
        session.connect()
        session.run("CREATE TABLE t(a)")
        launcher.stop(data)
        (data / PLATFORM_TOKEN_FILE).unlink()
        assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]
        assert names(session.platform.databases()) == ["main"]
