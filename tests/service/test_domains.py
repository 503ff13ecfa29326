"""Addresses of databases and their instances, in the form that the client of the request can use."""

from __future__ import annotations

import json
from functools import partial

import pytest
from asgi_calls import call
from service_calls import Clock, execute
from starlette.requests import Request

from pipemagic.service.embedded import EmbeddedEngine
from pipemagic.service.hosting import origin_of
from pipemagic.service.service import Service

DOMAIN = "hub.example.test"


@pytest.fixture
def service(tmp_path):
    """A service with a domain, near Frankfurt, and a database with its primary in Amsterdam and a replica there."""
    service = Service(tmp_path / "data", partial(EmbeddedEngine, here="fra"), clock=Clock(), domain=DOMAIN)
    service.start()
    service.catalog.create_group("local", "default", "ams")
    service.catalog.create_database("local", "db", "default")
    yield service
    service.close()


def ask(service, method, host, path, body=None, *, token, scheme="http"):
    headers = {"host": host, "authorization": f"Bearer {token}"}
    data = b"" if body is None else json.dumps(body).encode()
    response = call(service, method, path, headers=headers, body=data, scheme=scheme)
    return json.loads(response.read())


@pytest.fixture
def platform(service, tmp_path):
    return (tmp_path / "data" / "platform-token").read_text().strip()


@pytest.fixture
def replicated(service, platform):
    """Add the location and wait for its replica; return a token for the database."""
    group = "/v1/organizations/local/groups/default"
    ask(service, "POST", "localhost", f"{group}/locations/fra", token=platform)
    ask(service, "GET", "localhost", f"{group}/locations/fra/wait", token=platform)
    record = service.catalog.database("local", "db")
    return service.tokens.issue_database(record, read_only=False, expires_in=None, subject="ada")


@pytest.mark.parametrize(("host", "domain"), [
    (DOMAIN, DOMAIN), (f"{DOMAIN}:8443", DOMAIN), ("localhost:8080", "localhost"), ("127.0.0.1:8080", "localhost"),
])  # fmt: skip
def test_host_names_of_the_api_depend_on_the_address_of_the_request(service, platform, replicated, host, domain):
    path = "/v1/organizations/local/databases/db"
    assert ask(service, "GET", host, path, token=platform)["database"]["Hostname"] == f"db-local.{domain}"
    instances = ask(service, "GET", host, f"{path}/instances", token=platform)["instances"]
    assert [instance["hostname"] for instance in instances] == [f"ams-db-local.{domain}", f"fra-db-local.{domain}"]


@pytest.mark.parametrize(("host", "scheme", "base_url"), [
    (f"db-local.{DOMAIN}", "https", f"https://fra-db-local.{DOMAIN}"),
    (f"db-local.{DOMAIN}:8443", "https", f"https://fra-db-local.{DOMAIN}:8443"),
    ("db-local.localhost:8080", "http", "http://fra-db-local.localhost:8080"),
    (DOMAIN, "https", None),
    ("127.0.0.1:8080", "http", None),
])  # fmt: skip
def test_the_address_of_the_instance_depends_on_the_address_of_the_request(service, replicated, host, scheme, base_url):
    body = {"requests": [execute("SELECT 1")]}
    answer = ask(service, "POST", host, "/v3/pipeline", body, token=replicated, scheme=scheme)
    assert answer["base_url"] == base_url


@pytest.mark.parametrize("domain", [DOMAIN, "localhost"])
def test_an_instance_responds_at_its_own_name_below_both_domains(service, replicated, domain):
    body = {"requests": [execute("SELECT 1")]}
    for code in ("ams", "fra"):
        answer = ask(service, "POST", f"{code}-db-local.{domain}", "/v3/pipeline", body, token=replicated)
        assert (answer["base_url"], answer["results"][0]["type"]) == (None, "ok")


@pytest.mark.parametrize(("host", "proto", "url"), [
    (DOMAIN, "https,http", f"https://{DOMAIN}/services/sql"),
    (f"{DOMAIN}:8000", "http", f"http://{DOMAIN}:8000/services/sql"),
    ("127.0.0.1:8000", "http", "http://127.0.0.1:8000/services/sql"),
])  # fmt: skip
def test_below_the_path_of_a_proxy_all_addresses_are_those_of_the_service(
    service, platform, replicated, host, proto, url
):
    def through_proxy(method, path, body=None, token=platform):
        headers = {"host": host, "authorization": f"Bearer {token}", "x-forwarded-proto": proto}
        data = b"" if body is None else json.dumps(body).encode()
        response = call(service, method, f"/services/sql{path}", headers=headers, body=data, base_path="/services/sql")
        return json.loads(response.read())

    path = "/v1/organizations/local/databases/db"
    found = [through_proxy("GET", path)["database"], *through_proxy("GET", f"{path}/instances")["instances"]]
    name = host.partition(":")[0]
    assert {(instance["hostname"], instance["url"]) for instance in found} == {(name, url)}
    created = through_proxy("POST", path.removesuffix("/db"), {"name": "new", "group": "default"})["database"]
    assert (created["Hostname"], created["url"]) == (name, url)
    answer = through_proxy("POST", "/v3/pipeline", {"requests": [execute("SELECT 1")]}, replicated)
    assert (answer["base_url"], answer["results"][0]["type"]) == (None, "ok")


@pytest.mark.parametrize(("path", "status"), [
    ("/version", 200), ("/services/sql/version", 200), ("/services/sql/health", 200), ("/services/sqlversion", 404),
    ("/services/version", 404), ("/services/sql", 404), ("/services/sql/", 404),
])  # fmt: skip
def test_only_the_whole_path_of_a_proxy_is_removed(service, path, status):
    assert call(service, "GET", path, headers={"host": DOMAIN}, base_path="/services/sql").status == status


@pytest.mark.parametrize(("header", "scheme"), [
    (b"https", "https"), (b"HTTPS", "https"), (b"http", "http"), (b"javascript", "http"), (b"", "http"),
    (b"https,http", "https"), (b"https, http", "https"), (b"http,https", "http"),
])  # fmt: skip
def test_a_proxy_that_terminates_tls_is_recognized(header, scheme):
    headers = [(b"host", b"db-local.localhost:8080"), (b"x-forwarded-proto", header)]
    request = Request({"type": "http", "scheme": "http", "headers": headers})
    assert origin_of(request, "fra-db-local.localhost") == f"{scheme}://fra-db-local.localhost:8080"
