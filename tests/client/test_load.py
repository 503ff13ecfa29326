from __future__ import annotations

import math
import threading

import httpx
import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from seed_server import SeedServer
from service_http import ServiceTransport

from pipemagic import errors
from pipemagic.client.bulk import PREFIX, batches
from pipemagic.client.database import Database
from pipemagic.hrana.messages import Stmt
from pipemagic.service.limits import Limits

SMALL = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"]})


def tables(database: Database) -> list[str]:
    rows = database.execute("SELECT name FROM sqlite_master ORDER BY name").rows
    return [name for (name,) in rows if not name.startswith(("sqlite_", "libsql_"))]


def definition(database: Database, table: str = "t") -> str:
    return database.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table]).rows[0][0]


# -- what arrives


def test_a_frame_comes_back_as_it_was(database) -> None:
    assert database.load(SMALL, "t") == 3
    assert_frame_equal(database.query("SELECT * FROM t"), SMALL)
    assert tables(database) == ["t"]
    assert definition(database) == 'CREATE TABLE "t" ("a" INTEGER, "b" TEXT)'


def test_every_type_comes_back(full) -> None:
    frame = pd.DataFrame({
        "i": [2**53 + 1, -(2**63), 2**63 - 1],
        "n": pd.Series([2**53 + 1, None, -(2**63)], dtype="Int64"),
        "f": [0.1, math.nan, 1 / 3],
        "m": [12.34, 5.0, 0.25],
        "s": ["a\0b", "é😀'\"\\", ""],
        "o": pd.Series([True, None, False], dtype="boolean"),
        "d": pd.to_datetime(["2024-01-31 12:30", None, "1900-01-01 00:00:00.000001"], format="ISO8601").as_unit("us"),
        "z": pd.to_datetime(["2024-01-31 12:30", None, "2024-02-01 00:00"]).as_unit("us").tz_localize("UTC"),
        "x": pd.Series([b"\0\xff", None, b""], dtype=object),
        "e": pd.Series([None, None, None], dtype="Int64"),
        'q"]`': ["quoted", "name", "!"],
    })  # fmt: skip
    full.load(frame, "t")
    got = full.query("SELECT * FROM t")
    assert_frame_equal(got, frame)
    assert [value.hex() for value in got["f"].dropna()] == [value.hex() for value in frame["f"].dropna()]


def test_mixed_columns_keep_each_value(full) -> None:
    values = [1, 2.5, "text", b"\0\xff", None, True, 2**63 - 1, -0.0, "1", "a\0b", 1 / 3, b""]
    full.load(pd.DataFrame({"x": pd.Series(values, dtype=object)}), "t")
    got = [row[0] for row in full.execute("SELECT x FROM t").rows]
    assert got == values
    assert [type(value) for value in got] == [int if value is True else type(value) for value in values]
    assert math.copysign(1, got[7]) == -1


def test_infinities_are_kept(full) -> None:
    full.load(pd.DataFrame({"x": [math.inf, -math.inf, math.nan, 1.5]}), "t")
    assert full.execute("SELECT x > 1e308, x < -1e308, x IS NULL FROM t").rows == [
        (1, 0, 0), (0, 1, 0), (None, None, 1), (0, 0, 0),
    ]  # fmt: skip


def test_random_bit_patterns_arrive_bit_for_bit(full) -> None:
    bits = np.random.default_rng(7).integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    edges = np.array([5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 2.0**-1074, 2.0**1023, -0.0])
    frame = pd.DataFrame({"x": np.concatenate([bits[np.isfinite(bits)], edges, -edges])})
    full.load(frame, "t")
    got = full.query("SELECT x FROM t")["x"].to_numpy()
    assert (got.view(np.uint64) == frame["x"].to_numpy().view(np.uint64)).all()


def test_the_order_of_rows_is_kept_over_many_chunks(full, monkeypatch) -> None:
    monkeypatch.setattr(batches, "AIM", 2000)
    monkeypatch.setattr(batches, "FIRST", 7)
    frame = pd.DataFrame({"a": range(5000), "b": [f"row {number}" for number in range(5000)]})
    seen: list[tuple[int, int]] = []
    assert full.load(frame, "t", progress=lambda done, total: seen.append((done, total))) == 5000
    assert_frame_equal(full.query("SELECT * FROM t"), frame)
    assert len(seen) > 20
    assert seen == sorted(seen)
    assert seen[-1] == (5000, 5000)


def test_large_values(full) -> None:
    frame = pd.DataFrame({"a": ["x" * 4_900_000, "y", "z" * 2_400_000], "b": [b"b", b"c" * 2_300_000, None]})
    full.load(frame, "t")
    assert full.execute("SELECT length(a), length(b) FROM t").rows == [
        (4_900_000, 1),
        (1, 2_300_000),
        (2_400_000, None),
    ]


@pytest.mark.parametrize(("server", "size"), [("on_sqld", 6_000_000), ("embedded", 17_000_000)])
@pytest.mark.parametrize("value", ["x", b"x"])
def test_a_cell_that_is_too_large_is_named_and_changes_nothing(request, server, size, value) -> None:
    database = request.getfixturevalue(server)
    frame = pd.DataFrame({"n": [1, 2, 3], "a": [value, value * size, value], "b": ["y"] * 3})
    with pytest.raises(
        errors.LoadError, match=rf"row 2 has {size + 9:,} bytes, {size:,} of them in column a;"
    ) as caught:
        database.load(frame, "t")
    assert "nothing was changed" in caught.value.message
    assert "store the value in parts" in caught.value.hint
    assert tables(database) == []


def test_a_cell_beyond_the_body_is_named(limited) -> None:
    _, database = limited(Limits(body=6_000_000))
    with pytest.raises(errors.LoadError, match="row 2 has 7,000,001 bytes, 7,000,000 of them in column b;"):
        database.load(pd.DataFrame({"a": ["x", "y"], "b": ["x", "y" * 7_000_000]}), "t")
    assert tables(database) == []


def test_a_cell_of_more_than_a_batch_arrives(embedded) -> None:
    frame = pd.DataFrame({"a": ["x", "y" * 6_000_000, "z"]})
    assert embedded.load(frame, "t") == 3
    assert embedded.execute("SELECT length(a) FROM t ORDER BY rowid").rows == [(1,), (6_000_000,), (1,)]


def test_no_rows(database) -> None:
    assert database.load(SMALL.head(0), "t") == 0
    assert database.query("SELECT * FROM t").shape == (0, 2)


def test_a_named_index_is_a_column(full) -> None:
    full.load(SMALL.set_index("a"), "t")
    assert_frame_equal(full.query("SELECT * FROM t"), SMALL)


@pytest.mark.parametrize("name", ["", "a\0b", "sqlite_x"])
def test_names_that_no_table_can_have(full, name) -> None:
    with pytest.raises(errors.LoadError, match="cannot be the name of a table"):
        full.load(SMALL, name)


# -- a table that is there


def test_fail_is_what_happens_by_itself(database) -> None:
    database.execute("CREATE TABLE T(old)")
    with pytest.raises(errors.LoadError, match="table t already exists"):
        database.load(SMALL, "t")
    assert tables(database) == ["T"]


def test_replace(database) -> None:
    database.execute("CREATE TABLE t(old PRIMARY KEY, other UNIQUE)")
    database.execute("INSERT INTO t VALUES (1, 2)")
    database.load(SMALL, "t", if_exists="replace")
    assert_frame_equal(database.query("SELECT * FROM t"), SMALL)
    assert tables(database) == ["t"]


def test_append(database) -> None:
    database.load(SMALL, "t")
    database.load(SMALL[["b", "a"]], "T", if_exists="append")
    assert_frame_equal(database.query("SELECT * FROM t"), pd.concat([SMALL, SMALL], ignore_index=True))
    assert tables(database) == ["t"]


@pytest.mark.parametrize("if_exists", ["append", "replace"])
def test_without_a_table_one_is_made(full, if_exists) -> None:
    full.load(SMALL, "t", if_exists=if_exists)
    assert_frame_equal(full.query("SELECT * FROM t"), SMALL)


def test_a_table_that_foreign_keys_point_to_is_not_replaced(full) -> None:
    full.batch(["CREATE TABLE t(a PRIMARY KEY)", "INSERT INTO t VALUES (1)", "CREATE TABLE child(a REFERENCES T(a))"])
    with pytest.raises(errors.LoadError, match="cannot replace t: child has a foreign key"):
        full.load(SMALL, "t", if_exists="replace")
    assert full.execute("SELECT a FROM t").rows == [(1,)]
    assert tables(full) == ["child", "t"]


def test_a_table_with_foreign_keys_is_not_replaced_by_one_without(full) -> None:
    full.batch(["CREATE TABLE parent(a PRIMARY KEY)", "CREATE TABLE t(a REFERENCES parent(a))"])
    with pytest.raises(errors.LoadError, match="t has foreign keys"):
        full.load(SMALL, "t", if_exists="replace")


def test_a_view_is_no_table(full) -> None:
    full.execute("CREATE VIEW t AS SELECT 1 AS a")
    with pytest.raises(errors.LoadError, match="t is a view, not a table"):
        full.load(SMALL, "t", if_exists="replace")


BROKEN = [
    "CREATE TABLE old(a)", "CREATE TABLE log(a)", "CREATE TABLE gone(a)",
    "CREATE VIEW \"broken: it\" AS SELECT a FROM old",
    "CREATE VIEW on_broken AS SELECT a FROM \"broken: it\"",
    "CREATE TRIGGER instead INSTEAD OF INSERT ON ON_BROKEN BEGIN INSERT INTO log VALUES (new.a); END",
    "CREATE VIEW valid AS SELECT a FROM log",
    "CREATE TRIGGER logged AFTER DELETE ON log BEGIN DELETE FROM gone; END",
    "CREATE TRIGGER kept AFTER UPDATE ON log BEGIN SELECT 1; END",
    "DROP TABLE gone", "DROP TABLE old",
]  # fmt: skip
OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE type IN ('view', 'trigger') ORDER BY name"


def test_broken_views_and_triggers_do_not_prevent_loads(database, embedded) -> None:
    """SQLite refuses ALTER TABLE RENAME while there is one, whatever table it is about."""
    for db in (database, embedded):
        db.batch(BROKEN)
        before = db.execute(OBJECTS).rows
        with pytest.raises(errors.StatementError, match="error in view"):
            db.execute("ALTER TABLE log RENAME TO renamed")
        for if_exists in ("fail", "replace", "append"):
            assert db.load(SMALL, "t", if_exists=if_exists) == 3
        db.execute("CREATE TABLE source(a, b)")
        db.copy("source", db, "copy")
        assert {"copy", "t"} < set(tables(db))
        assert not [name for name in tables(db) if name.startswith(PREFIX)]
        assert db.execute("SELECT count(*) FROM t").rows == [(6,)]
        assert db.execute(OBJECTS).rows == before
        db.load(SMALL, "old")  # the table that the view reads
        assert db.execute('SELECT a FROM "broken: it"').rows == db.execute("SELECT a FROM old").rows
        assert db.execute(OBJECTS).rows == before


def test_a_table_is_replaced_although_a_view_on_it_is_broken(full) -> None:
    full.batch([*BROKEN, "CREATE TABLE t(a PRIMARY KEY, b)", "CREATE VIEW both AS SELECT t.a FROM t, old"])
    full.execute("CREATE TRIGGER on_both INSTEAD OF INSERT ON both BEGIN SELECT 1; END")
    before = full.execute(OBJECTS).rows
    full.load(SMALL, "t", if_exists="replace")
    assert full.execute(OBJECTS).rows == before
    assert full.execute("SELECT count(*) FROM t").rows == [(3,)]


def test_comments_at_the_end_of_a_definition_stay(on_sqld) -> None:
    on_sqld.batch(BROKEN)
    on_sqld.execute("CREATE VIEW commented AS SELECT a FROM old /* see */ -- the plan")
    before = on_sqld.execute(OBJECTS).rows
    assert before[1][-1].endswith("-- the plan")
    on_sqld.load(SMALL, "t")
    assert on_sqld.execute(OBJECTS).rows == before


def test_many_broken_triggers_do_not_prevent_a_load(embedded) -> None:
    """SQLite names one of them at a time."""
    embedded.batch(["CREATE TABLE log(a)", "CREATE TABLE gone(a)"])
    embedded.batch([f"CREATE TRIGGER t{i} DELETE ON log BEGIN DELETE FROM gone; END" for i in range(30)])
    embedded.execute("DROP TABLE gone")
    embedded.load(SMALL, "t")
    assert len(embedded.execute(OBJECTS).rows) == 30


def test_a_broken_view_that_would_change_prevents_a_load(flaky, embedded) -> None:
    """The service stores no comment at the end of a view, but a file may have one."""
    database, transport = flaky
    embedded.batch(BROKEN)
    before = embedded.execute(OBJECTS).rows
    transport.replaced = (':"CREATE VIEW on_broken AS', ':"CREATE VIEW on_broken  AS')
    with pytest.raises(errors.LoadError, match=r"on_broken, .* would not stay as they are; nothing") as caught:
        database.load(SMALL, "t")
    assert "change or drop these first" in caught.value.hint
    assert embedded.execute(OBJECTS).rows == before
    assert "t" not in tables(embedded)


def test_a_table_that_the_server_cannot_make_is_called_by_its_own_name(embedded) -> None:
    wide = pd.DataFrame({f"c{number}": [number] for number in range(2001)})
    with pytest.raises(errors.LoadError, match=r"too many columns on wide; nothing was changed"):
        embedded.load(wide, "wide")


@pytest.mark.parametrize(
    ("if_exists", "ids", "shown"),
    [("append", ["8", "x"], "'x'"), ("upsert", [7, 1.5], "1.5"), ("replace", [7.0, b"x"], "b'x'")],
)
def test_a_value_that_an_integer_primary_key_cannot_hold_is_named(full, if_exists, ids, shown) -> None:
    full.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT)")
    frame = pd.DataFrame({"id": ids, "b": ["x", "y"]})
    if ids[0] == "8":  # which would become 8
        frame["id"] = [None, "x"]
    with pytest.raises(errors.LoadError) as caught:
        full.load(frame, "t", if_exists=if_exists, keys=["id"] if if_exists == "upsert" else ())
    assert caught.value.message == (
        f"row 2: t.id is an INTEGER PRIMARY KEY and cannot hold {shown}; nothing was changed"
    )
    assert full.execute("SELECT count(*) FROM t").rows == [(0,)]


def test_a_column_that_looks_like_an_integer_primary_key_stores_any_value(full) -> None:
    frame = pd.DataFrame({"id": [7, 1.5], "n": [1, 2]})
    for table in (
        "t(id INTEGER PRIMARY KEY, n) WITHOUT ROWID",
        "u(id INT PRIMARY KEY, n)",
        "v(id INTEGER, n, PRIMARY KEY (id, n))",
        "x(id INTEGER PRIMARY KEY DESC, n)",
    ):
        full.execute(f"CREATE TABLE {table}")
        full.load(frame, table[0], if_exists="append")
        assert full.execute(f"SELECT count(*) FROM {table[0]}").rows == [(2,)]
    full.execute("CREATE TABLE w(id INTEGER PRIMARY KEY, n)")
    full.load(pd.DataFrame({"id": [7.0, None], "n": [1, 2]}), "w", if_exists="append")
    assert full.execute("SELECT id FROM w").rows == [(7,), (8,)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("t(a)", "the table has no b"),
        ("t(a, b, c)", "the frame has no c"),
        ("t(a, c)", "the table has no b; the frame has no c"),
        ("t(a, b GENERATED ALWAYS AS (a))", "column b: it is generated in t and cannot be written"),
        ("t(a INTEGER, b INTEGER)", ""),
        ("t(a TEXT, b TEXT)", "column a: t declares it TEXT, where '1' would become another value"),
    ],
)
def test_rows_that_do_not_fit_are_not_appended(full, table, message) -> None:
    full.execute(f"CREATE TABLE {table}")
    if not message:
        full.load(SMALL, "t", if_exists="append")  # texts that are no numbers stay texts
        assert full.execute("SELECT b FROM t").rows == [("x",), (None,), ("z",)]
        return
    with pytest.raises(errors.LoadError, match=message) as caught:
        full.load(SMALL, "t", if_exists="append")
    assert "nothing was changed" in caught.value.message
    assert full.execute("SELECT count(*) FROM t").rows == [(0,)]
    assert tables(full) == ["t"]


@pytest.mark.parametrize(
    ("declared", "values", "fits"),
    [
        ("INTEGER", ["5"], False), ("REAL", ["1e3"], False), ("NUMERIC", [" 5 "], False), ("DATE", ["5"], False),
        ("DATE", ["2024-01-31"], True), ("TEXT", ["5"], True), ("BLOB", ["5"], True), ("INTEGER", [5], True),
        ("REAL", [5], True), ("REAL", [2**53 + 1], False), ("NUMERIC", [2**53 + 1], True), ("REAL", [0.5], True),
        ("INTEGER", [0.5], True), ("TEXT", [0.5], False), ("TEXT", [True], False), ("TEXT", [b"x"], True),
        ("INTEGER", [b"5"], True), ("VARCHAR(10)", [1 / 3], False), ("INTEGER", ["five", "5"], False),
        ("DATETIME", [pd.Timestamp("2024-01-31")], True), ("REAL", [1, "x"], True), ("REAL", [1, "5"], False),
        ("TEXT", [1, "x"], False), ("TEXT", [b"1", "x", None], True), ("TEXT", [0.5, "x"], False),
    ],
)  # fmt: skip
def test_values_that_a_declared_type_would_change_are_refused(embedded, declared, values, fits) -> None:
    embedded.execute(f"CREATE TABLE t(x {declared})")
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    if not fits:
        with pytest.raises(errors.LoadError, match="would become another value"):
            embedded.load(frame, "t", if_exists="append")
        return
    embedded.load(frame, "t", if_exists="append")
    got = [row[0] for row in embedded.execute("SELECT x FROM t").rows]
    assert got == [str(value) if isinstance(value, pd.Timestamp) else value for value in values]


def test_columns_with_a_default_may_be_missing(full) -> None:
    full.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, at DEFAULT 'now', c AS (a + 1))")
    full.load(SMALL, "t", if_exists="append")
    assert full.execute("SELECT id, a, at, c FROM t").rows == [(1, 1, "now", 2), (2, 2, "now", 3), (3, 3, "now", 4)]


def test_a_constraint_that_fails_leaves_the_table_as_it_was(database) -> None:
    database.execute("CREATE TABLE t(a UNIQUE, b)")
    database.execute("INSERT INTO t VALUES (3, 'old')")
    with pytest.raises(errors.LoadError, match=r"UNIQUE constraint failed: t\.a; nothing was changed"):
        database.load(SMALL, "t", if_exists="append")
    assert database.execute("SELECT * FROM t").rows == [(3, "old")]
    assert tables(database) == ["t"]


def test_a_table_that_changes_meanwhile_is_left_alone(full) -> None:
    full.execute("CREATE TABLE t(old)")

    def meanwhile(done: int, total: int) -> None:
        full.execute("CREATE INDEX plain ON t(old)")

    with pytest.raises(
        errors.LoadError, match="another connection changed t meanwhile; nothing was changed by this load"
    ):
        full.load(SMALL, "t", if_exists="replace", progress=meanwhile)
    assert tables(full) == ["plain", "t"]


def test_a_table_that_appears_meanwhile_is_left_alone(full) -> None:
    with pytest.raises(errors.LoadError, match="nothing was changed"):
        full.load(SMALL, "t", progress=lambda done, total: full.execute("CREATE TABLE t(theirs)"))
    assert definition(full) == "CREATE TABLE t(theirs)"
    assert tables(full) == ["t"]


@pytest.mark.parametrize("if_exists", ["", "FAIL", None])
def test_invalid_options(full, if_exists) -> None:
    with pytest.raises(errors.LoadError, match="if_exists must be 'fail', 'append', 'replace' or 'upsert'"):
        full.load(SMALL, "t", if_exists=if_exists)


# -- failures on the way


class Flaky(httpx.BaseTransport):
    """Passes requests to a service until it is set to fail."""

    def __init__(self, service) -> None:
        self._inner = ServiceTransport(service)
        self.before = self.after = lambda body: None
        self.replaced = ("", "")

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read().decode()
        self.before(body)
        if self.replaced[0] and "DROP VIEW" in body:
            headers = {name: value for name, value in request.headers.items() if name != "content-length"}
            content = body.replace(*self.replaced)
            request = httpx.Request(request.method, request.url, headers=headers, content=content)
        answer = self._inner.handle_request(request)
        self.after(body)
        return answer


@pytest.fixture
def flaky(service, embedded):
    transport = Flaky(service)
    token = embedded.transport.token
    with httpx.Client(transport=transport) as http:
        yield Database("http://127.0.0.1:8080", token, http=http), transport


def fail_once(part: str, error: BaseException):
    done = threading.Event()

    def check(body: str) -> None:
        if part in body and not done.is_set():
            done.set()
            raise error

    return check


LOST = httpx.ReadError("connection reset")


@pytest.mark.parametrize(("when", "part", "interrupted"), [
    ("before", "INSERT OR ABORT INTO", False), ("after", "INSERT OR ABORT INTO", True),
    ("before", "CREATE TABLE", True), ("after", "CREATE TABLE", False),
])  # fmt: skip
def test_a_failure_while_rows_are_sent_leaves_nothing_behind(flaky, embedded, when, part, interrupted) -> None:
    error, kind = (KeyboardInterrupt(), errors.InterruptedRequest) if interrupted else (LOST, errors.PipemagicError)
    database, transport = flaky
    setattr(transport, when, fail_once(part, error))
    with pytest.raises(kind, match="nothing was changed"):
        database.load(SMALL, "t")
    assert tables(embedded) == []


def test_an_interrupt_between_requests_leaves_nothing_behind(embedded) -> None:
    def interrupted(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(errors.InterruptedRequest, match="interrupted while the rows were sent; nothing was changed"):
        embedded.load(SMALL, "t", progress=interrupted)
    assert tables(embedded) == []


@pytest.mark.parametrize("part", ["pipemagic.client.bulk.load.plan_load", "pipemagic.client.bulk.load.check_unique"])
def test_an_interrupt_of_the_inspection_leaves_nothing_behind(embedded, monkeypatch, part) -> None:
    embedded.execute("CREATE TABLE t(a PRIMARY KEY, b)")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(part, interrupted)
    with pytest.raises(errors.InterruptedRequest, match="nothing was changed"):
        embedded.load(SMALL, "t", "upsert", keys=["a"])
    assert tables(embedded) == ["t"]
    assert embedded.execute("SELECT count(*) FROM t").rows == [(0,)]


def test_an_interrupt_while_something_left_over_is_removed_ends_the_load(flaky, embedded) -> None:
    database, transport = flaky
    embedded.execute("CREATE TABLE _pipemagic_load_00000001_00000001(a)")
    transport.before = fail_once("DROP TABLE", KeyboardInterrupt())
    with pytest.raises(errors.InterruptedRequest, match="nothing was changed"):
        database.load(SMALL, "t")
    assert tables(embedded) == ["_pipemagic_load_00000001_00000001"]


def test_an_interrupt_of_the_switch_reports_the_outcome(embedded, monkeypatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pipemagic.client.batch_runner.run", interrupted)
        with pytest.raises(errors.InterruptedRequest, match="nothing was changed"):
            embedded.load(SMALL, "t")
    assert tables(embedded) == []


@pytest.mark.parametrize(
    ("kind", "values"), [("REAL", [-0.0, 1.5]), ("INTEGER", [-0.0, "x"]), ("NUMERIC", [-0.0, 1.5])]
)
def test_a_table_that_would_drop_the_sign_of_zero_is_named(full, kind, values) -> None:
    full.execute(f"CREATE TABLE t(a {kind})")
    with pytest.raises(errors.LoadError, match=r"'?-0\.0'? would become another value") as caught:
        full.load(pd.DataFrame({"a": values}), "t", "append")
    assert "adding 0.0" in caught.value.hint
    assert full.load(pd.DataFrame({"a": [-0.0, 1.5]}) + 0.0, "t", "append") == 2


@pytest.mark.parametrize(
    "table",
    [
        ["CREATE TABLE t(a, b UNIQUE ON CONFLICT IGNORE)"],
        ["CREATE TABLE t(a, b)", "CREATE TRIGGER r BEFORE INSERT ON t WHEN new.a = 2 BEGIN SELECT RAISE(IGNORE); END"],
    ],
)
def test_rows_that_the_table_would_skip_are_refused(full, table) -> None:
    full.batch(table)
    with pytest.raises(errors.LoadError, match="skips some of the rows; nothing was changed"):
        full.load(pd.DataFrame({"a": [1, 2, 3], "b": ["x", "x", "y"]}), "t", "append")
    assert full.execute("SELECT count(*) FROM t").rows == [(0,)]


@pytest.mark.parametrize("conflict", ["IGNORE", "ROLLBACK"])
def test_a_replaced_table_loses_no_rows_to_its_constraints(full, conflict) -> None:
    full.batch([f"CREATE TABLE t(a, b UNIQUE ON CONFLICT {conflict})", "INSERT INTO t VALUES (7, 'old')"])
    with pytest.raises(errors.LoadError, match=r"UNIQUE constraint failed: t\.b; nothing was changed"):
        full.load(pd.DataFrame({"a": [1, 2, 3], "b": ["x", "x", "y"]}), "t", "replace")
    assert full.execute("SELECT * FROM t").rows == [(7, "old")]


def test_an_upsert_of_keys_alone_adds_those_that_are_not_there(full) -> None:
    full.batch(["CREATE TABLE t(a PRIMARY KEY)", "INSERT INTO t VALUES (1)"])
    full.load(pd.DataFrame({"a": [1, 2]}), "t", "upsert", keys=["a"])
    assert full.execute("SELECT a FROM t ORDER BY a").rows == [(1,), (2,)]


def test_a_moment_may_be_the_key_of_an_upsert(full) -> None:
    when = pd.DataFrame({"at": pd.to_datetime(["2020-01-01", "2020-01-02"]), "n": [1, 2]})
    full.load(when, "t", "upsert", keys=["at"])
    assert full.load(when.assign(n=7).iloc[1:], "t", "upsert", keys=["at"]) == 1
    assert full.execute("SELECT n FROM t ORDER BY at").rows == [(1,), (7,)]


def test_a_switch_that_did_not_arrive_changes_nothing(flaky, embedded) -> None:
    database, transport = flaky
    transport.before = fail_once("RENAME TO", LOST)
    with pytest.raises(errors.LoadError, match="nothing was changed"):
        database.load(SMALL, "t")
    assert tables(embedded) == []


def test_the_outcome_of_a_switch_whose_response_was_lost(flaky, embedded) -> None:
    database, transport = flaky
    transport.after = fail_once("RENAME TO", LOST)
    assert database.load(SMALL, "t") == 3
    assert tables(embedded) == ["t"]


def test_an_interrupt_after_the_switch_reports_that_the_rows_are_there(flaky, embedded) -> None:
    database, transport = flaky
    transport.after = fail_once("RENAME TO", KeyboardInterrupt())
    with pytest.raises(errors.InterruptedRequest, match="interrupted, but t contains all rows"):
        database.load(SMALL, "t")
    assert embedded.execute("SELECT count(*) FROM t").rows == [(3,)]


def test_a_view_that_changes_while_broken_ones_are_dropped_is_left_alone(flaky, embedded) -> None:
    database, transport = flaky
    embedded.batch(BROKEN)

    def change(body: str) -> None:
        if "DROP VIEW" in body:
            transport.before = lambda _: None
            embedded.batch(['DROP VIEW "broken: it"', 'CREATE VIEW "broken: it" AS SELECT 2 AS a'])

    transport.before = change
    with pytest.raises(errors.LoadError, match="another connection changed t meanwhile; nothing was changed"):
        database.load(SMALL, "t")
    assert embedded.execute('SELECT a FROM "broken: it"').rows == [(2,)]
    assert "t" not in tables(embedded)


def test_a_staging_table_that_cannot_be_removed_is_named(flaky, embedded) -> None:
    database, transport = flaky

    def fail(body: str) -> None:
        if "INSERT OR ABORT INTO" in body or "DROP TABLE" in body:
            raise LOST

    transport.before = fail
    with pytest.raises(errors.LoadError) as caught:
        database.load(SMALL, "t")
    (left,) = tables(embedded)
    assert f"the table {left} may be left over" in caught.value.message


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (0.4, "adding the rows to t takes longer than the 5 s of a transaction"),
        (3.0, "another connection held the write lock"),  # the time is over before the first statement behind BEGIN
    ],
)
def test_an_append_that_takes_longer_than_a_transaction_may_changes_nothing(
    flaky, embedded, clock, step, message
) -> None:
    database, transport = flaky
    database.load(SMALL, "t")

    def slow_down(body: str) -> None:
        clock.step = step if "ORDER BY rowid" in body else 0.0  # seconds that pass at every look at the clock

    transport.before = slow_down
    with pytest.raises(errors.LoadError, match=f"{message}; nothing was changed"):
        database.load(SMALL, "t", if_exists="append")
    assert embedded.execute("SELECT count(*) FROM t").rows == [(3,)]
    assert tables(embedded) == ["t"]


# -- servers with less


def test_without_powers_rows_go_as_arguments(embedded, monkeypatch) -> None:
    monkeypatch.setattr(batches, "takes_records", lambda database: False)
    monkeypatch.setattr(batches, "ARGUMENTS", 20)
    mixed = [1, 0.1, "a", b"b", None] * 20
    frame = pd.DataFrame({
        "i": range(100), "f": [number / 7 for number in range(100)], "m": [number / 4 for number in range(100)],
        "b": [bytes([number]) for number in range(100)],
        "d": pd.date_range("2024", periods=100, unit="us"),
    })  # fmt: skip
    embedded.load(frame.assign(x=pd.Series(mixed, dtype=object)), "t")
    assert_frame_equal(embedded.query("SELECT i, f, m, b, d FROM t"), frame)
    assert [row[0] for row in embedded.execute("SELECT x FROM t").rows] == mixed


def test_a_database_in_utf_16_gets_rows_as_arguments(on_seed: Database) -> None:
    with on_seed.open_stream() as stream:
        stream.run([Stmt("PRAGMA encoding = 'UTF-16'"), Stmt("CREATE TABLE other(a)")], close=True)
    frame = pd.DataFrame({"a": ["é\0😀", None, ""], "b": [b"\xe9", b"", None], "f": [1 / 3, math.inf, -0.0]})
    on_seed.load(frame, "t")
    assert on_seed.execute("PRAGMA encoding").rows == [("UTF-16le",)]
    assert on_seed.execute("SELECT a, b, f = 9e999 FROM t").rows == [
        ("é\0😀", b"\xe9", 0),
        (None, b"", 1),
        ("", None, 0),
    ]


def test_rows_as_arguments_are_not_too_many_bytes_either(on_seed: Database, seed: SeedServer, monkeypatch) -> None:
    monkeypatch.setattr(batches, "takes_records", lambda database: False)
    monkeypatch.setattr(batches, "AIM", 10_000)
    monkeypatch.setattr(batches, "LIMIT", 20_000)
    frame = pd.DataFrame({"a": ["é" * 1_000] * 100 + ["x" * 50_000] + ["y"] * 100, "b": range(201)})
    on_seed.load(frame, "t")
    assert_frame_equal(on_seed.query("SELECT * FROM t"), frame)
    sizes = [len(call.body) for call in seed.posts]
    assert max(sizes) < 60_000  # the one row
    assert len(sizes) < 60
