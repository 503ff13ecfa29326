from dataclasses import replace

import pytest

import pipemagic
from pipemagic.client.address import Endpoint, check_base_url, parse_address, parse_api_address
from pipemagic.errors import AddressError


@pytest.mark.parametrize(
    ("target", "url", "host"),
    [
        ("libsql://flights-acme.example.io", "https://flights-acme.example.io", None),
        ("https://flights-acme.example.io/", "https://flights-acme.example.io", None),
        ("HTTPS://Flights-Acme.Example.io", "https://flights-acme.example.io", None),
        ("wss://db.example.io", "https://db.example.io", None),
        ("ws://db.example.io:8080", "http://db.example.io:8080", None),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", None),
        ("http://[::1]:8080/", "http://[::1]:8080", None),
        ("http://flights-local.localhost:8080", "http://127.0.0.1:8080", "flights-local.localhost:8080"),
        ("libsql://flights-local.localhost:8080", "http://127.0.0.1:8080", "flights-local.localhost:8080"),
        ("libsql://127.0.0.1:8080", "http://127.0.0.1:8080", None),
        ("libsql://127.0.0.1:8080?tls=1", "https://127.0.0.1:8080", None),
        ("libsql://db.example.io:8080?tls=0", "http://db.example.io:8080", None),
        ("https://db.example.io:443", "https://db.example.io", None),
        ("https://example.io/dev/flights", "https://example.io/dev/flights", None),
        ("  http://localhost:1  ", "http://127.0.0.1:1", "localhost:1"),
        ("http://LocalHost.:8080/v1/", "http://127.0.0.1:8080/v1", "localhost:8080"),
        ("http://localhost", "http://127.0.0.1", "localhost"),
        ("https://localhost:443", "https://127.0.0.1", "localhost"),
        ("libsql://localhost:8080", "http://127.0.0.1:8080", "localhost:8080"),
        ("ws://localhost:8080", "http://127.0.0.1:8080", "localhost:8080"),
        ("wss://localhost", "https://127.0.0.1", "localhost"),
        ("turso://flights-acme.example.io", "https://flights-acme.example.io", None),
        ("turso://127.0.0.1:8080", "http://127.0.0.1:8080", None),
        ("turso://db.example.io:8080?tls=0", "http://db.example.io:8080", None),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", None),
        ("[::1]:8080", "http://[::1]:8080", None),
        ("localhost:8080", "http://127.0.0.1:8080", "localhost:8080"),
        ("flights-local.localhost:8080/", "http://127.0.0.1:8080", "flights-local.localhost:8080"),
        ("localhost:8080?tls=1", "https://127.0.0.1:8080", "localhost:8080"),
        ("db.example.io:8080/x?tls=0", "http://db.example.io:8080/x", None),
        ("localhost:8080/v1", "http://127.0.0.1:8080/v1", "localhost:8080"),
        ("db.example.io:8080", "https://db.example.io:8080", None),  # a token is not sent without TLS
        ("labserver:8080", "https://labserver:8080", None),
        ('"http://127.0.0.1:8080"', "http://127.0.0.1:8080", None),
        ("'libsql://db.example.io'\n", "https://db.example.io", None),
        ("“127.0.0.1:8080”", "http://127.0.0.1:8080", None),
    ],
)
def test_addresses(target: str, url: str, host: str | None) -> None:
    assert parse_address(target) == Endpoint(url, host)


@pytest.mark.parametrize(
    "target",
    [
        "libsql://db.example.io?authToken=s3cret",
        "https://db.example.io/?auth_token=s3cret",
        "https://db.example.io/?jwt=s3cret&tls=1",
        "https://user:s3cret@db.example.io",
        "https://s3cret@db.example.io",
    ],
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(target: str) -> None:
    with pytest.raises(AddressError, match="contains a token or a password") as caught:
        parse_address(target)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "target",
    [
        "", "flights", "file:flights.db", "postgres://db", "http://", "https://:8080", "http://host:port", "http://h:0",
        "http://h:70000", "http://a b", "http://h/#x", "http://h/?x=1", "http://h?tls=2", "http://h\\@evil", "http://[::1",
        "http://exa$mple", "http://h\n",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(target: str) -> None:
    if target == "http://h\n":
        assert parse_address(target).url == "http://h"
        return
    with pytest.raises(AddressError):
        parse_address(target)


@pytest.mark.parametrize(
    ("target", "message", "hint"),
    [
        ("flights-acme.turso.io", "has no scheme", "write libsql://flights-acme.turso.io"),
        ("Flights.example.io/dev/flights", "has no scheme", "write libsql://Flights.example.io/dev/flights"),
        ("10.0.0.7", "has no scheme", "write libsql://10.0.0.7"),
        ("127.0.0.1", "has no scheme", "write http://127.0.0.1"),
        ("[::1]", "has no scheme", "write http://[::1]"),
        ("main.localhost", "has no scheme", "write http://main.localhost"),
        ('"http://h', "begins with a quotation mark", "remove it"),
        ("http://h'", "ends with a quotation mark", "remove it"),
        ("shop.db", "shop.db names a file", "--from-file shop.db"),
        (
            "file:my shop.db",
            "my shop.db names a file",
            "pipemagic db create my-shop --from-file 'my shop.db'",
        ),
        ("dump.sql", "dump.sql names a file", "pipemagic db create dump --from-dump dump.sql"),
        ("rows.csv", "rows.csv names a file", "in a notebook, %pipedb load"),
        ("sqlite:///my/shop.db", "my/shop.db names a file", "pipemagic db create shop --from-file my/shop.db"),
        ("sqlite:////srv/shop.db", "/srv/shop.db names a file", "--from-file /srv/shop.db"),
        ("sqlite://", "':memory:' is not a database on a server", "pipemagic db create NAME"),
        (":memory:", "':memory:' is not a database on a server", "pipemagic db create NAME creates one"),
        ("file::memory:?cache=shared", "':memory:' is not a database on a server", "pipemagic db create NAME"),
        ("libsql:flights-acme.turso.io", "has no // after libsql:", "write libsql://flights-acme.turso.io"),
        ("HTTPS:/h.example.io/x", "has no // after HTTPS:", "write HTTPS://h.example.io/x"),
        ("http:[::1]:8080", "has no // after http:", "write http://[::1]:8080"),
        ("localhost:99999?tls=0", "not a number from 1 to 65535", ""),
    ],
)
def test_what_to_write_for_an_incomplete_address(target: str, message: str, hint: str) -> None:
    with pytest.raises(AddressError, match=message) as caught:
        parse_address(target)
    assert hint in caught.value.hint
    with pytest.raises(AddressError, match=message):
        pipemagic.connect(target)
    with pytest.raises(AddressError, match=message):
        pipemagic.management(target)


@pytest.mark.parametrize(
    "target",
    [
        "h.example.io?authToken=s3cret",
        "h.example.io:80/x?jwt=s3cret",
        "shop.db?token=s3cret",
        "localhost:8080?authToken=s3cret",
        "libsql:h.example.io?authToken=s3cret",
    ],
)
def test_a_secret_in_an_incomplete_address_is_not_repeated(target: str) -> None:
    with pytest.raises(AddressError, match="contains a token or a password") as caught:
        parse_address(target)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["https://api.example.io/v1/", '"https://api.example.io/v1"', "https://api.example.io"])
def test_the_address_of_a_management_api(url: str) -> None:
    assert parse_api_address(url) == Endpoint("https://api.example.io")


def test_the_hint_for_the_host_of_a_management_api() -> None:
    with pytest.raises(AddressError, match=r"write https://api\.example\.io"):
        parse_api_address("api.example.io")


@pytest.mark.parametrize(
    ("named", "base_url"),
    [
        ("https://flights-acme.example.io", "https://flights-acme.example.io"),
        ("https://flights-acme.example.io", "https://FLIGHTS-acme.example.io:443/"),
        ("https://flights-acme.example.io", "https://ams-flights-acme.example.io"),
        ("https://flights-acme.example.io:8443", "https://ams-flights-acme.example.io:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://localhost:8080", "http://127.0.0.1:8080"),
        ("http://127.0.0.1:8080", "http://localhost:8080"),
        ("http://localhost:8080", "http://ams-db.localhost:8080"),
        ("http://flights-local.localhost:8080", "http://flights-local.localhost:8080"),
        ("http://flights-local.localhost:8080", "http://ams-flights-local.localhost:8080"),
        ("http://flights-local.localhost:8080", "http://127.0.0.1:8080"),
    ],
)
def test_a_base_url_that_is_followed(named: str, base_url: str) -> None:
    assert check_base_url(parse_address(named), base_url) == parse_address(base_url)


@pytest.mark.parametrize(
    ("named", "base_url"),
    [
        ("https://flights-acme.example.io", "https://evil.example.io"),
        ("https://flights-acme.example.io", "https://evilflights-acme.example.io"),
        ("https://flights-acme.example.io", "https://flights-acme.example.io.evil.io"),
        ("https://flights-acme.example.io", "http://flights-acme.example.io"),
        ("https://flights-acme.example.io", "https://flights-acme.example.io:8443"),
        ("https://flights-acme.example.io", "libsql://flights-acme.example.io"),
        ("https://flights-acme.example.io", "https://user@flights-acme.example.io"),
        ("https://flights-acme.example.io", "/v2"),
        ("https://flights-acme.example.io", "garbage"),
        ("https://flights-acme.example.io", '"https://flights-acme.example.io"'),
        ("https://flights-acme.example.io:8080", "flights-acme.example.io:8080"),
        ("https://flights-acme.example.io", "turso://flights-acme.example.io"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8081"),
        ("http://127.0.0.1:8080", "http://127.0.0.2:8080"),
        ("http://127.0.0.1:8080", "http://[::1]:8080"),
        ("http://localhost:8080", "http://[::1]:8080"),
        ("http://[::1]:8080", "http://localhost:8080"),
        ("http://127.0.0.1:8080", "http://evil-127.0.0.1:8080"),
        ("http://10.0.0.1:8080", "http://10.0.0.2:8080"),
    ],
)
def test_a_base_url_that_is_refused(named: str, base_url: str) -> None:
    with pytest.raises(AddressError, match="the token was not sent there"):
        check_base_url(parse_address(named), base_url)


def test_names_for_people() -> None:
    endpoint = parse_address("http://flights-local.localhost:8080")
    assert endpoint.address == "http://flights-local.localhost:8080"
    assert endpoint.named_host == "flights-local.localhost"
    assert endpoint.loopback
    endpoint = parse_address("http://localhost:8080/v1")
    assert (endpoint.address, endpoint.named_host) == ("http://localhost:8080/v1", "localhost")
    assert endpoint.loopback
    assert not parse_address("https://localhost.example.io").loopback


@pytest.mark.parametrize(
    ("address", "challenged"),
    [
        ("http://db-local.localhost:8080", True), ("http://localhost:8080", True), ("libsql://127.0.0.1:8080", True),
        ("http://db-local.localhost:8081", False), ("https://127.0.0.1:8080", False), ("http://[::1]:8080", False),
        ("http://db.example.io:8080", False),
    ],
)  # fmt: skip
def test_an_address_that_a_server_names_has_its_challenge_at_its_own_port_only(address: str, challenged: bool) -> None:
    challenge = lambda: ("/proof", b"proof")  # noqa: E731
    service = replace(parse_address("http://127.0.0.1:8080"), challenge=challenge)
    assert service.refer(address) == parse_address(address)
    assert service.refer(address).challenge is (challenge if challenged else None)
