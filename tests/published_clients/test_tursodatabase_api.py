"""npm @tursodatabase/api: all its requests to a management API."""

from __future__ import annotations

import uuid

import pytest
from published_clients import ClientError


@pytest.fixture(scope="module")
def driver(start):
    return start("management_api.mjs")


@pytest.fixture
def ask(driver, served):
    driver.call("open", url=served.address, token=served.platform_token, organization="local")
    return lambda path, *args: driver.call("ask", path=path, args=args)


@pytest.fixture
def name(ask):
    """The name of an existing database."""
    made = "m" + uuid.uuid4().hex[:12]
    ask("databases.create", made, {"group": "default"})
    return made


def test_locations(ask):
    found = ask("locations.list")
    assert {"code": "ams", "description": "Amsterdam, Netherlands"} in found
    assert len(found) > 30


def test_organizations(ask):
    (found,) = ask("organizations.list")
    assert (found["slug"], found["type"], found["overages"]) == ("local", "personal", False)
    assert ask("organizations.update", {"overages": True})["overages"] is True
    assert ask("organizations.update", {"overages": False})["overages"] is False


def test_the_lifecycle_of_a_group(ask):
    group = "g" + uuid.uuid4().hex[:12]
    assert ask("groups.create", group, "fra")["primary"] == "fra"
    assert ask("groups.addLocation", group, "nrt")["locations"] == ["fra", "nrt"]
    assert ask("groups.get", group)["locations"] == ["fra", "nrt"]
    assert group in [item["name"] for item in ask("groups.list")]
    assert ask("groups.delete", group)["name"] == group
    with pytest.raises(ClientError, match="group not found") as caught:
        ask("groups.get", group)
    assert caught.value.kind == "TursoClientError"


def test_the_lifecycle_of_a_database(ask):
    name = "m" + uuid.uuid4().hex[:12]
    made = ask("databases.create", name, {"group": "default"})
    assert (made["name"], made["hostname"]) == (name, f"{name}-local.localhost")
    found = ask("databases.get", name)
    assert found["id"] == made["id"]
    assert (found["group"], found["primaryRegion"], found["regions"]) == ("default", "ams", ["ams"])
    assert (found["block_reads"], found["block_writes"], found["is_schema"]) == (False, False, False)
    assert name in [database["name"] for database in ask("databases.list", {"group": "default"})]
    with pytest.raises(ClientError, match="already exists"):
        ask("databases.create", name, {"group": "default"})
    ask("databases.delete", name)
    with pytest.raises(ClientError, match=name):
        ask("databases.get", name)


def test_a_database_in_a_missing_group(ask):
    with pytest.raises(ClientError, match="group not found"):
        ask("databases.create", "nowhere", {"group": "missing"})


def test_instances(ask, name):
    (found,) = ask("databases.listInstances", name)
    assert (found["name"], found["type"], found["region"]) == ("ams", "primary", "ams")


@pytest.fixture
def status(served):
    """Run a statement with a database token; return the HTTP status."""

    def run(token: str, sql: str) -> int:
        body = {"requests": [{"type": "execute", "stmt": {"sql": sql}}, {"type": "close"}]}
        answer = served.http.post("/v2/pipeline", json=body, headers={"authorization": f"Bearer {token}"})
        if answer.status_code == 200:
            assert answer.json()["results"][0]["type"] == "ok"
        return answer.status_code

    return run


def test_a_token_for_a_database_opens_it(ask, status, name):
    token = ask("databases.createToken", name)["jwt"]
    assert status(token, "CREATE TABLE t (a)") == 200


def test_a_read_only_token_that_expires(ask, status, name):
    token = ask("databases.createToken", name, {"expiration": "1h", "authorization": "read-only"})["jwt"]
    assert status(token, "SELECT 1") == 200
    assert status(token, "CREATE TABLE t (a)") == 403


def test_an_invalid_expiration_is_reported(ask, name):
    with pytest.raises(ClientError, match="expiration"):
        ask("databases.createToken", name, {"expiration": "soon"})


def test_platform_tokens(ask, driver, served):
    made = ask("apiTokens.create", "spare")
    assert made["name"] == "spare"
    assert "spare" in [token["name"] for token in ask("apiTokens.list")]
    # The package reports -1, "never expires", as not valid; the requests below show that the token is valid.
    assert ask("apiTokens.validate", made["token"])["expiry"] == -1
    driver.call("open", url=served.address, token=made["token"], organization="local")
    assert ask("locations.list")
    ask("apiTokens.revoke", "spare")
    with pytest.raises(ClientError):
        ask("locations.list")


def test_a_wrong_token_is_refused(ask, driver, served):
    driver.call("open", url=served.address, token="wrong", organization="local")
    with pytest.raises(ClientError, match="token") as caught:
        ask("locations.list")
    assert caught.value.kind == "TursoClientError"


def test_an_organization_of_another_account(ask, driver, served):
    driver.call("open", url=served.address, token=served.platform_token, organization="nobody")
    with pytest.raises(ClientError, match="organization not found"):
        ask("groups.list")


def test_one_instance(ask, name):
    assert ask("databases.getInstance", name, "ams")["hostname"] == f"ams-{name}-local.localhost"
    with pytest.raises(ClientError, match="nrt"):
        ask("databases.getInstance", name, "nrt")


def test_usage(ask, status, name):
    token = ask("databases.createToken", name)["jwt"]
    assert status(token, "CREATE TABLE t AS SELECT 1 AS a") == 200
    assert status(token, "INSERT INTO t VALUES (2), (3)") == 200
    assert status(token, "SELECT * FROM t") == 200
    used = ask("databases.usage", name)["usage"]
    assert used["rows_read"] >= 3  # an approximation
    assert used["rows_written"] == 2
    assert used["storage_bytes"] > 0
    past = ask("databases.usage", name, {"from": "2020-01-01T00:00:00Z", "to": "2020-02-01T00:00:00Z"})
    assert past["usage"]["rows_read"] == 0


def test_rotating_the_tokens_of_a_database(ask, status, name):
    old = ask("databases.createToken", name)["jwt"]
    assert status(old, "SELECT 1") == 200
    ask("databases.rotateTokens", name)
    assert status(old, "SELECT 1") == 401
    assert status(ask("databases.createToken", name)["jwt"], "SELECT 1") == 200


def test_members(ask):
    (owner,) = ask("organizations.members")
    assert owner["role"] == "owner"
    with pytest.raises(ClientError, match="nobody"):
        ask("organizations.addMember", "nobody")


def test_the_list_of_invoices_is_empty(ask):
    assert ask("organizations.invoices") == []
