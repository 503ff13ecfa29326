"""The settings of databases and groups, and their effects."""

from __future__ import annotations

import pytest
from service_calls import caller_of

from pipemagic.service.limits import Limits, parse_size
from pipemagic.service.service import Service

LOCAL = "/v1/organizations/local"
CONFIGURATION = f"{LOCAL}/databases/flights/configuration"
FILL = (
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
    " INSERT INTO t SELECT zeroblob(1000) FROM n"
)


@pytest.fixture
def filled(operator, db):
    db.run("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    return operator


def test_a_patch_changes_only_its_fields(filled):
    usual = {
        "size_limit": "0", "allow_attach": False, "block_reads": False, "block_writes": False,
        "delete_protection": False, "allowed_ips": [], "allowed_aws_vpc_ids": [],
    }  # fmt: skip
    assert filled.ok("GET", CONFIGURATION) == usual
    changed = {**usual, "size_limit": "1048576", "block_writes": True}
    assert filled.ok("PATCH", CONFIGURATION, {"size_limit": "1mb", "block_writes": True}) == changed
    assert filled.ok("PATCH", CONFIGURATION, {"delete_protection": True, "block_writes": None}) == {
        **changed, "delete_protection": True,
    }  # fmt: skip
    assert filled.ok("PATCH", CONFIGURATION, {"allow_attach": False, "allowed_ips": []})["size_limit"] == "1048576"
    shown = filled.ok("GET", f"{LOCAL}/databases/flights")["database"]
    assert (shown["block_reads"], shown["block_writes"], shown["delete_protection"]) == (False, True, True)
    assert filled.ok("PATCH", CONFIGURATION, {"size_limit": 0})["size_limit"] == "0"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"block_reads": 1}, '"block_reads" must be true or false'),
        ({"size_limit": "big"}, '"size_limit" must be a size, such as 10000, 256mb or 1gb'),
        ({"size_limit": -1}, '"size_limit" must be a non-negative integer'),
        ({"size_limit": True}, '"size_limit" must be a non-negative integer'),
        ({"allow_attach": True}, '"allow_attach" is not supported by this service'),
        (
            {"allowed_ips": ["10.0.0.1"]},
            '"allowed_ips" is not supported by this service: it accepts every address',
        ),
        (
            {"allowed_aws_vpc_ids": ["vpce-1"]},
            '"allowed_aws_vpc_ids" is not supported by this service: it is not in AWS',
        ),
    ],
)
def test_invalid_settings(filled, body, message):
    before = filled.ok("GET", CONFIGURATION)
    assert filled.refused("PATCH", CONFIGURATION, {"block_writes": True, **body}) == (400, message)
    assert filled.ok("GET", CONFIGURATION) == before


@pytest.mark.parametrize(
    ("path", "field", "refused", "usual", "reason"),
    [
        ("databases", "use_tursodb", True, False, "it has no databases of that engine"),
        ("databases", "image", "canary", "latest", "all its databases run the same version"),
        ("databases", "extensions", "all", [], "all its databases have the same functions"),
        ("databases", "remote_encryption", {"encryption_key": "a2V5", "encryption_cipher": "aes256gcm"}, None,
         "it does not encrypt databases"),
        ("groups", "extensions", ["vector"], [], "all its databases have the same functions"),
        ("groups", "version", "canary", "latest", "all its databases run the same version"),
    ],
)  # fmt: skip
def test_fields_that_change_the_meaning_are_refused(operator, path, field, refused, usual, reason):
    body = {"name": "new", "group": "default", "location": "ams"}
    message = f'"{field}" is not supported by this service: {reason}'
    assert operator.refused("POST", f"{LOCAL}/{path}", {**body, field: refused}) == (400, message)
    assert operator.status("GET", f"{LOCAL}/{path}/new") == 404
    operator.ok("POST", f"{LOCAL}/{path}", {**body, field: usual})


def test_databases_in_pages(operator):
    names = ["a", "a-b", "ab", "b", "flights", "zz"]
    for name in names:
        operator.status("POST", f"{LOCAL}/databases", {"name": name, "group": "default"})
    names = [item["Name"] for item in operator.ok("GET", f"{LOCAL}/databases")["databases"]]
    path, cursor, pages = f"{LOCAL}/databases", "", []
    while cursor is not None:
        page = operator.ok("GET", path, query={"group": "default", "limit": "2", "cursor": cursor})
        pages.append([item["Name"] for item in page["databases"]])
        cursor = page["pagination"]["next"]
    assert pages == [names[start : start + 2] for start in range(0, len(names), 2)]
    for limit in ("0", "-1", "x", "1.5"):
        status, answer = operator.call("GET", path, query={"limit": limit})
        assert (status, answer["error"]) == (400, '"limit" must be a positive integer')


def test_blocked_writes(filled, db):
    filled.ok("PATCH", CONFIGURATION, {"block_writes": True})
    answer = db.run("INSERT INTO t VALUES (2)", "DELETE FROM t", "CREATE TABLE u (a)", "SELECT a FROM t")
    assert answer.codes == ["BLOCKED", "BLOCKED", "BLOCKED", "ok", "ok"]
    assert answer.error(0)["message"] == ("Operation was blocked: writes to this database are blocked (block_writes)")
    assert answer.rows(3) == [["1"]]
    filled.ok("PATCH", CONFIGURATION, {"block_writes": False})
    assert db.run("INSERT INTO t VALUES (2)").codes == ["ok", "ok"]


def test_blocked_reads_block_everything(filled, db):
    filled.ok("PATCH", CONFIGURATION, {"block_reads": True})
    answer = db.run("SELECT 1", "INSERT INTO t VALUES (2)", "PRAGMA page_count")
    assert answer.codes == ["BLOCKED", "BLOCKED", "BLOCKED", "ok"]
    assert answer.error(0)["message"] == "Operation was blocked: reads from this database are blocked (block_reads)"


def test_delete_protection(filled, service):
    filled.ok("PATCH", CONFIGURATION, {"delete_protection": True})
    refusal = 400, "database flights is protected from deletion (delete_protection)"
    assert filled.refused("DELETE", f"{LOCAL}/databases/flights") == refusal
    assert filled.refused("DELETE", f"{LOCAL}/groups/default") == refusal
    assert filled.status("GET", f"{LOCAL}/databases/flights") == 200
    filled.ok("PATCH", CONFIGURATION, {"delete_protection": False})
    filled.ok("DELETE", f"{LOCAL}/databases/flights")


def test_delete_protection_of_a_group(filled):
    path = f"{LOCAL}/groups/default"
    assert filled.ok("GET", f"{path}/configuration") == {"delete_protection": False}
    assert filled.ok("PATCH", f"{path}/configuration", {"delete_protection": True}) == {"delete_protection": True}
    assert filled.ok("PATCH", f"{path}/configuration", {}) == {"delete_protection": True}
    assert filled.ok("GET", path)["group"]["delete_protection"] is True
    assert filled.refused("DELETE", path)[1].startswith("group default is protected from deletion")
    refusal = 400, "group default is protected from deletion (delete_protection)"
    assert filled.refused("DELETE", f"{LOCAL}/databases/flights") == refusal  # the published text includes these
    filled.ok("PATCH", f"{path}/configuration", {"delete_protection": False})
    filled.ok("DELETE", f"{LOCAL}/databases/flights")
    filled.ok("DELETE", path)


def test_a_size_limit_stops_growth_and_nothing_else(filled, db):
    filled.ok("PATCH", CONFIGURATION, {"size_limit": "100kb"})
    answer = db.run(FILL, "SELECT count(*) FROM t", "INSERT INTO t VALUES (2)", "DELETE FROM t", "VACUUM")
    assert answer.codes == ["SQLITE_FULL", "ok", "ok", "ok", "ok", "ok"]
    assert answer.error()["message"] == (
        "SQLite error: database or disk is full (the size limit of this database is 102,400 bytes)"
    )
    assert answer.rows(1) == [["1"]]
    filled.ok("PATCH", CONFIGURATION, {"size_limit": "2mb"})
    assert db.run(FILL, "PRAGMA max_page_count").rows(1) == [["512"]]
    filled.ok("PATCH", CONFIGURATION, {"size_limit": 1})  # smaller than it is: it stays as it is
    assert db.run(FILL, "SELECT count(*) FROM t").codes == ["SQLITE_FULL", "ok", "ok"]
    filled.ok("PATCH", CONFIGURATION, {"size_limit": 0})
    assert db.run(FILL, FILL).codes == ["ok", "ok", "ok"]


def test_a_size_limit_of_a_new_database(operator, make_caller):
    body = {"name": "small", "group": "default", "size_limit": "100kb"}
    operator.ok("POST", f"{LOCAL}/databases", body)
    small = make_caller("small")
    assert small.run("CREATE TABLE t (a)", FILL).codes == ["ok", "SQLITE_FULL", "ok"]
    assert operator.refused("POST", f"{LOCAL}/databases", {**body, "name": "x", "size_limit": "?"})[0] == 400


def test_the_services_limit_cannot_be_raised(tmp_path, clock):
    service = Service(tmp_path / "data", clock=clock, limits=Limits(database=100 * 1024))
    service.catalog.create_group("local", "default", "ams")
    caller = caller_of(service, "flights")
    service.catalog.configure_database("local", "flights", {"size_limit": 2**30})
    assert caller.run("CREATE TABLE t (a)", FILL).error(1)["message"].endswith("is 102,400 bytes)")
    assert caller.run("PRAGMA max_page_count = 100000").codes == ["SQLITE_AUTH", "ok"]
    service.close()


@pytest.mark.parametrize(
    ("text", "size"),
    [("10000", 10_000), ("256mb", 2**28), ("1.5 GB", 3 * 2**29), ("2KiB", 2048), ("7b", 7), ("1t", 2**40),
     ("", None), ("mb", None), ("-1", None), ("1e3", None), ("1 2", None), ("٣", None), ("9" * 18 + "t", 2**62)],
)  # fmt: skip
def test_sizes(text, size):
    assert parse_size(text) == size
