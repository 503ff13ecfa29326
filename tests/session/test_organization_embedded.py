"""What a session knows of its organization, and renewed platform tokens, on the embedded service."""

from __future__ import annotations

import pytest

from pipemagic import launcher
from pipemagic.client.secrets import BearerToken
from pipemagic.errors import NotFound, ServerError
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
def organization(embedded):
    """The organization, with a group and a database; ``told`` counts the changes."""
    organization = embedded.organization
    organization.create_group("edge", "ams")
    organization.create_database("flights", "edge")
    organization.told = 0

    def tell(_deleted):
        organization.told += 1

    organization.on_change = tell
    return organization


def names(listing):
    return [item.name for item in listing.items]


def test_a_deletion_by_another_client_is_a_change_too(organization):
    with pytest.raises(NotFound, match="could not find database with name nope"):
        organization.delete_database("nope")
    with pytest.raises(NotFound, match="group not found"):
        organization.delete_group("nope")
    assert organization.told == 2


def test_a_refused_statement_changes_nothing(organization):
    with pytest.raises(ServerError, match="invalid group name"):
        organization.create_group("No", "ams")
    assert organization.told == 0


def test_a_name_is_looked_at_without_asking(organization):
    assert organization.name_problem("database", "flights") == ""
    assert "at most 57 characters here, which leaves room for -local" in organization.name_problem("group", "g" * 58)


def test_another_token_in_the_data_folder_is_taken(prepared):
    prepared.organization._api.transport.token = BearerToken("an-earlier-one")
    assert names(prepared.organization.groups()) == ["default"]


def test_a_session_continues_after_the_platform_token_was_renewed(data):
    with Session(environ={}) as session:
        session.connect()
        session.run("CREATE TABLE t(a)")
        launcher.stop(data)
        (data / PLATFORM_TOKEN_FILE).unlink()
        assert session.run("SELECT count(*) AS n FROM t")["n"].tolist() == [0]
        assert names(session.organization.databases()) == ["main"]
