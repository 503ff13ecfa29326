"""Access to every operation with the tokens of strangers and of members in each role."""

from __future__ import annotations

import pytest

from pipemagic.service.api.operations import OPERATIONS
from pipemagic.service.catalog.organizations import Role

PARTS = {
    "group": "edge", "db": "flights", "location": "nrt", "username": "ada", "instance": "ams", "token": "x",
    "email": "x",
}  # fmt: skip
BODY = {
    "name": "new", "location": "ams", "group": "edge", "overages": True, "username": "eve", "role": "viewer",
    "delete_protection": True, "block_reads": True,
}  # fmt: skip
IN_ORGANIZATIONS = [operation for operation in OPERATIONS if "{org}" in operation.path]


def named(operation):
    return f"{operation.method} {operation.path}"


def path_of(operation, slug):
    return operation.path.format(org=slug, **PARTS)


@pytest.mark.parametrize("operation", IN_ORGANIZATIONS, ids=named)
def test_an_account_that_is_not_a_member_gets_404_and_changes_nothing(operation, ada, eve):
    before = everything(ada)
    refusal = eve.call(operation.method, path_of(operation, "acme"), BODY)
    assert refusal[0] == 404
    assert refusal[1]["error"] == "organization not found"
    assert eve.call(operation.method, path_of(operation, "nope"), BODY) == refusal
    assert everything(ada) == before


@pytest.mark.parametrize("operation", IN_ORGANIZATIONS, ids=named)
def test_a_viewer_reads_and_changes_nothing(operation, ada, join):
    vera = join("vera", "viewer")
    before = everything(ada)
    status, answer = vera.call(operation.method, path_of(operation, "acme"), BODY)
    if operation.needs is Role.VIEWER:
        assert status in ((200, 400, 404) if operation.method == "GET" else (403, 404))  # nothing is at nrt yet
    else:
        assert (status, answer["error"]) == (
            403, f"your role in acme is viewer; this requires the role {operation.needs.label}",
        )  # fmt: skip
    assert everything(ada) == before


@pytest.mark.parametrize("operation", [operation for operation in OPERATIONS if not operation.public], ids=named)
def test_an_invalid_token_is_refused(operation, service, ada):
    ada.token = "pmp_nonsense"
    status, text = ada.refused(
        operation.method, operation.path.format(org="acme", slug="acme", name="x", **PARTS), BODY
    )
    assert (status, text) == (401, "Unauthorized: `The platform token is invalid`")


@pytest.mark.parametrize("role", ["member", "admin"])
def test_actions_that_require_an_owner(role, ada, join):
    max_ = join("max", role)
    assert max_.status("DELETE", "/v1/organizations/acme") == 403
    assert max_.status("PATCH", "/v1/organizations/acme/members/ada", {"role": "viewer"}) == 403
    assert max_.status("POST", "/v1/organizations/acme/members", {"username": "local", "role": "owner"}) == 403


def test_members_create_databases_and_admins_change_settings(ada, join):
    mia, ann = join("mia", "member"), join("ann", "admin")
    mia.ok("POST", "/v1/organizations/acme/databases", {"name": "by-mia", "group": "edge"})
    assert mia.refused("PATCH", "/v1/organizations/acme", {"overages": True}) == (
        403, "your role in acme is member; this requires the role admin",
    )  # fmt: skip
    assert ann.ok("PATCH", "/v1/organizations/acme", {"overages": True})["organization"]["overages"] is True


def test_only_the_operator_reads_quotas_and_creates_accounts(ada, operator):
    for method, path in [("GET", "/v1/quotas"), ("PATCH", "/v1/quotas/acme"), ("DELETE", "/v1/quotas/acme")]:
        assert ada.refused(method, path, {}) == (403, "only the operator of this service may read and change quotas")
        assert operator.status(method, path, {}) == 200
    assert ada.status("POST", "/v1/users", {"username": "x", "password": "long enough"}) == 403
    assert ada.status("POST", "/v1/auth/password", {"username": "local", "password": "long enough"}) == 403


def test_a_path_without_an_organization_is_in_the_personal_one(eve):
    eve.ok("POST", "/v1/groups", {"name": "mine", "location": "ams"})
    assert [group["name"] for group in eve.ok("GET", "/v1/organizations/eve/groups")["groups"]] == ["mine"]
    assert eve.ok("GET", "/v1/plans")["plans"][0]["quotas"]["rowsRead"] == 0
    assert eve.refused("GET", "/v1/nonsense") == (404, "there is no /v1/nonsense in the management API")
    assert eve.status("PUT", "/v1/groups") == 405


def everything(ada):
    """Return all that a change could affect."""
    paths = ("", "/groups", "/databases", "/members", "/databases/flights/configuration", "/groups/edge/configuration")
    return [ada.ok("GET", f"/v1/organizations/acme{path}") for path in paths] + [ada.service.catalog.rotations]
