"""An organization behind a management API that has the requirement's five endpoints and nothing else."""

from __future__ import annotations

import re

import pytest
from scripted_server import Answer, ScriptedServer, as_json

from pipemagic.errors import SessionError
from pipemagic.management_api.client import Management
from pipemagic.session.organization import Organization

ORG = "/v1/organizations/acme"


class FiveEndpoints:
    """Answers with as little as the requirement allows: nothing is shown of the bodies, so they are empty."""

    def __init__(self):
        self.groups, self.databases = {}, {}

    def __call__(self, call):
        if call.headers.get("authorization") != "Bearer platform":
            return Answer(401)
        match call.method, call.path:
            case "GET", "/v1/locations":
                return as_json({"locations": {"ams": "Amsterdam", "nrt": "Tokyo"}})
            case "POST", path if path == f"{ORG}/groups":
                return self._create(self.groups, call.json["name"], call.json["location"])
            case "POST", path if path == f"{ORG}/databases":
                return self._create(self.databases, call.json["name"], call.json["group"])
            case "POST", path if re.fullmatch(rf"{ORG}/groups/\w+/locations/\w+", path):
                return as_json({})
        return Answer(404, content_type="text/plain")

    def _create(self, table, name, value):
        if name in table:
            return as_json({"error": f"{name} already exists"}, 409)
        table[name] = value
        return as_json({})


@pytest.fixture
def organization():
    server = ScriptedServer(FiveEndpoints())
    organization = Organization(Management(server.url, "platform", organization="acme"), "a test")
    yield organization
    organization.close()
    server.close()


def test_without_lists_the_created_items_are_known(organization):
    assert [location.code for location in organization.locations()] == ["ams", "nrt"]
    assert (list(organization.groups().items), organization.groups().complete) == ([], False)
    organization.create_group("g", "ams")
    organization.add_location("g", "nrt")
    organization.create_database("d", "g")
    (group,) = organization.groups().items
    assert (group.name, group.primary, group.locations) == ("g", "ams", ("ams", "nrt"))
    assert [(database.name, database.group) for database in organization.databases().items] == [("d", "g")]


def test_if_not_exists_gives_the_same_either_way(organization):
    made = [organization.create_group("g", "ams", if_not_exists=True) for _ in range(2)]
    assert made[0] == made[1]
    made = [organization.create_database("d", "g", if_not_exists=True) for _ in range(2)]
    assert made[0] == made[1]
    made = [organization.add_location("g", "nrt", if_not_exists=True) for _ in range(2)]
    assert made[0] == made[1]


def test_a_database_without_an_address_or_a_token_is_opened_by_its_address(organization):
    organization.create_group("g", "ams")
    organization.create_database("d", "g")
    with pytest.raises(SessionError, match="%pipedb connect ADDRESS --token-env VARIABLE"):
        organization.open("d")
    with pytest.raises(
        SessionError, match=r"database 'e' does not exist in organization acme\nHint: %pipedb create-database e"
    ):
        organization.open("e")


def test_a_database_that_is_only_listed_can_be_opened():
    """Some services list databases, but have no endpoint for a single one."""

    def answer(call):
        if call.path.partition("?")[0] == f"{ORG}/databases":
            return as_json({"databases": [{"Name": "d", "Hostname": "d-acme.localhost"}]})
        if call.path.startswith(f"{ORG}/databases/d/auth/tokens"):
            return as_json({"jwt": "x.y.z"})
        return Answer(404, content_type="text/plain")

    server = ScriptedServer(answer)
    organization = Organization(Management(server.url, "platform", organization="acme"), "a test")
    try:
        with organization.open("d") as database:
            assert database.endpoint.named_host == "d-acme.localhost"
        with pytest.raises(
            SessionError, match="database 'dd' does not exist in organization acme\nHint: did you mean d"
        ):
            organization.open("dd")
        with pytest.raises(SessionError, match="'main' does not exist") as caught:
            organization.open("main", similar=["main"])  # its connection is still open
        assert "did you mean" not in caught.value.hint
    finally:
        organization.close()
        server.close()


def test_without_lists_the_only_created_group_is_used(organization):
    with pytest.raises(SessionError, match=r"cannot list groups, so the group must be named\nHint: add --group GROUP"):
        organization.create_database("d")
    organization.create_group("g", "ams")
    assert organization.create_database("d").group == "g"
    organization.create_group("h", "nrt")
    with pytest.raises(SessionError, match=r"organization acme has several groups: g, h\nHint: add --group g"):
        organization.create_database("e")
