"""Platform tokens that are limited to an organization, or to a group and scopes, at every operation of the API."""

from __future__ import annotations

import pytest
from account_calls import Person

from pipemagic.scopes import SCOPES
from pipemagic.service.api.operations import OPERATIONS

ACME = "/v1/organizations/acme"
NONE, ORGANIZATION, GROUP = "without limits", "of the organization", "of the group"

REQUIRED = {
    # Any token.
    "GET /v1/auth/validate": GROUP, "GET /v1/auth/api-tokens/validate": GROUP,
    "GET /v1/user": GROUP, "GET /v1/current-user": GROUP,
    # A group's token needs the scope.
    "GET /v1/locations": "read", "GET /v1/locations/{location}": "read", "GET /v2/locations": "read",
    "GET /v2/organizations/{org}/locations": "read",
    "GET {org}/groups": "read", "GET {org}/groups/{group}": "read", "GET {org}/groups/{group}/configuration": "read",
    "GET {org}/groups/{group}/locations/{location}/wait": "read",
    "GET {org}/databases": "read", "GET {org}/databases/{db}": "read", "GET {org}/databases/{db}/configuration": "read",
    "GET {org}/databases/{db}/instances": "read", "GET {org}/databases/{db}/instances/{instance}": "read",
    "GET {org}/databases/{db}/usage": "read", "GET {org}/databases/{db}/stats": "read",
    "GET {org}/databases/{db}/usage/queries": "read",
    "POST {org}/databases": "db:create",
    "DELETE {org}/databases/{db}": "db:delete",
    "PATCH {org}/databases/{db}/configuration": "db:configure", "POST {org}/databases/{db}/wakeup": "db:configure",
    "POST {org}/databases/{db}/update": "db:configure",
    "POST {org}/databases/{db}/auth/tokens": "db:mint-token", "POST {org}/databases/{db}/auth/codes": "db:mint-token",
    "POST {org}/databases/{db}/auth/rotate": "db:rotate-creds",
    "PATCH {org}/groups/{group}/configuration": "group:configure",
    "POST {org}/groups/{group}/unarchive": "group:configure",
    "POST {org}/groups/{group}/locations/{location}": "group:configure",
    "DELETE {org}/groups/{group}/locations/{location}": "group:configure",
    "POST {org}/groups/{group}/locations/{location}/pause": "group:configure",
    "POST {org}/groups/{group}/locations/{location}/resume": "group:configure",
    "POST {org}/groups/{group}/auth/tokens": "group:mint-token",
    "POST {org}/groups/{group}/auth/rotate": "group:rotate-creds",
    # No scope suffices.
    "POST {org}/groups": ORGANIZATION, "DELETE {org}/groups/{group}": ORGANIZATION,
    "GET {org}": ORGANIZATION, "PATCH {org}": ORGANIZATION, "DELETE {org}": ORGANIZATION,
    "GET {org}/members": ORGANIZATION, "GET {org}/members/{username}": ORGANIZATION,
    "POST {org}/members": ORGANIZATION, "POST {org}/members/{username}": ORGANIZATION,
    "PATCH {org}/members/{username}": ORGANIZATION, "DELETE {org}/members/{username}": ORGANIZATION,
    "GET {org}/usage": ORGANIZATION, "GET {org}/plans": ORGANIZATION, "GET {org}/subscription": ORGANIZATION,
    "GET {org}/invoices": ORGANIZATION, "GET {org}/audit-logs": ORGANIZATION,
    "GET /v2/organizations/{org}/invites": ORGANIZATION, "POST /v2/organizations/{org}/invites": ORGANIZATION,
    "DELETE /v2/organizations/{org}/invites/{email}": ORGANIZATION,
    "GET {org}/api-tokens": ORGANIZATION, "DELETE {org}/api-tokens/{token}": ORGANIZATION,
    "GET /v1/organizations": ORGANIZATION, "GET /v2/organizations": ORGANIZATION,
    "GET /v1/auth/api-tokens": ORGANIZATION, "GET /v2/auth/api-tokens": ORGANIZATION,
    "POST /v1/auth/api-tokens/{name}": ORGANIZATION, "POST /v2/auth/api-tokens/{name}": ORGANIZATION,
    "DELETE /v1/auth/api-tokens/{name}": ORGANIZATION, "DELETE /v2/auth/api-tokens/{name}": ORGANIZATION,
    # Of the account, or of the operator.
    "POST /v1/organizations": NONE, "POST /v1/auth/invalidate": NONE, "POST /v1/auth/password": NONE,
    "POST /v1/users": NONE, "GET /v1/quotas": NONE, "PATCH /v1/quotas": NONE, "GET /v1/quotas/{slug}": NONE,
    "PATCH /v1/quotas/{slug}": NONE, "DELETE /v1/quotas/{slug}": NONE,
}  # fmt: skip
"""What each operation requires: a new operation must be added here, and to `pipemagic.scopes` if a scope allows it."""

PARTS = {
    "group": "edge", "db": "flights", "location": "nrt", "username": "ada", "instance": "ams", "slug": "acme",
    "name": "ci", "token": "x", "email": "x",
}  # fmt: skip
BODY = {
    "name": "new", "location": "ams", "group": "edge", "overages": True, "username": "eve", "role": "viewer",
    "delete_protection": True, "block_reads": True, "password": "long enough",
}  # fmt: skip


def named(operation):
    return f"{operation.method} {operation.path}".replace("/v1/organizations/{org}", "{org}")


PRIVATE = {named(operation): operation for operation in OPERATIONS if not operation.public}


def limited(owner, name, **limits):
    """Return the owner with a new token."""
    return Person(owner.service, owner.name, owner.ok("POST", f"/v1/auth/api-tokens/{name}", limits)["token"])


@pytest.fixture
def pinned(ada):
    """Return a function that makes a token of the group edge with some scopes."""
    return lambda *scopes, name="pinned": limited(ada, name, organization="acme", group="edge", scopes=scopes)


@pytest.fixture
def other(ada):
    """A group beside edge, with a database."""
    ada.ok("POST", f"{ACME}/groups", {"name": "other", "location": "ams"})
    ada.ok("POST", f"{ACME}/databases", {"name": "ships", "group": "other"})


def test_every_operation_declares_what_it_requires():
    assert set(PRIVATE) == set(REQUIRED)
    assert set(SCOPES) == set(REQUIRED.values()) - {NONE, ORGANIZATION, GROUP}


def send(who, operation, org="acme", **parts):
    return who.call(operation.method, operation.path.format(org=org, **PARTS | parts), BODY)


def operations(needed):
    return [PRIVATE[name] for name, requirement in REQUIRED.items() if requirement == needed]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_group_s_token_needs_the_scope_of_an_operation(scope, ada, pinned):
    most, least = pinned(*(set(SCOPES) - {scope}), name="most"), pinned(scope, name="least")
    for operation in operations(scope):
        refusal = send(most, operation)
        assert (refusal[0], refusal[1]["error"]) == (
            403, f"the token does not have the scope {scope}, which this requires",
        ), named(operation)  # fmt: skip
    for operation in operations(scope):
        status, answer = send(least, operation)
        assert status in (200, 400, 404), (named(operation), answer)  # of the operation itself: nothing is at nrt yet


def test_a_group_s_token_with_all_scopes_reaches_neither_the_organization_nor_the_account(ada, pinned):
    every, words = pinned("full-access"), "the token is limited to the {}; this requires a token {}"
    for operation in operations(GROUP):
        assert send(every, operation)[0] == 200
    for operation in operations(ORGANIZATION):
        status, answer = send(every, operation)
        assert (status, answer["error"]) == (403, words.format("group edge", "of the organization")), named(operation)
    for operation in operations(NONE):
        status, answer = send(every, operation)
        assert status == 403, named(operation)
        if not operation.operator:
            assert answer["error"] == words.format("organization acme", "without limits")


def test_a_token_of_an_organization_reaches_no_other_and_not_the_account(ada, operator):
    bound, own = limited(ada, "bound", organization="acme"), limited(operator, "bound", organization="local")
    for name, operation in PRIVATE.items():
        if "{org}" in operation.path:
            status, answer = send(bound, operation, org="ada")
            assert (status, answer["error"]) == (
                403, "the token is limited to the organization acme; this requires the organization ada",
            ), name  # fmt: skip
        if REQUIRED[name] == NONE:
            assert send(bound, operation)[0] == 403, name
            assert send(own, operation, slug="local")[0] == 403, name
        else:
            assert send(bound, operation)[0] != 403, name


def test_other_groups_do_not_exist_for_a_group_s_token(ada, other, pinned):
    every, before = pinned("full-access"), ada.ok("GET", f"{ACME}/databases/ships/configuration")
    beside = [name for name in REQUIRED if "{db}" in name or ("{group}" in name and REQUIRED[name] in SCOPES)]
    assert len(beside) > 20
    for name in beside:
        refusal = send(every, PRIVATE[name], group="other", db="ships")
        nowhere = send(every, PRIVATE[name], group="nope", db="nope")
        assert refusal[0] == nowhere[0] == 404, name
        assert refusal[1]["error"].replace("ships", "nope") == nowhere[1]["error"], name
    assert ada.ok("GET", f"{ACME}/databases/ships/configuration") == before


def test_lists_have_only_the_group_of_the_token(ada, other, pinned):
    reader = pinned("read-only")
    assert [group["name"] for group in reader.ok("GET", f"{ACME}/groups")["groups"]] == ["edge"]
    assert [database["Name"] for database in reader.ok("GET", f"{ACME}/databases")["databases"]] == ["flights"]
    assert reader.ok("GET", f"{ACME}/databases", None, {"group": "other"})["databases"] == []
    assert [group["name"] for group in reader.ok("GET", "/v1/groups")["groups"]] == ["edge"]  # without the organization


def test_databases_are_created_in_the_group_of_the_token_only(ada, other, pinned, service):
    creator = pinned("db:create")
    ids = {name: service.catalog.group("acme", name).id for name in ("edge", "other")}
    assert creator.ok("POST", f"{ACME}/databases", {"name": "b", "group": "edge"})["database"]["Name"] == "b"
    assert creator.ok("POST", f"{ACME}/databases", {"name": "c", "group_id": ids["edge"]})["database"]["Name"] == "c"
    for where in ({"group": "other"}, {"group_id": ids["other"]}):
        assert creator.refused("POST", f"{ACME}/databases", {"name": "x", **where}) == (400, "group not found")
    copied = {"name": "d", "group": "edge", "seed": {"type": "database", "name": "flights"}}
    assert creator.status("POST", f"{ACME}/databases", copied) == 200
    stolen = {"name": "e", "group": "edge", "seed": {"type": "database", "name": "ships"}}
    status, text = creator.refused("POST", f"{ACME}/databases", stolen)
    assert (status, text) == (404, "could not find database with name ships: record not found")


def test_a_token_dies_with_its_group_and_a_new_group_of_that_name_is_another_one(ada, pinned):
    reader = pinned("full-access")
    assert reader.status("GET", f"{ACME}/groups/edge") == 200
    ada.ok("DELETE", f"{ACME}/groups/edge")
    assert reader.status("GET", f"{ACME}/groups/edge") == 401
    ada.ok("POST", f"{ACME}/groups", {"name": "edge", "location": "ams"})
    assert reader.status("GET", f"{ACME}/groups/edge") == 401
    assert "pinned" not in [token["name"] for token in ada.ok("GET", "/v1/auth/api-tokens")["tokens"]]


def test_a_token_dies_with_its_organization(ada):
    ada.ok("POST", "/v1/organizations", {"name": "Brief"})
    bound = limited(ada, "bound", organization="brief")
    assert [item["slug"] for item in bound.ok("GET", "/v1/organizations")["organizations"]] == ["brief"]
    ada.ok("DELETE", "/v1/organizations/brief")
    assert bound.status("GET", "/v1/auth/validate") == 401


def test_the_list_shows_the_limits_and_presets_are_expanded(ada, pinned):
    pinned("read-only", name="a-reader")
    pinned("full-access", "read", name="b-all")
    pinned("db:mint-token", "db:create", name="c-some")
    limited(ada, "d-org", organization="acme")
    limited(ada, "e-none")
    keys = ("organization", "group", "scopes")
    listed = {token["name"]: tuple(token.get(key) for key in keys)
              for token in ada.ok("GET", "/v1/auth/api-tokens")["tokens"]}  # fmt: skip
    assert listed["a-reader"] == ("acme", "edge", ["read"])
    assert listed["b-all"] == ("acme", "edge", list(SCOPES))
    assert listed["c-some"] == ("acme", "edge", ["db:create", "db:mint-token"])
    assert (listed["d-org"], listed["e-none"]) == (("acme", None, None), (None, None, None))
    of_organization = ada.ok("GET", f"{ACME}/api-tokens")["tokens"]
    assert [token["name"] for token in of_organization] == ["a-reader", "b-all", "c-some", "d-org"]
    assert of_organization[0]["owner"] == {"username": "ada", "email": ""}
    assert of_organization[0]["created_at"][:2] == "20"


def test_only_admins_see_and_revoke_the_tokens_of_others(ada, join, eve):
    mia, ann = join("mia", "member"), join("ann", "admin")
    limited(ada, "by-ada", organization="acme")
    limited(mia, "by-mia", organization="acme")
    unlimited = ada.ok("POST", "/v1/auth/api-tokens/free")["id"]
    ids = {token["name"]: token["id"] for token in ann.ok("GET", f"{ACME}/api-tokens")["tokens"]}
    assert set(ids) == {"by-ada", "by-mia"}
    (own,) = mia.ok("GET", f"{ACME}/api-tokens")["tokens"]
    assert (own["name"], "owner" in own) == ("by-mia", False)
    for who, token in [(mia, ids["by-ada"]), (ann, unlimited), (ann, "nope")]:
        assert who.refused("DELETE", f"{ACME}/api-tokens/{token}") == (404, "token not found")
    foreign = limited(eve, "by-eve", organization="eve")
    (theirs,) = eve.ok("GET", "/v1/organizations/eve/api-tokens")["tokens"]
    assert ann.refused("DELETE", f"{ACME}/api-tokens/{theirs['id']}") == (404, "token not found")
    assert foreign.status("GET", "/v1/auth/validate") == 200
    assert mia.ok("DELETE", f"{ACME}/api-tokens/{ids['by-mia']}") == {"token": ids["by-mia"]}
    assert ann.ok("DELETE", f"{ACME}/api-tokens/{ids['by-ada']}") == {"token": ids["by-ada"]}
    assert ada.ok("GET", f"{ACME}/api-tokens") == {"tokens": []}


def test_a_limited_token_creates_no_token_with_more_rights(ada, pinned):
    bound = limited(ada, "bound", organization="acme")
    path = "/v1/auth/api-tokens/more"
    for body in (None, {}, {"organization": "ada"}):
        assert bound.refused("POST", path, body) == (
            403, "the token is limited to the organization acme, so new ones must be, too",
        )  # fmt: skip
    bound.ok("POST", path, {"organization": "acme"})
    ada.ok("POST", "/v1/auth/api-tokens/free")
    own = bound.ok("GET", "/v1/auth/api-tokens")["tokens"]
    assert [(token["name"], token["organization"]) for token in own] == [("bound", "acme"), ("more", "acme")]
    assert bound.refused("DELETE", "/v1/auth/api-tokens/free") == (404, "token not found")
    assert pinned("full-access").status("POST", "/v1/auth/api-tokens/again", {"organization": "acme"}) == 403


def test_the_role_of_the_account_limits_its_tokens_too(ada, join):
    mia, vera = join("mia", "member"), join("vera", "viewer")
    body = {"organization": "acme", "group": "edge", "scopes": ["read"]}
    assert mia.refused("POST", "/v1/auth/api-tokens/x", body) == (
        403, "your role in acme is member; a token for a group requires the role admin",
    )  # fmt: skip
    viewing = limited(vera, "viewing", organization="acme")
    assert viewing.refused("POST", f"{ACME}/databases", {"name": "x", "group": "edge"}) == (
        403, "your role in acme is viewer; this requires the role member",
    )  # fmt: skip
    ada.ok("DELETE", f"{ACME}/members/vera")
    assert viewing.refused("GET", f"{ACME}/groups") == (404, "organization not found")


@pytest.mark.parametrize(("body", "status", "text"), [
    ({"group": "edge", "scopes": ["read"]}, 400, "a token with a group or scopes requires an organization"),
    ({"scopes": ["read"]}, 400, "a token with a group or scopes requires an organization"),
    ({"organization": "acme", "scopes": ["read"]}, 400, "scopes require a group"),
    ({"organization": "acme", "group": "edge"}, 400, "a token for a group requires scopes"),
    ({"organization": "acme", "group": "edge", "scopes": []}, 400, "a token for a group requires scopes"),
    ({"organization": "acme", "group": "edge", "scopes": ["write"]}, 400, "unknown scope 'write': the scopes are"),
    ({"organization": "acme", "group": "edge", "scopes": "read"}, 400, '"scopes" must be a list'),
    ({"organization": "acme", "group": "nope", "scopes": ["read"]}, 404, "group not found"),
    ({"organization": "eve"}, 404, "organization not found"),
    ({"organization": "nope"}, 404, "organization not found"),
])  # fmt: skip
def test_limits_that_are_refused(ada, eve, body, status, text):
    refusal = ada.refused("POST", "/v1/auth/api-tokens/x", body)
    assert refusal[0] == status
    assert refusal[1].startswith(text)
    assert "x" not in [token["name"] for token in ada.ok("GET", "/v1/auth/api-tokens")["tokens"]]


@pytest.mark.parametrize("path", [f"{ACME}/databases/flights/auth/tokens", f"{ACME}/groups/edge/auth/tokens"])
def test_permissions_that_change_the_meaning_of_a_database_token_are_refused(ada, path):
    for empty in (None, {}, {"read_attach": None}, {"read_attach": {"databases": []}}):
        assert ada.ok("POST", path, {"permissions": empty})["jwt"]
    refusal = ada.refused("POST", path, {"permissions": {"read_attach": {"databases": ["other"]}}})
    words = '"{}" is not supported by this service: a token has the rights that authorization names'
    assert refusal == (400, words.format("permissions"))
    rules = {"fine_grained_permissions": [{"t": ["a"], "a": ["data_read"]}]}
    assert ada.refused("POST", path, rules) == (400, words.format("fine_grained_permissions"))
