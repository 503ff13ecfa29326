"""Statements that read, and others that write or may write, with their names in errors."""

READS = [
    "SELECT 1", "VALUES (1)", "WITH x AS (SELECT 1) SELECT * FROM x", "EXPLAIN DELETE FROM t", "BEGIN", "RELEASE s",
    "EXPLAIN QUERY PLAN INSERT INTO t VALUES (1)", "BEGIN DEFERRED", "COMMIT", "END", "ROLLBACK", "SAVEPOINT s",
    "PRAGMA table_info(t)", "PRAGMA main.table_info('t')", "PRAGMA schema_version", "SELECT * FROM pragma_table_list",
    "SELECT name FROM t WHERE name LIKE 'pragma_%'",
    "SELECT 'DELETE FROM t', optimize FROM t", "-- DELETE\nSELECT 1", "SELECT replace('a', 'b', 'c')", "", ";", "-- x",
    "WITH replace AS (SELECT 1) SELECT 1", "PRAGMA mmap_size", "PRAGMA threads", "PRAGMA analysis_limit",
    "PRAGMA stats", "PRAGMA wal_autocheckpoint", "PRAGMA locking_mode", "PRAGMA encoding", "PRAGMA database_list",
]  # fmt: skip

WRITES = {
    "INSERT INTO t VALUES (1)": "INSERT", "replace into t values (1)": "REPLACE", "DELETE FROM t": "DELETE",
    "UPDATE t SET a = 1 WHERE 1": "UPDATE", "WITH x AS (SELECT 1) DELETE FROM t": "DELETE", "DROP TABLE t": "DROP",
    "WITH select_ AS (SELECT 1), y(a) AS NOT MATERIALIZED (SELECT 1) INSERT INTO t SELECT 1": "INSERT",
    "CREATE TEMP TABLE x (a)": "CREATE", "ALTER TABLE t RENAME TO u": "ALTER", "VACUUM": "VACUUM",
    "VACUUM INTO 'x'": "VACUUM", "ANALYZE": "ANALYZE", "REINDEX": "REINDEX", "ATTACH 'x' AS y": "ATTACH",
    "PRAGMA user_version = 3": "PRAGMA user_version", "PRAGMA main . user_version(3)": "PRAGMA user_version",
    "PRAGMA query_only = 0": "PRAGMA query_only", "PRAGMA \"query_only\"(0)": "PRAGMA query_only",
    "PRAGMA foreign_keys": "PRAGMA foreign_keys", "PRAGMA schema_version = 9": "PRAGMA schema_version",
    "PRAGMA threads = 4": "PRAGMA threads", "PRAGMA locking_mode(EXCLUSIVE)": "PRAGMA locking_mode",
    "PRAGMA optimize": "PRAGMA optimize", "PRAGMA wal_checkpoint": "PRAGMA wal_checkpoint", "PRAGMA": "PRAGMA ",
    "EXPLAIN PRAGMA user_version = 3": "PRAGMA user_version", "SELECT 1; DELETE FROM t": "DELETE",
    "EXPLAIN QUERY PLAN PRAGMA user_version = 3": "PRAGMA user_version",
    "/* SELECT */ DELETE FROM t": "DELETE", "\ufeffDELETE FROM t": "DELETE", ";;DELETE FROM t": "DELETE",
    "SELECT * FROM 'pragma_optimize'": "pragma_optimize", "SELECT * FROM t, 'PRAGMA_optimize'(2)": "pragma_optimize",
    "SELECT * FROM main.'pragma_optimize'": "pragma_optimize",
    "SELECT * FROM pragma_optimize": "pragma_optimize", "SELECT * FROM [PRAGMA_user_version]": "pragma_user_version",
    "SELECT optimize (t) FROM t": "optimize()", "SELECT load_extension('x')": "load_extension()",
    "SELECT eval('DELETE FROM t')": "eval()", "VALUES (fileio_write('x', 'y'))": "fileio_write()",
    "(DELETE FROM t)": "a statement that begins with '('", "é DELETE": "É",
    "WITH x AS (SELECT 1": "a statement that begins with",
    "INSERT INTO t SELECT 1 RETURNING *": "INSERT", "BEGIN IMMEDIATE": "BEGIN IMMEDIATE",
    "begin /* now */ exclusive transaction": "BEGIN EXCLUSIVE", "SELECT 1; BEGIN IMMEDIATE": "BEGIN IMMEDIATE",
}  # fmt: skip
