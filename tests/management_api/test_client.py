from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from scripted_server import Answer, Call, ScriptedServer, as_json
from service_http import ServiceTransport

import pipemagic
from pipemagic import errors
from pipemagic.client.database import Database
from pipemagic.management_api.client import Management
from pipemagic.management_api.models import DatabaseInfo, Group, Location, Organization


@pytest.fixture
def api(service, tmp_path):
    """The management API of the embedded service."""
    token = (tmp_path / "data" / "platform-token").read_text().strip()
    http = httpx.Client(transport=ServiceTransport(service))
    with pipemagic.management("http://127.0.0.1:8080", token, http=http) as management:
        yield management


def test_the_whole_way_to_a_database(api, service) -> None:
    assert Location("ams", "Amsterdam, Netherlands") in api.locations()
    assert api.slug == "local"
    assert [organization.slug for organization in api.organizations()] == ["local"]
    group = api.create_group("edge", "ams")
    assert group == api.group("edge")
    assert group.locations == ("ams",)
    assert api.add_location("edge", "nrt").locations == ("ams", "nrt")
    made = api.create_database("flights", "edge")
    assert (made.name, made.group, made.url) == ("flights", "edge", "http://flights-local.localhost:8080")
    assert api.database("flights").locations == ("ams", "nrt")
    assert [item.name for item in api.databases("edge")] == ["flights"]
    token = api.create_token("flights", expiration="7d", read_only=True)
    assert "***" in repr(token)
    assert token not in repr(token)
    with Database(made.url, token, http=httpx.Client(transport=ServiceTransport(service))) as database:
        assert database.execute("SELECT 1").rows == [(1,)]
        with pytest.raises(errors.AuthError):
            database.execute("CREATE TABLE t(a)")
    api.delete_database("flights")
    api.delete_group("edge")
    assert api.databases("edge") == []
    assert "edge" not in [item.name for item in api.groups()]


def test_the_organization(api) -> None:
    assert api.organization() == Organization("local", "local", "personal", False)
    assert api.update_organization(overages=True).overages is True
    assert api.organization().overages is True
    assert api.validate() is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.create_group("default", "ams"), errors.AlreadyExists, "already exists"),
        (lambda m: m.create_group("x", "nowhere"), errors.ServerError, "nowhere"),
        (lambda m: m.create_group("../x", "ams"), errors.ServerError, "name"),
        (lambda m: m.create_database("x", "nope"), errors.ServerError, "group not found"),
        (lambda m: m.group("nope"), errors.NotFound, "group"),
        (lambda m: m.group("a/../default"), errors.NotFound, "group"),
        (lambda m: m.group(".."), errors.ParameterError, "not a name"),
        (lambda m: m.group(""), errors.ParameterError, "not a name"),
        (lambda m: m.database("nope"), errors.NotFound, "nope"),
        (lambda m: m.create_token("nope"), errors.NotFound, "nope"),
        (lambda m: m.create_token("nope", expiration="soon"), errors.ServerError, "expiration"),
    ],
)
def test_refusals(api, call, error, message) -> None:
    with pytest.raises(error, match=message) as caught:
        call(api)
    assert len(str(caught.value).splitlines()) <= 2


def test_an_organization_of_another_account(api) -> None:
    api.known_slug = "acme"
    with pytest.raises(errors.NotFound, match="organization"):
        api.groups()


def test_a_bad_token(service) -> None:
    with httpx.Client(transport=ServiceTransport(service)) as http:
        bad = Management("http://127.0.0.1:8080", "a-secret-token", http=http)
        with pytest.raises(errors.AuthError) as caught:
            bad.locations()
        assert "a-secret-token" not in f"{caught.value}{bad!r}"


def test_no_module_hides_the_public_function() -> None:
    """A package of the same name would replace it at its import; hence management_api."""
    assert pipemagic.management.__module__ == Management.__module__
    assert not (Path(pipemagic.__file__).parent / "management").exists()


# -- other services


class ScriptedApi(ScriptedServer):
    """Answers every request by ``reply``, whatever its method."""

    def __init__(self, reply) -> None:
        self.reply = reply
        super().__init__()

    def answer(self, call: Call) -> Answer:
        return self.reply(call)


@pytest.fixture
def api_of():
    with ExitStack() as open_things:

        def start(reply, **options) -> Management:
            server = ScriptedApi(reply if callable(reply) else lambda _: reply)
            open_things.callback(server.close)
            options = {"organization": "acme", **options}
            return open_things.enter_context(Management(server.url, "a-secret-token", **options))

        yield start


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"locations": {"nrt": "Tokyo", "ams": "Amsterdam"}}, [Location("ams", "Amsterdam"), Location("nrt", "Tokyo")]),
        ({}, []),  # a service with the five endpoints, whose bodies are not specified
    ],
)
def test_locations(api_of, body, found) -> None:
    assert api_of(as_json(body)).locations() == found


def test_the_primary_location_of_a_group_is_the_first(api_of) -> None:
    group = {"name": "edge", "uuid": "u", "primary": "ams", "locations": ["nrt", "ams"]}
    assert api_of(as_json({"group": group})).group("edge") == Group("edge", "ams", ("ams", "nrt"), "u")


@pytest.mark.parametrize("answer", [Answer(), as_json({}), as_json(None), Answer(201, b'{"group": "edge"}')])
def test_missing_members_of_a_response_have_the_values_of_the_request(api_of, answer) -> None:
    api = api_of(answer)
    assert api.create_group("edge", "ams") == Group("edge", "ams", ("ams",))
    assert api.create_database("flights", "edge") == DatabaseInfo("flights", "edge", "", "")
    assert api.update_organization(overages=True) == Organization("acme", "acme", "", True)


@pytest.mark.parametrize(
    ("one", "url"),
    [
        ({"Hostname": "flights-acme.example.io"}, "https://flights-acme.example.io"),
        ({"Hostname": "flights-acme.localhost"}, "http://flights-acme.localhost:PORT"),
        ({"Hostname": "flights-acme.localhost:9"}, "http://flights-acme.localhost:9"),
        ({"Hostname": "flights-acme.lan", "primaryRegion": "local"}, "http://flights-acme.lan:PORT"),
    ],
)
def test_addresses_of_databases(api_of, one, url) -> None:
    api = api_of(as_json({"database": {"Name": "flights", "DbId": "7", **one}}))
    found = api.create_database("flights", "edge")
    assert found.url == url.replace("PORT", str(api.endpoint.port))
    assert found.id == "7"


@pytest.mark.parametrize("body", [[{"slug": "acme", "type": "personal"}], {"organizations": [{"slug": "acme"}]}])
def test_the_only_organization_is_the_one(api_of, body) -> None:
    api = api_of(as_json(body), organization=None)
    assert api.slug == "acme"


def test_of_several_organizations_the_personal_one_is_taken(api_of) -> None:
    mine = [{"slug": "a", "type": "team"}, {"slug": "b", "type": "personal"}]
    assert api_of(as_json(mine), organization=None).slug == "b"
    with pytest.raises(errors.SessionError, match="no organization is named"):
        _ = api_of(as_json([{"slug": "a"}, {"slug": "b"}]), organization=None).slug


@pytest.mark.parametrize(
    ("status", "text"), [(409, "group already exists"), (400, "database with same name already exists"),
                         (422, "name not available")]
)  # fmt: skip
def test_a_name_that_is_taken(api_of, status, text) -> None:
    with pytest.raises(errors.AlreadyExists, match=text) as caught:
        api_of(as_json({"error": text}, status)).create_group("edge", "ams")
    assert caught.value.status == status
    assert caught.value.message == text


def test_a_service_with_the_five_endpoints_only(api_of) -> None:
    def five(call: Call) -> Answer:
        known = {("GET", "/v1/locations"), ("POST", "/v1/organizations/acme/groups")}
        return as_json({}) if (call.method, call.path) in known else as_json({"error": "no such endpoint"}, 404)

    api = api_of(five)
    assert api.create_group("edge", "ams").name == "edge"
    for what in (api.groups, api.databases):
        with pytest.raises(errors.UnsupportedError, match="has no list of"):
            what()


def test_a_web_page(api_of) -> None:
    page = Answer(body=b"<html><body>Welcome</body></html>", content_type="text/html")
    with pytest.raises(errors.ProtocolError, match="is not JSON"):
        api_of(page).locations()
    with pytest.raises(errors.NotFound, match="HTML page"):
        api_of(Answer(404, page.body, "text/html")).group("x")


def test_sent_requests(api_of) -> None:
    calls: list[Call] = []

    def record(call: Call) -> Answer:
        calls.append(call)
        return as_json({"jwt": "x.y.z"})

    api = api_of(record)
    api.create_group("edge", "ams")
    api.add_location("a b/c", "nrt")
    api.update_organization(overages=False)
    api.create_token("flights")
    assert [(call.method, call.path) for call in calls] == [
        ("POST", "/v1/organizations/acme/groups"),
        ("POST", "/v1/organizations/acme/groups/a%20b%2Fc/locations/nrt"),
        ("PATCH", "/v1/organizations/acme"),
        ("POST", "/v1/organizations/acme/databases/flights/auth/tokens?expiration=never"),
    ]
    assert calls[0].json == {"name": "edge", "location": "ams"}
    assert calls[0].headers["content-type"] == "application/json"
    assert calls[2].json == {"overages": False}
    assert all(call.headers["authorization"] == "Bearer a-secret-token" for call in calls)


def test_the_limits_of_a_new_platform_token(api_of) -> None:
    bodies: list[object] = []

    def record(call: Call) -> Answer:
        if call.method == "GET":
            return as_json({"tokens": [{"name": "old"}, {"name": "ci", "organization": "acme", "group": "edge"}]})
        bodies.append(call.json if call.body else None)
        return as_json({"token": "t"})

    api = api_of(record)
    api.create_api_token("ci")
    api.create_api_token("ci", group="edge", scopes=["db:delete", "read-only"])
    api.create_api_token("ci", unlimited=True)
    assert bodies == [
        {"organization": "acme"},
        {"organization": "acme", "group": "edge", "scopes": ["read", "db:delete"]},
        None,
    ]
    for options, words in (
        ({"group": "edge"}, "a token for a group requires scopes"),
        ({"scopes": ["read"]}, "scopes require a group"),
        ({"group": "edge", "scopes": ["raed"]}, "unknown scope 'raed'"),
        ({"group": "edge", "scopes": ["read"], "unlimited": True}, "a token without limits has no group or scopes"),
    ):
        with pytest.raises(errors.ParameterError, match=words):
            api.create_api_token("ci", **options)
    assert len(bodies) == 3


@pytest.mark.parametrize("options", [{}, {"group": "edge", "scopes": ["read"]}])
def test_a_token_of_a_service_that_ignores_limits_is_revoked(api_of, options) -> None:
    """Release 0.1.0 reads neither the organization nor the group, so that the token would have all rights."""
    requests: list[str] = []

    def answer(call: Call) -> Answer:
        requests.append(f"{call.method} {call.path}")
        return as_json({"tokens": [{"name": "ci"}]} if call.method == "GET" else {"token": "t"})

    with pytest.raises(errors.UnsupportedError, match="does not limit platform tokens, so the token ci was revoked"):
        api_of(answer).create_api_token("ci", **options)
    paths = ["POST /v1/auth/api-tokens/ci", "GET /v1/auth/api-tokens", "DELETE /v1/auth/api-tokens/ci"]
    assert requests == paths


def test_a_location_of_a_service_that_ignores_replication_only_is_resumed(api_of) -> None:
    """Release 0.1.0 pauses the location."""
    requests: list[str] = []

    def answer(call: Call) -> Answer:
        requests.append(f"{call.method} {call.path}")
        state = "paused" if call.path.partition("?")[0].endswith("/pause") else "ok"
        return as_json({"group": {"name": "edge", "status": {"locations": [{"name": "nrt", "status": state}]}}})

    with pytest.raises(errors.UnsupportedError, match="cannot pause the replication only, so the location nrt was"):
        api_of(answer).pause_location("edge", "nrt", replication_only=True)
    assert [request.rpartition("/")[2] for request in requests] == ["pause?replication_only=true", "resume"]
    assert api_of(answer).pause_location("edge", "nrt").status == {"nrt": "paused"}


def test_a_token_that_cannot_list_organizations_needs_the_name_of_its_own(api_of) -> None:
    refusal = as_json({"error": "group-scoped token cannot access org-level resources"}, 403)
    words = "no organization is named, and this token does not list organizations"
    with Management(api_of(refusal).url, "t") as api, pytest.raises(errors.SessionError, match=words) as caught:
        api.groups()
    assert "organization='slug'" in caught.value.hint


def test_a_database_that_refuses_limits_of_tokens(api_of) -> None:
    """As databases of the new engine do at the hosted service: turso-api-client-ts#30."""
    paths: list[str] = []

    def answer(call: Call) -> Answer:
        paths.append(call.path)
        if "authorization" in call.path:
            return as_json({"error": "Permissions are not supported for db-api controlled databases"}, 400)
        return as_json({"jwt": "x.y.z"})

    api = api_of(answer)
    assert api.create_token("flights", expiration="7d") == "x.y.z"
    assert api.create_group_token("edge") == "x.y.z"
    paths.clear()
    with pytest.raises(errors.ServerError, match="Permissions are not supported") as caught:
        api.create_token("flights", read_only=True)
    assert caught.value.hint == "this database accepts only tokens with full access; no token was created"
    assert paths == ["/v1/organizations/acme/databases/flights/auth/tokens?expiration=never&authorization=read-only"]


def test_the_address_may_end_in_v1(api_of) -> None:
    api = api_of(as_json({}))
    assert Management(api.url + "/v1/").url == api.url


def test_an_answer_without_a_token(api_of) -> None:
    with pytest.raises(errors.ProtocolError, match="no token"):
        api_of(as_json({})).create_token("flights")
    assert json.loads('{"jwt": 5}')["jwt"] == 5
    with pytest.raises(errors.ProtocolError, match="no token"):
        api_of(as_json({"jwt": 5})).create_token("flights")


# -- what only some services have


@pytest.mark.parametrize("body", [{"error": "no such endpoint"}, {"error": "404 page not found"}, {}])
def test_a_service_without_an_endpoint(api_of, body) -> None:
    with pytest.raises(errors.UnsupportedError, match="does not offer invalidating tokens"):
        api_of(as_json(body, 404)).invalidate_tokens("flights")


@pytest.mark.parametrize(
    "text", ["group not found", "organization not found", "member not found", "zz is not a member of local"]
)
def test_a_thing_that_is_not_there_is_not_taken_for_an_endpoint(api_of, text) -> None:
    with pytest.raises(errors.NotFound, match=text):
        api_of(as_json({"error": text}, 404)).pause_location("edge", "nrt")


def test_answers_of_the_published_api(api_of) -> None:
    made = {"name": "ci", "id": "x", "token": "secret-value"}
    assert api_of(as_json(made)).create_api_token("ci", unlimited=True) == "secret-value"
    assert api_of(as_json({"org": {"name": "Team", "slug": "team-1"}})).create_organization("Team").slug == "team-1"
    plans = [{"name": "free", "quotas": {"rowsRead": 10, "storage": 5, "x": None}}]
    assert api_of(as_json({"plans": plans})).plans()[0].quotas == {"rows_read": 10, "storage_bytes": 5}
    used = {"organization": {"uuid": "u", "usage": {"rows_read": 3, "bytes_synced": 1}, "databases": []}}
    assert api_of(as_json(used)).usage().figures == {"rows_read": 3, "bytes_synced": 1}
    group = {"group": {"name": "edge", "primary": "ams", "locations": ["ams", "nrt"],
                       "status": {"locations": [{"name": "nrt", "status": "down"}]}}}  # fmt: skip
    assert api_of(as_json(group)).group("edge").status == {"nrt": "down"}
    found = api_of(as_json({"instances": [
        {"name": "nrt", "type": "replica", "hostname": "nrt-x-acme.example.io"},
        {"name": "ams", "type": "primary", "hostname": "ams-x-acme.example.io", "status": "ok"},
    ]})).instances("x")  # fmt: skip
    assert [(instance.name, instance.url, instance.state) for instance in found] == [
        ("ams", "https://ams-x-acme.example.io", "ok"), ("nrt", "https://nrt-x-acme.example.io", ""),
    ]  # fmt: skip


def test_the_error_of_a_refused_login_has_the_reason_and_no_password(api_of) -> None:
    with pytest.raises(errors.AuthError) as caught:
        api_of(as_json({"error": "wrong username or password"}, 401)).login("ada", "hunter2-hunter2")
    assert caught.value.message == "wrong username or password"
    assert "hunter2" not in repr(caught.value)


# -- where documents disagree, both ways

FREE = {
    "rowsRead": 10,
    "rowsWritten": 5,
    "storage": 9,
    "databases": None,
    "bytesSynced": 3,
    "groups": 1,
    "locations": 3,
}
SNAKE = {"rows_read": 10, "rows_written": 5, "storage_bytes": 9, "bytes_synced": 3, "groups": 1, "locations": 3}
USED = {"rows_read": 3, "rows_written": 2, "storage_bytes": 8}


@pytest.mark.parametrize(
    "body",
    [
        [{"slug": "acme", "name": "Acme", "type": "team", "overages": True}],
        {"organizations": [{"slug": "acme", "name": "Acme", "type": "team", "overages": True}]},
    ],
)
def test_organizations_bare_or_wrapped(api_of, body) -> None:
    """The first is that of the OpenAPI document of the published API, the second that of its client and of ours."""
    assert api_of(as_json(body)).organizations() == [Organization("acme", "Acme", "team", True)]


def test_quotas_have_the_names_of_usage(api_of) -> None:
    (plan,) = api_of(as_json({"plans": [{"name": "starter", "quotas": FREE}]})).plans()
    assert plan.quotas == SNAKE


@pytest.mark.parametrize("sums", ["usage", "total"])  # of its client packages and of ours, of its OpenAPI document
@pytest.mark.parametrize("storage", ["storage_bytes", "storage"])  # since 2025, and before
def test_usage_of_the_published_api(api_of, sums, storage) -> None:
    figures = {storage if name == "storage_bytes" else name: value for name, value in USED.items()}
    databases = [{"uuid": "d", "instances": [], sums: figures}]
    used = api_of(as_json({"organization": {"uuid": "u", "usage": figures, "databases": databases}})).usage()
    assert (used.figures, used.databases) == (USED, {"d": USED})


def test_an_empty_list_may_be_null(api_of) -> None:
    assert api_of(as_json({"groups": None})).groups() == []


def test_a_response_without_the_list_is_no_empty_list(api_of) -> None:
    with pytest.raises(errors.ProtocolError, match="contains no list of databases"):
        api_of(as_json({"instances": []})).databases()


def test_usage_without_databases(api_of) -> None:
    used = api_of(as_json({"organization": {"usage": USED, "databases": None}})).usage()
    assert (used.figures, used.databases) == (USED, {})


@pytest.mark.parametrize(
    "answer",
    [
        as_json({"database": "flights"}), as_json({"database": {"Name": "flights"}}),
        as_json({"group": {"name": "edge"}}), as_json({}), Answer(), Answer(204),
    ],
)  # fmt: skip
def test_deleting_rotating_and_waiting_need_no_words(api_of, answer) -> None:
    api = api_of(answer)
    api.delete_database("flights")
    api.delete_group("edge")
    api.invalidate_tokens("flights")
    api.wait_for_location("edge", "nrt")


def test_a_new_database_needs_three_members_only(api_of) -> None:
    told = {"DbId": "9a7d", "Hostname": "inventory-acme.example.io", "Name": "inventory"}
    made = api_of(as_json({"database": told})).create_database("inventory", "edge")
    assert (made.name, made.group, made.id, made.created) == ("inventory", "edge", "9a7d", None)
    assert made.url == "https://inventory-acme.example.io"


@pytest.mark.parametrize(
    ("told", "created"),
    [
        ("2026-01-31T00:00:00Z", 1769817600.0), ("2026-01-31T01:00:00+01:00", 1769817600.0),
        ("yesterday", None), (None, None), (1769817600, None),
    ],
)  # fmt: skip
def test_when_a_database_was_made(api_of, told, created) -> None:
    api = api_of(as_json({"database": {"Name": "flights", "created_at": told}}))
    assert api.database("flights").created == created


@pytest.mark.parametrize(("told", "lag"), [(0.5, 0.5), (0, 0.0), (None, None), ("1", None), (True, None)])
def test_the_lag_of_an_instance(api_of, told, lag) -> None:
    one = {"name": "nrt", "type": "replica", "hostname": "nrt.example.io", "lag_seconds": told}
    assert api_of(as_json({"instances": [one]})).instances("flights")[0].lag == lag


@pytest.mark.parametrize(("answer", "code"), [(as_json({"server": "lhr", "client": "lhr"}), "lhr"), (as_json({}), "")])
def test_the_closest_location(api_of, answer, code) -> None:
    assert api_of(answer).closest() == code


def test_lists_that_come_in_pages(api_of) -> None:
    asked = []

    def reply(call):
        asked.append(call.path.partition("?")[2])
        if "cursor=b%26c" in call.path:
            return as_json({"databases": [{"Name": "two"}], "pagination": {"next": None}})
        return as_json({"databases": [{"Name": "one"}], "pagination": {"next": "b&c"}})

    assert [database.name for database in api_of(reply).databases("edge")] == ["one", "two"]
    assert asked == ["limit=1000&group=edge", "limit=1000&group=edge&cursor=b%26c"]


def test_a_page_that_leads_to_itself_is_not_read_for_ever(api_of) -> None:
    body = {"databases": [{"Name": "one"}], "pagination": {"next": "x"}}
    assert [database.name for database in api_of(as_json(body)).databases()] == ["one", "one"]


def test_members_of_another_type_count_as_missing(api_of) -> None:
    group = {"name": "edge", "primary": 5, "locations": ["ams", "nrt"], "uuid": [], "status": "ok"}
    assert api_of(as_json({"group": group})).group("edge") == Group("edge", "", ("ams", "nrt"))
    organization = {"slug": "acme", "name": None, "overages": "yes", "blocked_reads": 1}
    assert api_of(as_json({"organization": organization})).organization() == Organization("acme", "acme")
    database = {"Name": "flights", "regions": {}, "created_at": "soon", "group": 3}
    assert api_of(as_json({"database": database})).database("flights") == DatabaseInfo("flights")


@pytest.mark.parametrize(
    ("ask", "body", "what"),
    [
        (lambda m: m.groups(), {"groups": [{"primary": "ams"}]}, "a group without a name"),
        (lambda m: m.databases(), {"databases": [{}]}, "a database without a name"),
        (lambda m: m.organizations(), [{"name": "Acme"}], "an organization without a slug"),
    ],
)
def test_a_list_with_an_object_that_has_no_name(api_of, ask, body, what) -> None:
    with pytest.raises(errors.ProtocolError, match=what):
        ask(api_of(as_json(body)))


def test_every_list_may_come_in_pages(api_of) -> None:
    pages = {"": ({"groups": [{"name": "a"}], "pagination": {"next": "2"}}), "cursor=2": {"groups": [{"name": "b"}]}}
    api = api_of(lambda call: as_json(pages[call.path.partition("?")[2]]))
    assert [group.name for group in api.groups()] == ["a", "b"]
