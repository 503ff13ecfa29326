"""Further requests of published clients: usage, plans, locations, tokens of version 2, instances."""

from __future__ import annotations

import pytest
from account_calls import person

from pipemagic.service.locations import LOCATIONS

ACME = "/v1/organizations/acme"


def test_usage_of_an_organization(ada, service):
    flights = service.catalog.database("acme", "flights")
    ada.ok("POST", f"{ACME}/groups/edge/locations/nrt")
    usage = ada.ok("GET", f"{ACME}/usage")["organization"]
    assert usage["uuid"] == service.catalog.organizations.get("acme").id
    assert usage["usage"] == {
        "rows_read": 0, "rows_written": 0, "storage_bytes": 4096, "bytes_synced": 0, "databases": 1, "groups": 1,
        "locations": 2,
    }  # fmt: skip
    nothing = {"rows_read": 0, "rows_written": 0, "storage_bytes": 4096, "bytes_synced": 0}
    assert usage["databases"] == [{
        "uuid": flights.id, "name": "flights", "usage": nothing, "total": nothing,
        "instances": [{"uuid": f"{flights.id}-ams", "usage": nothing}],
    }]  # fmt: skip


def test_usage_of_a_database_has_the_fields_of_all_clients(ada, service):
    flights = service.catalog.database("acme", "flights")
    usage = ada.ok("GET", f"{ACME}/databases/flights/usage")
    assert usage["database"]["usage"] == usage["database"]["total"] == usage["total"]
    assert usage["instances"] == {f"{flights.id}-ams": usage["total"]}


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("databases/flights/stats", {"top_queries": []}),
        ("databases/flights/usage/queries", []),
        ("invoices", {"invoices": []}),
        ("subscription", {"subscription": {
            "name": "self-hosted", "plan": "self-hosted", "overages": False, "timeline": "monthly",
        }}),
        ("plans", {"plans": [{
            "name": "self-hosted", "price": "0", "prices": [],
            "quotas": {"rowsRead": 0, "rowsWritten": 0, "storage": 0, "databases": 0, "locations": 0, "groups": 0,
                       "bytesSynced": 0},
        }]}),
    ],
)  # fmt: skip
def test_responses(ada, path, answer):
    assert ada.ok("GET", f"{ACME}/{path}") == answer


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [("POST", "databases/flights/wakeup", {}), ("POST", "databases/flights/update", {})],
)
def test_requests_without_effect(ada, method, path, answer):
    assert ada.ok(method, f"{ACME}/{path}") == answer


def test_unarchiving_a_group_returns_it(ada):
    assert ada.ok("POST", f"{ACME}/groups/edge/unarchive") == ada.ok("GET", f"{ACME}/groups/edge")


def test_locations_by_platform(ada):
    for path in ("/v2/locations", "/v2/organizations/acme/locations"):
        platforms = ada.ok("GET", path)["locations"]
        assert sorted(platforms) == ["aws", "fly"]
        assert platforms["fly"]["ams"] == "Amsterdam, Netherlands"
        assert platforms["aws"]["aws-us-east-1"] == "AWS Virginia"
        assert {**platforms["fly"], **platforms["aws"]} == ada.ok("GET", "/v1/locations")["locations"]


def test_one_location_with_the_closest_others(ada):
    location = ada.ok("GET", "/v1/locations/ams")["location"]
    assert (location["code"], location["description"]) == ("ams", "Amsterdam, Netherlands")
    codes = [other["code"] for other in location["closest"]]
    assert codes[:3] == ["fra", "lhr", "cdg"]
    assert sorted([*codes, "ams"]) == sorted(LOCATIONS)
    assert ada.refused("GET", "/v1/locations/xyz") == (404, "location not found: xyz")


def test_the_closest_location_needs_no_token(ada):
    ada.token = ""
    closest = ada.ok("GET", "/v1/closest")
    assert closest["server"] in LOCATIONS
    assert closest["client"] == closest["server"]


def test_one_instance(ada):
    instances = ada.ok("GET", f"{ACME}/databases/flights/instances")["instances"]
    assert ada.ok("GET", f"{ACME}/databases/flights/instances/ams") == {"instance": instances[0]}
    assert ada.status("GET", f"{ACME}/databases/flights/instances/nrt") == 404


def test_platform_tokens_of_version_2(ada):
    made = ada.ok("POST", "/v2/auth/api-tokens/laptop")["token"]
    assert sorted(made) == ["id", "name", "value"]
    ada.token = made["value"]
    assert ada.ok("GET", "/v1/auth/api-tokens/validate") == {"exp": -1}
    names = [token["name"] for token in ada.ok("GET", "/v2/auth/api-tokens")["tokens"]]
    assert "laptop" in names
    assert names == [token["name"] for token in ada.ok("GET", "/v1/auth/api-tokens")["tokens"]]
    assert ada.ok("DELETE", "/v2/auth/api-tokens/laptop") == {"token": "laptop"}
    assert ada.status("GET", "/v1/auth/validate") == 401


def test_filters_of_the_database_list(ada):
    assert ada.ok("GET", f"{ACME}/databases", None, {"group": "nope"}) == {"databases": []}
    for filters in ({"schema": "flights"}, {"parent": "flights"}, {"type": "schema"}):
        assert ada.ok("GET", f"{ACME}/databases", None, filters) == {"databases": []}
    for filters in ({"group": "edge"}, {"limit": "10", "cursor": "a"}, {"group": "", "schema": ""}):
        assert len(ada.ok("GET", f"{ACME}/databases", None, filters)["databases"]) == 1


def test_create_a_database_by_the_id_of_its_group(ada, service):
    group = service.catalog.group("acme", "edge")
    ada.ok("POST", f"{ACME}/databases", {"name": "by-id", "group_id": group.id})
    assert ada.ok("GET", f"{ACME}/databases/by-id")["database"]["group"] == "edge"
    assert ada.refused("POST", f"{ACME}/databases", {"name": "x", "group_id": "?"}) == (400, "group not found")
    assert ada.refused("POST", f"{ACME}/databases", {"name": "x"}) == (400, '"group" is missing')


def test_the_group_id_of_another_account_is_unknown(ada, service):
    eve = person(service, "eve")
    eve.ok("POST", "/v1/groups", {"name": "mine", "location": "ams"})
    body = {"name": "x", "group_id": service.catalog.group("acme", "edge").id}
    assert eve.refused("POST", "/v1/databases", body) == (400, "group not found")
