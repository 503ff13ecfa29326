"""The management API: the bodies and statuses that published clients expect."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from asgi_calls import call

from pipemagic import __version__
from pipemagic.service.service import Service

ORG = "/v1/organizations/local"
DATABASE_MEMBERS = {
    "Name", "DbId", "Hostname", "hostname", "group", "primaryRegion", "regions", "type", "version", "is_schema",
    "schema", "allow_attach", "block_reads", "block_writes", "sleeping", "archived", "delete_protection",
    "created_at", "parent",
}  # fmt: skip


class Api:
    """Sends requests to the management API of a service."""

    def __init__(self, folder):
        self.service = Service(folder, clock=lambda: 0.0, now=lambda: 1_700_000_000.0)
        self.catalog, self.tokens, self.meter = self.service.catalog, self.service.tokens, self.service.meter
        self.deleted = []
        self.service.engine.delete = self.deleted.append
        self.token = (folder / "platform-token").read_text().strip()

    def call(self, method, path, body=b"", *, query=None, token=None, headers=None):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {"host": "127.0.0.1", "authorization": f"Bearer {token or self.token}", **(headers or {})}
        response = call(self.service, method, path, query=query, headers=headers, body=body)
        raw = response.read()
        if raw:
            assert response.content_type == "application/json"
        return response.status, json.loads(raw) if raw else None

    def ok(self, *arguments, **options):
        status, answer = self.call(*arguments, **options)
        assert status == 200, answer
        return answer

    def error(self, *arguments, **options):
        status, answer = self.call(*arguments, **options)
        assert answer["error"] == answer["message"]
        assert answer["code"]
        return status, answer["error"]


@pytest.fixture
def api(tmp_path):
    api = Api(tmp_path)
    yield api
    api.service.close()


@pytest.fixture
def filled(api):
    api.ok("POST", f"{ORG}/groups", {"name": "edge", "location": "ams"})
    api.ok("POST", f"{ORG}/databases", {"name": "flights", "group": "edge"})
    return api


# -- the endpoints of the requirement


def test_create_a_group(api):
    group = api.ok("POST", f"{ORG}/groups", {"name": "edge", "location": "ams"})["group"]
    uuid = group.pop("uuid")
    assert len(uuid) == 36
    assert group == {
        "name": "edge", "locations": ["ams"], "primary": "ams", "archived": False, "version": __version__,
        "delete_protection": False, "status": {"locations": [{"name": "ams", "status": "ok"}]},
        "created_at": "2023-11-14T22:13:20Z",
    }  # fmt: skip


def test_create_a_database(api):
    api.ok("POST", f"{ORG}/groups", {"name": "edge", "location": "ams"})
    database = api.ok("POST", f"{ORG}/databases", {"name": "flights", "group": "edge"})["database"]
    assert set(database) == {"DbId", "Hostname", "Name", "IssuedCertCount", "IssuedCertLimit"}
    assert (database["Name"], database["Hostname"]) == ("flights", "flights-local.localhost")


def test_add_a_location(filled):
    group = filled.ok("POST", f"{ORG}/groups/edge/locations/nrt")["group"]
    assert (group["locations"], group["primary"]) == (["ams", "nrt"], "ams")
    assert filled.ok("POST", f"{ORG}/groups/edge/locations/nrt")["group"] == group
    assert filled.ok("GET", f"{ORG}/databases/flights")["database"]["regions"] == ["ams", "nrt"]


def test_update_the_organization(api):
    organization = {
        "id": api.catalog.organizations.get("local").id, "name": "local", "slug": "local", "type": "personal",
        "overages": True, "blocked_reads": False, "blocked_writes": False, "plan_id": "self-hosted",
        "plan_timeline": "monthly", "platform": "", "require_mfa": False,
    }  # fmt: skip
    assert api.ok("PATCH", ORG, {"overages": True}) == {"organization": organization}
    assert api.ok("GET", ORG) == {"organization": organization}
    assert api.ok("PATCH", ORG, {"overages": False})["organization"]["overages"] is False


# -- further endpoints that clients need


def test_groups(filled):
    (group,) = filled.ok("GET", f"{ORG}/groups")["groups"]
    assert datetime.fromisoformat(group["created_at"]).tzinfo is UTC
    assert group["created_at"].endswith("Z")
    assert filled.ok("GET", f"{ORG}/groups/edge")["group"] == group
    assert filled.ok("DELETE", f"{ORG}/groups/edge")["group"] == group
    assert filled.ok("GET", f"{ORG}/groups") == {"groups": []}
    assert [record.name for record in filled.deleted] == ["flights"]


def test_databases(filled):
    filled.ok("POST", f"{ORG}/groups", {"name": "other", "location": "fra"})
    (database,) = filled.ok("GET", f"{ORG}/databases")["databases"]
    assert set(database) == DATABASE_MEMBERS
    assert (database["primaryRegion"], database["regions"], database["type"]) == ("ams", ["ams"], "logical")
    assert datetime.fromisoformat(database["created_at"]).tzinfo is UTC
    assert filled.ok("GET", f"{ORG}/databases/flights")["database"] == database
    assert filled.ok("GET", f"{ORG}/databases", query={"group": "edge"})["databases"] == [database]
    assert filled.ok("GET", f"{ORG}/databases", query={"group": "other"}) == {"databases": []}
    assert filled.ok("DELETE", f"{ORG}/databases/flights") == {"database": "flights"}
    assert [record.id for record in filled.deleted] == [database["DbId"]]
    assert filled.ok("GET", f"{ORG}/databases") == {"databases": []}


def test_database_tokens(filled):
    path = f"{ORG}/databases/flights/auth/tokens"
    full = filled.ok("POST", path)["jwt"]
    grant = filled.tokens.check_database(f"Bearer {full}", None)
    assert (grant.database.name, grant.subject, grant.read_only) == ("flights", "local", False)
    query = {"expiration": "7d", "authorization": "read-only"}
    read_only = filled.ok("POST", path, b'{"permissions":null}', query=query)["jwt"]
    assert filled.tokens.check_database(f"Bearer {read_only}", None).read_only is True
    assert filled.ok("POST", path, query={"expiration": "never", "authorization": "full-access"})["jwt"]
    assert filled.error("POST", path, query={"expiration": "soon"}) == (400, "Invalid expiration format")
    assert filled.error("POST", path, query={"authorization": "root"}) == (
        400, "Invalid authorization: use full-access or read-only")  # fmt: skip
    assert filled.error("POST", path, {"fine_grained_permissions": [{"t": ["a"], "a": ["data_read"]}]}) == (
        400,
        '"fine_grained_permissions" is not supported by this service: a token has the rights that authorization names',
    )
    assert filled.error("POST", f"{ORG}/databases/nope/auth/tokens")[0] == 404


def test_platform_tokens(api):
    made = api.ok("POST", "/v1/auth/api-tokens/ci")
    assert set(made) == {"name", "id", "token"}
    assert api.ok("GET", "/v1/auth/validate", token=made["token"]) == {"exp": -1}
    listed = api.ok("GET", "/v1/auth/api-tokens")
    assert {token["name"] for token in listed["tokens"]} == {"default", "ci"}
    assert made["token"] not in json.dumps(listed)
    assert api.error("POST", "/v1/auth/api-tokens/ci") == (409, "token with name ci already exists")
    assert api.error("POST", "/v1/auth/api-tokens/Bad Name")[0] == 400
    assert api.ok("DELETE", "/v1/auth/api-tokens/ci") == {"token": "ci"}
    assert api.error("GET", "/v1/auth/validate", token=made["token"])[0] == 401
    assert api.error("DELETE", "/v1/auth/api-tokens/ci") == (404, "token not found")
    assert api.error("DELETE", "/v1/auth/api-tokens/default")[0] == 400
    assert api.ok("GET", "/v1/auth/validate")


# -- differences between clients


@pytest.mark.parametrize("content_type", ["application/json", "text/plain;charset=UTF-8", None])
def test_any_content_type_is_accepted(api, content_type):
    headers = {"content-type": content_type} if content_type else {}
    assert api.ok("PATCH", ORG, {"overages": True}, headers=headers)


def test_names_of_fields_in_any_case(api):
    assert api.ok("POST", f"{ORG}/groups", {"Name": "edge", "Location": "ams", "Version": "latest"})
    api.ok("POST", f"{ORG}/databases", {"Name": "x", "name": "flights", "GROUP": "edge"})
    assert [database["Name"] for database in api.ok("GET", f"{ORG}/databases")["databases"]] == ["flights"]


def test_optional_fields(api):
    api.ok("POST", f"{ORG}/groups", {"name": "edge", "location": "ams", "extensions": []})
    body = {"name": "flights", "group": "edge", "size_limit": "1gb", "is_schema": False, "schema": "", "seed": None}
    assert api.ok("POST", f"{ORG}/databases", body)
    assert api.error("POST", f"{ORG}/databases", {"name": "copy", "group": "edge", "seed": {"type": "database"}}) == (
        400, '"seed.name" must name the database to copy')  # fmt: skip


# -- errors


@pytest.mark.parametrize(("body", "message"), [
    (b"", "the request body is not JSON"),
    (b'{"name":"edge","location":"ams"} x', "the request body is not JSON"),
    (b'{"name":"\xff"}', "the request body is not JSON"),
    (b"null", "the request body must be a JSON object"),
    (b'{"name":null,"location":"ams"}', '"name" is missing'),
    (b'{"name":"edge"}', '"location" is missing'),
    (b'{"name":{"location":"ams"},"location":"ams"}', '"name" must be a string'),
    (b'{"name":"edge","location":"xxx"}', "invalid location: xxx"),
    (b'{"name":"../edge","location":"ams"}', "invalid group name: it must have between 1 and 57 lower-case letters"),
])  # fmt: skip
def test_bad_bodies(api, body, message):
    status, said = api.error("POST", f"{ORG}/groups", body)
    assert status == 400
    assert said.startswith(message)
    assert api.ok("GET", f"{ORG}/groups") == {"groups": []}


def test_names_that_are_taken_or_unknown(filled):
    assert filled.error("POST", f"{ORG}/groups", {"name": "edge", "location": "ams"}) == (409, "group already exists")
    assert filled.error("POST", f"{ORG}/databases", {"name": "flights", "group": "edge"}) == (
        409, "database with name flights already exists")  # fmt: skip
    assert filled.error("POST", f"{ORG}/databases", {"name": "other", "group": "nope"}) == (400, "group not found")
    assert filled.error("POST", f"{ORG}/groups/edge/locations/xxx") == (400, "invalid location: xxx")
    assert filled.error("POST", f"{ORG}/groups/nope/locations/nrt") == (404, "group not found")
    assert filled.error("GET", f"{ORG}/groups/nope") == (404, "group not found")
    assert filled.error("DELETE", f"{ORG}/groups/nope") == (404, "group not found")
    assert filled.error("GET", f"{ORG}/databases/nope") == (
        404, "could not find database with name nope: record not found")  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/locations", f"{ORG}/groups", "/v1/nope", "/v1/auth/validate"])
def test_every_request_needs_a_token(api, path):
    response = call(api.service, "GET", path, headers={"host": "127.0.0.1"})
    assert response.status == 401
    assert json.loads(response.read())["error"].startswith("Unauthorized: ")


def test_unknown_paths_and_methods(api):
    assert api.error("GET", "/v1/nope") == (404, "there is no /v1/nope in the management API")
    assert api.error("GET", f"{ORG}/groups/")[0] == 404
    headers = {"host": "127.0.0.1", "authorization": f"Bearer {api.token}"}
    response = call(api.service, "PUT", f"{ORG}/groups", headers=headers)
    assert (response.status, response.headers["allow"]) == (405, "GET, POST")
    assert json.loads(response.read())["error"] == "PUT is not allowed here, only GET, POST"
    assert api.error("GET", "/v3/organizations/local/databases")[0] == 404  # of the newest command-line tool
