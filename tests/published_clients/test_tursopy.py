"""PyPI tursopy: the management API in Python; it requires members that other clients ignore."""

from __future__ import annotations

import uuid

import pytest
from published_clients import ClientError


@pytest.fixture(scope="module")
def driver(start):
    return start("drive_tursopy.py")


@pytest.fixture
def ask(driver, served):
    driver.call("open", url=served.address, token=served.platform_token)
    return lambda path, *args: driver.call("ask", path=path, args=args)


@pytest.fixture
def name(ask):
    """The name of an existing database."""
    made = "p" + uuid.uuid4().hex[:12]
    ask("db.create_database", "local", made)
    return made


def test_the_lifecycle_of_a_database(ask, name):
    found = ask("db.retrieve", "local", name)
    assert (found["Name"], found["group"], found["regions"]) == (name, "default", ["ams"])
    assert name in [database["Name"] for database in ask("db.list_databases", "local")]
    assert ask("db.delete_database", "local", name) == name
    with pytest.raises(ClientError, match=name):
        ask("db.retrieve", "local", name)


def test_instances(ask, name):
    (found,) = ask("db.list_instances", "local", name)
    assert (found["name"], found["type"]) == ("ams", "primary")


def test_a_token_for_a_database(ask, served, name):
    token = ask("db.generate_token", "local", name)
    body = {"requests": [{"type": "execute", "stmt": {"sql": "SELECT 1"}}, {"type": "close"}]}
    answer = served.http.post("/v2/pipeline", json=body, headers={"authorization": f"Bearer {token}"})
    assert answer.json()["results"][0]["type"] == "ok"


def test_platform_tokens(ask):
    made = ask("create_platform_api_token", "spare-py")
    assert (made["name"], bool(made["token"])) == ("spare-py", True)
    with pytest.raises(ClientError, match="already exists"):
        ask("create_platform_api_token", "spare-py")
    assert "spare-py" in [token["name"] for token in ask("list_platform_tokens")]
    assert ask("revoke_token", "spare-py") == "spare-py"
    with pytest.raises(ClientError, match="not found"):
        ask("revoke_token", "spare-py")


def test_a_wrong_token_is_refused(driver, served):
    with pytest.raises(ClientError, match="token") as caught:
        driver.call("open", url=served.address, token="wrong")
    assert caught.value.kind == "InvalidPlatformTokenException"


def test_configuration(ask, name):
    assert ask("db.update", "local", name, False, "256mb")["size_limit"] == str(256 * 1024 * 1024)


def test_usage(ask, name):
    found = ask("db.get_usage", "local", name)
    assert found["total"]["rows_written"] == 0
    assert len(found["instances"]) == 1


def test_stats(ask, name):
    assert ask("db.get_stats", "local", name) == []


def test_rotating_tokens(ask, served, name):
    token = ask("db.generate_token", "local", name)
    ask("db.invalidate_tokens", "local", name)
    body = {"requests": [{"type": "close"}]}
    answer = served.http.post("/v2/pipeline", json=body, headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 401
