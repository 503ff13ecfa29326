"""The audit logs of organizations, and invites."""

from __future__ import annotations

import pytest

from pipemagic.service.catalog import audit

ACME = "/v1/organizations/acme"
INVITES = "/v2/organizations/acme/invites"


def entries(person, path=ACME):
    """Return the code and the data of all entries, the oldest first."""
    logs = person.ok("GET", f"{path}/audit-logs", query={"page_size": "1000"})["audit_logs"]
    return [(entry["code"], entry["data"]) for entry in reversed(logs)]


def test_what_is_recorded(ada, service):
    before = len(entries(ada))
    flights, edge = f"{ACME}/databases/new", f"{ACME}/groups/edge"
    ada.ok("POST", f"{ACME}/databases", {"name": "new", "group": "edge"})
    ada.ok("PATCH", f"{flights}/configuration", {"delete_protection": True})
    assert ada.status("DELETE", flights) == 400  # nothing is changed, so nothing is recorded
    ada.ok("PATCH", f"{flights}/configuration", {"delete_protection": False, "block_reads": True})
    ada.ok("PATCH", f"{edge}/configuration", {"delete_protection": False})
    ada.ok("POST", f"{flights}/auth/tokens", {})
    ada.ok("POST", f"{edge}/auth/rotate")
    ada.ok("DELETE", flights)
    assert entries(ada)[before:] == [
        ("db-create", {"name": "new", "group": "edge"}),
        ("db-protect", {"delete_protection": True, "database": "new"}),
        ("db-unprotect", {"delete_protection": False, "block_reads": True, "database": "new"}),
        ("db-configure", {"delete_protection": False, "block_reads": True, "database": "new"}),
        ("group-unprotect", {"delete_protection": False, "group": "edge"}),
        ("db-token-create", {"database": "new"}),
        ("group-rotate-creds", {"group": "edge"}),
        ("db-delete", {"database": "new"}),
    ]


def test_an_entry(ada):
    ada.ok("PATCH", ACME, {"overages": True})
    [entry] = ada.ok("GET", f"{ACME}/audit-logs", query={"page_size": "1"})["audit_logs"]
    assert entry.pop("created_at").endswith("Z")
    assert entry == {"code": "org-set-overages", "message": "", "origin": "cli", "author": "ada",
                     "data": {"overages": True}}  # fmt: skip


def test_a_platform_token_is_in_the_log_of_the_personal_organization_without_its_value(ada):
    token = ada.ok("POST", "/v1/auth/api-tokens/laptop", {})["token"]
    assert entries(ada, "/v1/organizations/ada")[-1] == ("user-token-create", {"name": "laptop"})
    assert token not in str(entries(ada, "/v1/organizations/ada"))


def test_a_limited_token_is_in_the_log_of_its_organization(ada):
    ada.ok("POST", "/v1/auth/api-tokens/ci", {"organization": "acme", "group": "edge", "scopes": ["read"]})
    ada.ok("DELETE", "/v1/auth/api-tokens/ci")
    assert entries(ada)[-2:] == [
        ("user-token-create", {"name": "ci", "group": "edge"}), ("user-token-delete", {"name": "ci"}),
    ]  # fmt: skip


def test_only_admins_read_it(ada, join):
    """It has the names of the tokens of all members, which the list of tokens shows to admins only."""
    assert entries(join("ann", "admin"))
    for role in ("member", "viewer"):
        assert join(f"a-{role}", role).refused("GET", f"{ACME}/audit-logs") == (
            403, f"your role in acme is {role}; this requires the role admin",
        )  # fmt: skip


def test_a_new_organization_has_its_creation_and_a_dry_run_has_none(ada):
    before = entries(ada, "/v1/organizations/ada")
    assert ada.call("POST", "/v1/organizations", {"name": "Club"}, query={"dry_run": "true"})[0] == 200
    ada.ok("POST", "/v1/organizations", {"name": "Club"})
    assert entries(ada, "/v1/organizations/club") == [("org-create", {"name": "Club"})]
    assert entries(ada, "/v1/organizations/ada") == before


def test_pages(ada, monkeypatch):
    for name in ("b", "c", "d"):
        ada.ok("POST", f"{ACME}/databases", {"name": name, "group": "edge"})
    count = len(entries(ada))
    first = ada.ok("GET", f"{ACME}/audit-logs", query={"page": "1", "page_size": "2"})
    second = ada.ok("GET", f"{ACME}/audit-logs", query={"page": "2", "page_size": "2"})
    assert [entry["data"]["name"] for entry in first["audit_logs"]] == ["d", "c"]
    assert second["audit_logs"][0]["data"]["name"] == "b"
    assert first["pagination"] == {
        "page": 1, "page_size": 2, "total_pages": (count + 1) // 2, "total_rows": count}  # fmt: skip
    assert ada.call("GET", f"{ACME}/audit-logs", query={"page": "0"})[0] == 400


def test_old_entries_are_dropped(service, monkeypatch):
    monkeypatch.setattr(audit, "KEPT", 100)
    for number in range(150):
        service.catalog.audit.add("local", "db-create", "local", "cli", {"number": number})
    records, count = service.catalog.audit.page("local", 1, 1000)
    assert count == 100
    assert records[0].data == '{"number":149}'


def test_an_invited_account_is_a_member_at_once(ada, eve):
    answer = ada.ok("POST", INVITES, {"username": "eve", "role": "viewer"})
    assert answer == {"invited": {"email": "", "username": "eve", "role": "viewer", "organization": "acme"}}
    assert ada.ok("GET", f"{ACME}/members/eve")["member"]["role"] == "viewer"
    assert ada.ok("GET", INVITES) == {"invites": []}
    assert entries(ada)[-1] == ("org-member-add", {"username": "eve", "role": "viewer"})
    assert eve.status("POST", INVITES, {"username": "ada"}) == 403
    eve.ok("DELETE", f"{ACME}/members/eve")
    assert entries(ada)[-1] == ("org-member-leave", {"username": "eve"})
    assert ada.refused("DELETE", f"{INVITES}/eve@example.com") == (404, "invite not found")


@pytest.mark.parametrize("body", [{"email": "eve@example.com"}, {}, {"email": "x", "username": "eve"}])
def test_an_invitation_by_mail_is_refused(ada, eve, body):
    assert ada.refused("POST", INVITES, body) == (
        400, "this service sends no e-mail: invite an account by its username",
    )  # fmt: skip
