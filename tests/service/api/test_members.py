"""Organizations and their members, also against a model of the rules."""

from __future__ import annotations

import itertools

import pytest
from account_calls import person
from hypothesis import given, settings
from hypothesis import strategies as st
from service_calls import new_service

ACME = "/v1/organizations/acme"


def test_create_and_list_organizations(service, eve):
    made = eve.ok("POST", "/v1/organizations", {"name": "Data Club", "stripe_id": ""})
    assert made["org"] == made["organization"]
    assert {"name": "Data Club", "slug": "data-club", "type": "team", "overages": False}.items() <= made["org"].items()
    for version in ("v1", "v2"):
        listed = eve.ok("GET", f"/{version}/organizations")["organizations"]
        assert [(organization["slug"], organization["type"]) for organization in listed] == [
            ("eve", "personal"),
            ("data-club", "team"),
        ]
        assert all(organization["id"] for organization in listed)
    assert eve.refused("POST", "/v1/organizations", {"name": "data  club"}) == (
        409, "organization data-club already exists",
    )  # fmt: skip
    assert eve.refused("POST", "/v1/organizations", {"name": "www"}) == (
        422, "organization name not available: www is reserved",
    )  # fmt: skip
    assert eve.refused("POST", "/v1/organizations", {"name": "  !"})[0] == 400


def test_a_dry_run_creates_nothing(eve):
    eve.ok("POST", "/v1/organizations", {"name": "club"}, {"dry_run": "true"})
    assert eve.status("GET", "/v1/organizations/club") == 404
    eve.ok("POST", "/v1/organizations", {"name": "club"}, {"dry_run": "false"})
    assert eve.call("POST", "/v1/organizations", {"name": "club"}, {"dry_run": "true"})[0] == 409


def test_delete_an_organization(ada):
    assert ada.refused("DELETE", "/v1/organizations/ada") == (400, "a personal organization cannot be deleted")
    assert ada.refused("DELETE", ACME) == (
        400, "organization acme still has the group edge: delete its groups first",
    )  # fmt: skip
    ada.ok("DELETE", f"{ACME}/groups/edge")
    assert ada.ok("DELETE", ACME)["organization"]["slug"] == "acme"
    assert ada.status("GET", ACME) == 404
    ada.ok("POST", "/v1/organizations", {"name": "acme"})  # the name is free again


def test_the_number_of_organizations_of_an_account_is_limited(ada, eve):
    statuses = [eve.status("POST", "/v1/organizations", {"name": f"club {number}"}) for number in range(26)]
    assert statuses == [200] * 24 + [400] * 2  # with the personal one 25
    for number in range(24):  # owners of other organizations have no effect on the limit
        eve.ok("POST", f"/v1/organizations/club-{number}/members", {"username": "ada", "role": "owner"})
    assert eve.status("POST", "/v1/organizations", {"name": "one more"}) == 400
    assert ada.status("POST", "/v1/organizations", {"name": "of my own"}) == 200


def test_members_are_listed_added_changed_and_removed(ada, service):
    person(service, "bob")
    assert ada.ok("POST", f"{ACME}/members", {"username": "bob"}) == {"member": "bob", "role": "member"}
    assert ada.ok("PATCH", f"{ACME}/members/bob", {"role": "viewer"}) == {
        "member": {"username": "bob", "role": "viewer", "email": ""},
    }  # fmt: skip
    assert ada.ok("GET", f"{ACME}/members") == {"members": [
        {"username": "ada", "role": "owner", "email": ""}, {"username": "bob", "role": "viewer", "email": ""},
    ]}  # fmt: skip
    assert ada.ok("DELETE", f"{ACME}/members/bob") == {"member": "bob"}
    assert ada.ok("POST", f"{ACME}/members/bob") == {"member": "bob", "role": "member"}  # an SDK puts it in the path
    assert ada.refused("POST", f"{ACME}/members", {"username": "zoe"}) == (404, "user zoe not found")
    assert ada.refused("POST", f"{ACME}/members", {"username": "bob"}) == (409, "bob is already a member of acme")
    assert ada.refused("PATCH", f"{ACME}/members/bob", {"role": "king"})[0] == 400


def test_the_last_owner_cannot_be_removed(ada, join):
    join("bob", "owner")
    ada.ok("DELETE", f"{ACME}/members/ada")
    bob = person(ada.service, "bob")
    assert bob.refused("DELETE", f"{ACME}/members/bob") == (
        400, "bob is the only owner of acme: make another member owner first",
    )  # fmt: skip
    assert bob.refused("PATCH", f"{ACME}/members/bob", {"role": "admin"})[0] == 400
    assert ada.status("GET", ACME) == 404


def test_the_owner_of_a_personal_organization_cannot_be_removed(service, eve):
    person(service, "bob")
    eve.ok("POST", "/v1/organizations/eve/members", {"username": "bob", "role": "owner"})
    assert person(service, "bob").refused("DELETE", "/v1/organizations/eve/members/eve") == (
        400, "eve is the personal organization of eve, who stays its owner",
    )  # fmt: skip
    organizations = person(service, "bob").ok("GET", "/v1/organizations")["organizations"]
    assert [organization["slug"] for organization in organizations] == ["bob", "eve"]


NAMES = ("ada", "bob", "cleo")
ROLES = ("viewer", "member", "admin", "owner")
moves = st.tuples(
    st.sampled_from(["add", "set", "remove"]), st.sampled_from(["one", "two"]),
    st.sampled_from(NAMES), st.sampled_from((*NAMES, "nobody")), st.sampled_from(ROLES),
)  # fmt: skip


class Model:
    """An independent implementation of the rules of membership."""

    def __init__(self):
        self.ranks = {"one": {"ada": 3}, "two": {"bob": 3}}

    def move(self, kind, slug, actor, target, role):
        """Return the expected status, and change the model if it is 200."""
        ranks, rank = self.ranks[slug], ROLES.index(role)
        mine, theirs = ranks.get(actor), ranks.get(target)
        status = self._judge(kind, ranks, mine, theirs, rank, leaving=actor == target, known=target in NAMES)
        if status == 200 and kind == "remove":
            del ranks[target]
        elif status == 200:
            ranks[target] = rank
        return status

    def _judge(self, kind, ranks, mine, theirs, rank, *, leaving, known):
        if mine is None:
            return 404
        if mine < 2 and not (kind == "remove" and leaving):
            return 403
        if kind != "remove" and rank > mine:
            return 403
        if kind == "add":
            return 404 if not known else 200 if theirs is None else 409
        if theirs is None:
            return 404
        if theirs > mine:
            return 403
        last = theirs == 3 and list(ranks.values()).count(3) == 1
        return 400 if last and (kind == "remove" or rank < 3) else 200


@settings(max_examples=40)
@given(st.lists(moves, max_size=25))
def test_membership_agrees_with_the_model(tmp_path_factory, steps):
    with new_service(tmp_path_factory.mktemp("members")) as service:
        people = {name: person(service, name) for name in NAMES}
        people["ada"].ok("POST", "/v1/organizations", {"name": "one"})
        people["bob"].ok("POST", "/v1/organizations", {"name": "two"})
        model = Model()
        for kind, slug, actor, target, role in steps:
            members = f"/v1/organizations/{slug}/members"
            call = {
                "add": ("POST", members, {"username": target, "role": role}),
                "set": ("PATCH", f"{members}/{target}", {"role": role}),
                "remove": ("DELETE", f"{members}/{target}", None),
            }[kind]
            assert people[actor].status(*call) == model.move(kind, slug, actor, target, role)
        for slug, name in itertools.product(model.ranks, NAMES):
            listed = [
                organization["slug"] for organization in people[name].ok("GET", "/v1/organizations")["organizations"]
            ]
            assert (slug in listed) is (name in model.ranks[slug])
            assert people[name].status("GET", f"/v1/organizations/{slug}") == (200 if slug in listed else 404)


@pytest.mark.parametrize("path", ["/v1/organizations", ACME])
def test_head_has_the_status_of_get(ada, path):
    assert ada.status("HEAD", path) == 200
