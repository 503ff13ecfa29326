"""SQL that tries to access files, to load code or to change the settings of the service."""

from __future__ import annotations

import os
from contextlib import closing

import apsw
import pytest
from promises import Promise
from service_calls import CLOSE, caller_of, execute

from pipemagic.service.sqlite import functions

pytestmark = pytest.mark.promise(Promise.BOUNDARIES)

PATH = "/tmp/pipemagic-must-not-exist"

REACHING = [
    f"ATTACH '{PATH}' AS x",
    "ATTACH ':memory:' AS x",
    "ATTACH '' AS x",
    f"ATTACH 'file:{PATH}?mode=rwc' AS x",
    "DETACH main",
    f"VACUUM INTO '{PATH}'",
    "VACUUM INTO ''",
    f"VACUUM main INTO '{PATH}'",
    "SELECT load_extension('/lib/libc.so.6')",
    "SELECT load_extension('/lib/libc.so.6', 'main')",
    "SELECT readfile('/etc/passwd')",
    f"SELECT writefile('{PATH}', 'x')",
    "SELECT * FROM fsdir('/')",
    "SELECT lsmode(1)",
    "SELECT edit('x')",
    "SELECT * FROM zipfile('/etc/passwd')",
    "CREATE VIRTUAL TABLE z USING zipfile('/tmp/a.zip')",
    "CREATE VIRTUAL TABLE c USING csv(filename='/etc/passwd')",
    "CREATE VIRTUAL TABLE c USING vsv(filename='/etc/passwd')",
    "CREATE VIRTUAL TABLE d USING sqlite_dbpage",
    "SELECT * FROM sqlite_dbpage",
    "UPDATE sqlite_dbpage SET data = zeroblob(4096)",
    "SELECT * FROM sqlite_memstat",
    "SELECT * FROM sqlite_stmt",
    "SELECT * FROM bytecode('SELECT 1')",
    f"PRAGMA temp_store_directory = '{PATH}'",
    f"PRAGMA data_store_directory = '{PATH}'",
    "PRAGMA temp_store = 0",
    "PRAGMA writable_schema = ON",
    "PRAGMA writable_schema = RESET",
    "PRAGMA journal_mode = OFF",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA mmap_size = 100000000000",
    "PRAGMA page_size = 512",
    "PRAGMA max_page_count = 4294967294",
    "PRAGMA hard_heap_limit = 1",
    "PRAGMA soft_heap_limit = 1",
    "PRAGMA threads = 8",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA journal_size_limit = 0",
    "PRAGMA auto_vacuum = 1",
    "PRAGMA encoding = 'UTF-16'",
    "PRAGMA busy_timeout = 1000000000",
    "PRAGMA cache_size = 1000000000",
    "PRAGMA cell_size_check = OFF",
    "PRAGMA lock_status",
    "PRAGMA vdbe_trace = ON",
    "PRAGMA parser_trace = ON",
    "PRAGMA schema_version = 99",
    "UPDATE sqlite_master SET sql = 'x'",
    "DELETE FROM sqlite_schema",
    "INSERT INTO sqlite_master VALUES (1,2,3,4,5)",
    "SELECT fts3_tokenizer('simple')",
    "SELECT fts3_tokenizer('x', x'4141414141414141')",
    "DROP TABLE sqlite_master",
    "ALTER TABLE sqlite_master ADD COLUMN x",
    "CREATE TABLE sqlite_stat9(a)",
]
HARMLESS = {"PRAGMA cell_size_check = OFF"}  # a setting of the stream


def code(db, sql):
    answer = db.post(execute(sql), CLOSE)
    assert answer.status == 200, answer.body
    return answer.codes[0]


@pytest.mark.parametrize("sql", REACHING)
def test_access_outside_the_database_is_refused(db, tmp_path, sql):
    files = set(tmp_path.rglob("*"))
    if sql in HARMLESS:
        assert code(db, sql) == "ok"
    else:
        answer = db.post(execute(sql), CLOSE)
        if answer.codes[0] == "ok":  # it returned a value and set nothing
            assert sql.startswith("PRAGMA"), sql
            setting = sql.partition("=")[0]
            assert db.run(setting).rows() == caller_of(db.service, "untouched").run(setting).rows()
    assert not os.path.exists(PATH)
    assert {path for path in files ^ set(tmp_path.rglob("*")) if "untouched" not in str(path) and path.is_file()} <= {
        path for path in tmp_path.rglob("*") if path.name.startswith("primary.sqlite")
    }
    assert db.run("SELECT a FROM t").rows() == [["mine"]]
    assert db.run("PRAGMA integrity_check").rows() == [["ok"]]


MODULES = {
    "carray": "reads memory through a pointer that SQL cannot make",
    "dbstat": "reads page counts of the own database",
    "fts3": "tables of the own database; tokenizers are those built in",
    "fts3tokenize": "splits text",
    "fts4": "as fts3",
    "fts4aux": "reads an index of the own database",
    "fts5": "tables of the own database",
    "fts5vocab": "reads such an index",
    "geopoly": "tables of the own database",
    "rtree": "the same",
    "rtree_i32": "the same",
    "generate_series": "counts",
    "json_each": "unpacks a value",
    "json_tree": "unpacks a value",
    "pragma_": "authorized as the PRAGMA is",
}
"""Virtual tables of the SQLite in apsw, each with the reason why it is allowed."""


def test_every_virtual_table_module_was_reviewed(db):
    with closing(apsw.Connection(":memory:")) as connection:
        functions.install(connection)
        there = {name for (name,) in connection.execute("PRAGMA module_list")}
    assert {name for name in there if not name.startswith("pragma_")} <= set(MODULES)


FUNCTIONS = """
abs acos acosh asin asinh atan atan2 atanh avg bm25 ceil ceiling changes char coalesce concat concat_ws cos cosh corr
count cume_dist current_date current_time current_timestamp date date_trunc datetime degrees dense_rank exp first_value
floor format fts5 fts5_get_locale fts5_insttoken fts5_locale fts5_source_id geopoly_area geopoly_bbox geopoly_blob
geopoly_ccw geopoly_contains_point geopoly_debug geopoly_group_bbox geopoly_json geopoly_overlap geopoly_regular
geopoly_svg geopoly_within geopoly_xform glob group_concat hex highlight if ifnull iif instr json json_array
json_array_insert json_array_length json_error_position json_extract json_group_array json_group_object json_insert
json_object json_patch json_pretty json_quote json_remove json_replace json_set json_type json_valid jsonb jsonb_array
jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch
jsonb_remove jsonb_replace jsonb_set julianday lag last_insert_rowid last_value lead length like likelihood likely ln
log log10 log2 lower ltrim match matchinfo max median min mod nth_value ntile nullif octet_length offsets percent_rank
percentile percentile_cont percentile_disc pi pow power printf quote radians random randomblob rank regexp
regexp_replace regexpi replace round row_number rtreecheck rtreedepth rtreenode rtrim sign sin sinh snippet soundex
sqlite_compileoption_get sqlite_compileoption_used sqlite_log sqlite_source_id sqlite_version sqrt stddev stddev_pop
stddev_samp strftime string_agg substr substring subtype sum tan tanh time timediff total total_changes trim trunc
typeof unhex unicode unistr unistr_quote unixepoch unlikely upper var_pop var_samp variance vector
vector32 vector64 vector_distance_cos vector_distance_l2 vector_extract zeroblob -> ->>
"""
"""Functions that access only their arguments and the database (``sqlite_log`` writes to a log that is discarded)."""

REFUSED = {"load_extension", "fts3_tokenizer", "optimize"}


def test_every_function_was_reviewed(db):
    with closing(apsw.Connection(":memory:")) as connection:
        functions.install(connection)
        there = {name for (name,) in connection.execute("SELECT DISTINCT name FROM pragma_function_list")}
    assert there <= set(FUNCTIONS.split()) | REFUSED
    for name in REFUSED & there:
        for arguments in ("", "'x'", "'x', 'y'", "t"):
            assert code(db, f"SELECT {name}({arguments}) FROM t") != "ok"


def test_views_and_triggers_have_the_same_limits_as_statements(db):
    for body in (
        "SELECT load_extension('x')",
        "SELECT fts3_tokenizer('simple')",
        "SELECT * FROM pragma_writable_schema",
    ):
        db.post(execute(f"CREATE VIEW v AS {body}"), CLOSE)
        assert code(db, "SELECT * FROM v") != "ok"
        db.post(execute("DROP VIEW IF EXISTS v"), CLOSE)
    db.post(execute("CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT load_extension('x'); END"), CLOSE)
    assert db.post(execute("INSERT INTO t VALUES ('x')"), CLOSE).codes[0] in ("ok", "SQLITE_AUTH")


# Definitions of ALTER COLUMN that lack the end of a string, so that the text of another column's default would be read
# as SQL. {sql} contains no quotes; the mark {q} ends the string.
SMUGGLED = {
    "string": ("DEFAULT 'x", "c DEFAULT '); {sql}; --'"),
    "name": ('DEFAULT "x', "c DEFAULT '\"); {sql}; --'"),
    "backquoted name": ("DEFAULT `x", "c DEFAULT '`); {sql}; --'"),
    "bracketed name": ("DEFAULT [x", "c DEFAULT ']); {sql}; --'"),
    "blob": ("DEFAULT x'00", "c DEFAULT '); {sql}; --'"),
    "collation": ("COLLATE 'nocase", "c DEFAULT '); {sql}; --'"),
    "type": ("'text", "c DEFAULT '); {sql}; --'"),
    "second statement": ("TEXT); {sql}; CREATE TABLE u(x", "c"),
    "parameter": ("DEFAULT $x(", "c DEFAULT '); {sql}; --'"),
    "table of a query": ("TEXT) AS SELECT * FROM (SELECT 1", "c"),
    "second column": ("TEXT, d TEXT", "c"),
}


@pytest.mark.parametrize("name", SMUGGLED)
@pytest.mark.parametrize("kind", ["write", "create", "vacuum"])
def test_a_definition_of_a_column_is_never_sql(db, tmp_path, name, kind):
    other = caller_of(db.service, "other")
    other.run("CREATE TABLE secret(x)", "INSERT INTO secret VALUES ('kept')")
    (path,) = [path for path in tmp_path.rglob("primary.sqlite-wal") if b"secret" in path.read_bytes()]
    attached = os.path.relpath(path.with_name("primary.sqlite"))
    assert not set(attached) & set("'\"`[]")
    sql = {
        "write": f"ATTACH char({','.join(str(ord(letter)) for letter in attached)}) AS v; UPDATE v.secret SET x = 1",
        "create": f"ATTACH char({','.join(str(ord(letter)) for letter in PATH)}) AS v; CREATE TABLE v.t(x)",
        "vacuum": f"VACUUM INTO char({','.join(str(ord(letter)) for letter in PATH)})",
    }[kind]
    definition, column = (text.format(sql=sql) for text in SMUGGLED[name])
    db.run(f"CREATE TABLE v(a, b, {column})", "CREATE INDEX i ON v(c)", "INSERT INTO v(a, b) VALUES (1, 2)")
    before = db.run("SELECT sql FROM sqlite_schema").rows()
    assert len(before) == 3
    for start in ("b", '"b"', "b INTEGER"):
        assert code(db, f"ALTER TABLE v ALTER COLUMN b TO {start} {definition}") != "ok"
    assert other.run("SELECT x FROM secret").rows() == [["kept"]]
    assert not os.path.exists(PATH)
    answer = db.run("SELECT sql FROM sqlite_schema", "SELECT a, b FROM v INDEXED BY i WHERE c IS NOT 0")
    assert (answer.rows(0), answer.rows(1)) == (before, [["1", "2"]])
    assert db.run("PRAGMA integrity_check").rows() == [["ok"]]


@pytest.mark.parametrize("name", ["table_list", "table_xinfo", "index_list", "index_xinfo"])
def test_tables_in_the_place_of_pragmas_do_not_affect_alter_column(db, name):
    """Virtual tables hide SQLite's own of the same name; their rows must not become SQL, or choose the table."""
    columns = "schema, name, type, wr, strict, cid, hidden, origin, coll, seqno, key"
    schema = f"main.sqlite_schema; ATTACH '{PATH}' AS x; SELECT 1 FROM main"
    text = {"type": "text", "value": schema}
    db.run(f"CREATE VIRTUAL TABLE pragma_{name} USING fts5({columns})", "CREATE TABLE v(a, b)")
    row = execute(f"INSERT INTO pragma_{name}(schema, name, cid) VALUES (?, ?, 0)", text, text)
    assert db.post(row, CLOSE).codes == ["ok", "ok"]
    assert code(db, "ALTER TABLE v ALTER COLUMN b TO b TEXT") == "ok"
    assert db.run("SELECT sql FROM sqlite_schema WHERE name = 'v'").rows() == [["CREATE TABLE v(a, b TEXT)"]]
    assert not os.path.exists(PATH)


def test_arguments_are_never_sql(db):
    text = {"type": "text", "value": "'; DROP TABLE t; --"}
    assert db.post(execute("SELECT ?", text), CLOSE).rows() == [["'; DROP TABLE t; --"]]
    assert db.run("SELECT a FROM t").rows() == [["mine"]]
