"""Addresses, paths, methods and statuses (database-api sections 1 and 2)."""

import json

import pytest
from contract_wire import CLOSE, execute

pytestmark = pytest.mark.every_server

BODY = json.dumps({"requests": [execute("SELECT 1"), CLOSE]}).encode()


@pytest.mark.parametrize("path", ["/version", "/v2", "/v3"])
def test_a_version_is_one_line_and_needs_no_token(empty, path):
    answer = empty.send("GET", path)
    assert answer.status == 200
    assert answer.http.text.strip()
    assert len(answer.http.text.splitlines()) == 1


def test_health_has_an_empty_body_and_needs_no_token(empty):
    answer = empty.send("GET", "/health")
    assert (answer.status, answer.http.content) == (200, b"")


@pytest.mark.parametrize("path", ["/version", "/health", "/v2", "/v3"])
def test_head_works_where_get_does(empty, path):
    answer = empty.send("HEAD", path)
    assert (answer.status, answer.http.content) == (200, b"")
    length = len(empty.send("GET", path).http.content)
    assert answer.http.headers.get("content-length", str(length)) == str(length)


def test_protobuf_is_not_supported(empty):
    assert empty.send("GET", "/v3-protobuf").status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/pipeline/"), ("POST", "/v4/pipeline"), ("POST", "/v1/pipeline"), ("POST", "/pipeline"),
        ("POST", "/v2/cursor"), ("GET", "/v2/"), ("GET", "/v4"), ("GET", "/nope"), ("POST", "/V2/pipeline"),
        ("GET", "/version/"),
    ],
)  # fmt: skip
def test_an_unknown_path_is_404_with_an_empty_body(empty, method, path):
    answer = empty.send(method, path, headers=empty.headers(), content=BODY if method == "POST" else None)
    assert (answer.status, answer.http.content) == (404, b"")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v2/pipeline", "POST"), ("PUT", "/v3/pipeline", "POST"), ("DELETE", "/v2/pipeline", "POST"),
        ("POST", "/version", "GET,HEAD"), ("POST", "/health", "GET,HEAD"), ("POST", "/v2", "GET,HEAD"),
    ],
)  # fmt: skip
def test_a_wrong_method_is_405_and_names_the_right_ones(empty, method, path, allow):
    answer = empty.send(method, path, headers=empty.headers())
    assert (answer.status, answer.http.content) == (405, b"")
    assert sorted(answer.http.headers["allow"].replace(" ", "").split(",")) == sorted(allow.split(","))


@pytest.mark.parametrize(("version", "content_type"), [(2, None), (3, "text/plain;charset=UTF-8")])
def test_the_content_type_of_a_request_is_ignored(empty, version, content_type):
    more = {"content-type": content_type} if content_type else {}
    answer = empty.send("POST", f"/v{version}/pipeline", headers=empty.headers(**more), content=BODY)
    assert answer.codes == ["ok", "ok"]


def test_the_content_type_of_a_response_is_application_json(empty):
    assert empty.send_body(BODY).http.headers["content-type"] == "application/json"


def test_a_body_may_be_sent_in_chunks(empty):
    answer = empty.send("POST", "/v2/pipeline", headers=empty.headers(), content=iter([BODY[:9], BODY[9:]]))
    assert answer.rows() == [[1]]


def test_header_names_and_the_scheme_are_not_case_sensitive(empty):
    headers = {"AUTHORIZATION": f"bEaReR {empty.token}", "host": empty.host}
    assert empty.send("POST", "/v2/pipeline", headers=headers, content=BODY).status == 200


def test_an_unknown_database_is_404_before_the_token_is_checked(empty):
    host = "nobody-" + empty.host
    for headers in ({"host": host}, empty.headers() | {"host": host}):
        answer = empty.send("POST", "/v2/pipeline", headers=headers, content=BODY)
        assert answer.status == 404
        assert answer.body["error"]


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1.example.org", "localhost.example.org:80", "169.254.169.254"]
)
def test_a_foreign_host_is_refused(empty, host):
    # A page of another site whose name leads to the loopback address must get nothing, not even the version.
    assert empty.send("POST", "/v2/pipeline", headers=empty.headers() | {"host": host}, content=BODY).status == 421
    assert empty.send("GET", "/version", headers={"host": host}).status == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "LocalHost", "[::1]:8080"])
def test_at_the_service_s_own_address_the_token_names_the_database(db, other, host):
    db.run("CREATE TABLE mine(a)")
    at_own_address = {"host": host}
    for database, tables in ((db, [["mine"]]), (other, [])):
        body = json.dumps({"requests": [execute("SELECT name FROM sqlite_master")]}).encode()
        answer = db.send("POST", "/v2/pipeline", headers=database.headers() | at_own_address, content=body)
        assert answer.rows() == tables


def test_a_stream_can_switch_between_addresses_and_versions(db):
    answer = db.post(execute("BEGIN"))
    body = json.dumps({"baton": answer.baton, "requests": [{"type": "get_autocommit"}]}).encode()
    answer = db.send("POST", "/v3/pipeline", headers=db.headers() | {"host": "127.0.0.1:1"}, content=body)
    assert answer.response() == {"type": "get_autocommit", "is_autocommit": False}
