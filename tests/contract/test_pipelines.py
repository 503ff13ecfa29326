"""The bodies of pipelines (section 3)."""

import json

import pytest
from contract_wire import CLOSE, execute


def post(db, body, **options):
    return db.send_body(json.dumps(body).encode(), **options)


def test_a_response_has_three_keys_of_the_specification(db):
    answer = db.post(execute("SELECT 1"))
    assert answer.body.keys() - {"stream_ttl_ms"} == {"baton", "base_url", "results"}
    assert isinstance(answer.body["baton"], str)
    assert answer.body["base_url"] is None


def test_a_baton_comes_with_the_time_that_its_stream_lives(db):
    first = db.post(execute("SELECT 1"))
    assert first.body["stream_ttl_ms"] == 10_000
    assert db.post(execute("SELECT 1"), baton=first.baton, version=2).body["stream_ttl_ms"] == 10_000


def test_without_a_baton_nothing_is_said_about_the_stream(empty):
    assert "stream_ttl_ms" not in empty.post(execute("SELECT 1"), CLOSE).body


def test_a_closed_stream_has_a_null_baton(empty):
    answer = empty.post(execute("SELECT 1"), CLOSE)
    assert answer.body["baton"] is None
    assert "base_url" in answer.body
    assert answer.response(1) == {"type": "close"}


@pytest.mark.parametrize("version", [2, 3])
def test_each_request_has_its_entry_in_order(empty, version):
    answer = empty.post(execute("SELECT 1"), execute("SELEC"), execute("SELECT 3"), CLOSE, version=version)
    assert [entry["type"] for entry in answer.results] == ["ok", "error", "ok", "ok"]
    assert [answer.response(number)["type"] for number in (0, 2, 3)] == ["execute", "execute", "close"]
    assert answer.rows(2) == [[3]]


def test_a_failed_statement_has_message_and_code(db):
    entry = db.post(execute("SELECT * FROM nope")).results[0]
    assert entry.keys() == {"type", "error"}
    assert isinstance(entry["error"]["message"], str)
    assert isinstance(entry["error"]["code"], str)


def test_the_stream_continues_after_a_failed_statement(db):
    stream = db.stream()
    assert stream.send(execute("SELEC")).codes != ["ok"]
    assert stream.rows("SELECT 1") == [[1]]


def test_an_empty_pipeline_opens_a_stream_and_keeps_it_open(db):
    stream = db.stream()
    answer = stream.send()
    assert (answer.results, bool(answer.baton)) == ([], True)
    stream.run("BEGIN")
    assert stream.send().results == []
    assert stream.autocommit is False


@pytest.mark.parametrize("baton", [{}, {"baton": None}])
def test_a_null_baton_is_treated_as_absent(db, baton):
    assert post(db, {**baton, "requests": [execute("SELECT 1")]}).rows() == [[1]]


def test_unknown_keys_and_nulls_are_ignored(empty):
    answer = post(
        empty,
        {
            "zz": {"requests": 5},
            "baton": None,
            "requests": [
                {
                    "type": "execute",
                    "batch": None,
                    "note": [1],
                    "stmt": {
                        "sql": "SELECT ?", "sql_id": None, "args": [{"type": "integer", "value": "7", "z": {}}],
                        "named_args": [], "want_rows": True, "replication_index": None, "later": {"a": 1},
                    },
                },
                {"type": "close", "stmt": None},
            ],
        },
    )  # fmt: skip
    assert answer.rows() == [[7]]


def test_every_optional_field_may_be_null(empty):
    nothing = {"sql_id": None, "args": None, "named_args": None, "want_rows": None, "replication_index": None}
    select = {"sql": "SELECT 7", **nothing}
    plain = {"sql": "SELECT 7", "sql_id": None, "replication_index": None}
    answer = empty.post(
        {"type": "execute", "stmt": select},
        {"type": "batch", "batch": {"steps": [{"condition": None, "stmt": select}], "replication_index": None}},
        {"type": "sequence", **plain}, {"type": "describe", **plain},
    )  # fmt: skip
    assert answer.codes == ["ok"] * 4
    assert (answer.rows(0), answer.steps(1)) == ([[7]], ["ok"])


MALFORMED = {
    "nothing": b"",
    "null": b"null",
    "text": b'"x"',
    "list": b"[]",
    "no requests": b"{}",
    "broken": b'{"requests":[',
    "requests null": b'{"requests":null}',
    "requests object": b'{"requests":{}}',
    "request null": b'{"requests":[null]}',
    "no type": b'{"requests":[{}]}',
    "type null": b'{"requests":[{"type":null}]}',
    "no stmt": b'{"requests":[{"type":"execute"}]}',
    "sql number": b'{"requests":[{"type":"execute","stmt":{"sql":5}}]}',
    "baton number": b'{"baton":5,"requests":[]}',
    "trailing text": b'{"requests":[]}x',
    "byte order mark": b'\xef\xbb\xbf{"requests":[]}',
    "comment": b'{"requests":[]/* */}',
    "single quotes": b"{'requests':[]}",
    "not UTF-8": b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT \'\xff\'"}}]}',
    "half a surrogate pair": b'{"requests":[{"type":"execute","stmt":{"sql":"SELECT \'\\ud800\'"}}]}',
    "nested endlessly": b'{"requests":' + b"[" * 100_000,
    "an unknown value": b'{"requests":[{"type":"execute","stmt":'
    b'{"sql":"SELECT ?","args":[{"type":"decimal","value":"1"}]}}]}',
    "duplicate keys": b'{"requests":[],"requests":[]}',
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_body_is_400_as_a_line_of_text(empty, body):
    answer = empty.send_body(body)
    assert answer.status == 400
    assert answer.content_type == "text/plain"
    assert answer.body.startswith("Cannot deserialize client message from JSON: ")


@pytest.mark.parametrize("unknown", [{"type": "dance"}, {"type": "execute", "stmt": {}}, {}])
def test_nothing_of_a_malformed_pipeline_runs(db, unknown):
    assert db.post(execute("CREATE TABLE t(a)"), unknown).status == 400
    assert db.rows("SELECT name FROM sqlite_master") == []


def test_a_malformed_body_keeps_the_stream_open(db):
    stream = db.stream()
    stream.run("BEGIN")
    assert post(db, {"baton": stream.baton, "requests": [{"type": "dance"}]}).status == 400
    assert stream.autocommit is False


def test_thousands_of_requests_fit_one_pipeline(empty):
    answer = empty.post(*[execute("SELECT 1")] * 2000, CLOSE)
    assert answer.codes == ["ok"] * 2001
