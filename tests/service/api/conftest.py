"""A service with a team: ada is its owner, eve is not a member."""

from __future__ import annotations

import pytest
from account_calls import person

ACME = "/v1/organizations/acme"


@pytest.fixture
def operator(service):
    return person(service, "local")


@pytest.fixture
def ada(service):
    ada = person(service, "ada")
    ada.ok("POST", "/v1/organizations", {"name": "Acme"})
    ada.ok("POST", f"{ACME}/groups", {"name": "edge", "location": "ams"})
    ada.ok("POST", f"{ACME}/databases", {"name": "flights", "group": "edge"})
    return ada


@pytest.fixture
def eve(service):
    return person(service, "eve")


@pytest.fixture
def join(service, ada):
    """Return a function that adds an account to acme."""

    def join(name, role):
        one = person(service, name)
        ada.ok("POST", f"{ACME}/members", {"username": name, "role": role})
        return one

    return join
