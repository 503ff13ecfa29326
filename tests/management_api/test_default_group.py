"""The group of a database whose group is not named, over the contract of the hosted API and on the embedded service."""

from __future__ import annotations

import httpx
import pytest
from scripted_server import Answer, ScriptedServer, as_json
from service_http import ServiceTransport

import pipemagic
from pipemagic import errors

ORG = "/v1/organizations/acme"


class Hosted:
    """Groups, databases and locations of organization acme. ``lacks`` are paths without an endpoint."""

    def __init__(self, *groups, lacks=(), locations=("ams", "nrt"), closest="nrt"):
        self.groups = {name: {"name": name, "primary": "ams", "locations": ["ams"]} for name in groups}
        self.databases = {}
        self._lacks, self._locations, self._closest = lacks, locations, closest

    def __call__(self, call):
        if call.path in self._lacks:
            return Answer(404, content_type="text/plain")
        match call.method, call.path:
            case "GET", "/v1/locations":
                return as_json({"locations": {code: code for code in self._locations}})
            case "GET", "/v1/closest":
                return as_json({"server": self._closest, "client": self._closest})
            case "GET", path if path == f"{ORG}/groups":
                return as_json({"groups": list(self.groups.values())})
            case "GET", path if path.startswith(f"{ORG}/groups/"):
                return as_json({"group": self.groups[path.rpartition("/")[2]]})
            case "POST", path if path == f"{ORG}/groups":
                name, code = call.json["name"], call.json["location"]
                if name in self.groups:
                    return as_json({"error": "group already exists"}, 409)
                self.groups[name] = {"name": name, "primary": code, "locations": [code]}
                return as_json({"group": self.groups[name]})
            case "POST", path if path == f"{ORG}/databases":
                if call.json["group"] not in self.groups:
                    return as_json({"error": "group not found"}, 400)
                self.databases[call.json["name"]] = call.json["group"]
                return as_json({"database": {"Name": call.json["name"], "DbId": "1", "Hostname": "d.localhost"}})
        raise AssertionError(call)


@pytest.fixture
def acme():
    """Return the client of a hosted API."""
    servers = []

    def acme(hosted):
        servers.append(ScriptedServer(hosted))
        return pipemagic.management(servers[-1].url, "platform", organization="acme")

    yield acme
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("groups", "chosen"), [(["edge"], "edge"), (["edge", "default"], "default"), (["default"], "default")]
)
def test_the_only_group_otherwise_the_one_called_default(acme, groups, chosen):
    hosted = Hosted(*groups)
    with acme(hosted) as api:
        assert api.create_database("flights").group == chosen
    assert hosted.databases == {"flights": chosen}
    assert sorted(hosted.groups) == sorted(groups)


def test_several_other_groups_are_named(acme):
    hosted = Hosted("europe", "asia")
    with acme(hosted) as api, pytest.raises(errors.SessionError) as caught:
        api.create_database("flights")
    assert caught.value.message == "organization acme has several groups: asia, europe"
    assert caught.value.hint == "name it with group='asia'"
    assert hosted.databases == {}


@pytest.mark.parametrize(
    ("hosted", "says"),
    [
        (Hosted(), "Created group default in nrt, the closest location."),
        (
            Hosted(lacks=["/v1/closest"]),
            "Created group default in ams, since the service does not report the closest location.",
        ),
        (
            Hosted(locations=("ams", "aws-eu-west-1"), closest="nrt"),  # not one of the organization
            "Created group default in aws-eu-west-1, since the service does not report the closest location.",
        ),
    ],
)
def test_without_groups_default_is_created(acme, hosted, says):
    said = []
    with acme(hosted) as api:
        group = api.default_group(notify=said.append)
        assert api.create_database("flights").group == group.name == "default"
    assert said == [says]
    assert f"in {group.primary}," in says
    assert list(hosted.groups) == ["default"]


def test_another_client_creates_default_at_the_same_time(acme):
    hosted, said = Hosted("default"), []
    hosted_groups = f"{ORG}/groups"

    def late(call):
        return as_json({"groups": []}) if (call.method, call.path) == ("GET", hosted_groups) else hosted(call)

    with acme(late) as api:
        assert api.default_group(notify=said.append).primary == "ams"
    assert said == []


def test_an_api_that_cannot_list_groups_needs_the_name_of_one(acme):
    hosted = Hosted("edge", lacks=[f"{ORG}/groups"])
    with acme(hosted) as api:
        with pytest.raises(errors.SessionError, match="this management API cannot list groups") as caught:
            api.create_database("flights")
        assert caught.value.hint == "name it with group='GROUP'"
        created = pipemagic.management_api.models.Group("edge")
        assert api.default_group(known=[created]) is created


def test_an_api_without_locations(acme):
    with acme(Hosted(locations=())) as api, pytest.raises(errors.UnsupportedError, match="lists no locations"):
        api.create_database("flights")


def test_the_embedded_service(service, tmp_path):
    token = (tmp_path / "data" / "platform-token").read_text().strip()
    http = httpx.Client(transport=ServiceTransport(service))
    with pipemagic.management("http://127.0.0.1:8080", token, http=http) as api:
        for group in api.groups():
            api.delete_group(group.name)
        assert api.create_database("first").group == "default"
        assert api.group("default").primary == api.closest()
        assert api.create_database("copy", copy_of="first").group == "default"
        api.create_group("edge", "fra")
        assert api.create_database("second").group == "default"
        api.delete_group("default")
        assert api.create_database("third").group == "edge"
