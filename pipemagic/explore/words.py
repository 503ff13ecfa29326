"""SQLite's keywords and functions, and how a name is written so that it is one."""

from __future__ import annotations

import re

from pipemagic.sql import FIRST_LETTER, LETTER

# https://www.sqlite.org/lang_keywords.html
_KEYWORDS = """
    ABORT ACTION ADD AFTER ALL ALTER ALWAYS ANALYZE AND AS ASC ATTACH AUTOINCREMENT BEFORE BEGIN BETWEEN BY CASCADE
    CASE CAST CHECK COLLATE COLUMN COMMIT CONFLICT CONSTRAINT CREATE CROSS CURRENT CURRENT_DATE CURRENT_TIME
    CURRENT_TIMESTAMP DATABASE DEFAULT DEFERRABLE DEFERRED DELETE DESC DETACH DISTINCT DO DROP EACH ELSE END ESCAPE
    EXCEPT EXCLUDE EXCLUSIVE EXISTS EXPLAIN FAIL FILTER FIRST FOLLOWING FOR FOREIGN FROM FULL GENERATED GLOB GROUP
    GROUPS HAVING IF IGNORE IMMEDIATE IN INDEX INDEXED INITIALLY INNER INSERT INSTEAD INTERSECT INTO IS ISNULL JOIN
    KEY LAST LEFT LIKE LIMIT MATCH MATERIALIZED NATURAL NO NOT NOTHING NOTNULL NULL NULLS OF OFFSET ON OR ORDER
    OTHERS OUTER OVER PARTITION PLAN PRAGMA PRECEDING PRIMARY QUERY RAISE RANGE RECURSIVE REFERENCES REGEXP REINDEX
    RELEASE RENAME REPLACE RESTRICT RETURNING RIGHT ROLLBACK ROW ROWS SAVEPOINT SELECT SET TABLE TEMP TEMPORARY THEN
    TIES TO TRANSACTION TRIGGER UNBOUNDED UNION UNIQUE UPDATE USING VACUUM VALUES VIEW VIRTUAL WHEN WHERE WINDOW WITH
    WITHOUT
"""
KEYWORDS = frozenset(_KEYWORDS.split())

PHRASES = (
    "ALTER TABLE", "CREATE TABLE", "CREATE INDEX", "CREATE UNIQUE INDEX", "CREATE VIEW", "CREATE TRIGGER",
    "CREATE TEMP TABLE", "CROSS JOIN", "DELETE FROM", "DROP TABLE", "DROP VIEW", "DROP INDEX", "DROP TRIGGER",
    "EXPLAIN QUERY PLAN", "FULL JOIN", "GROUP BY", "IF EXISTS", "IF NOT EXISTS", "INNER JOIN", "INSERT INTO",
    "INSERT OR REPLACE INTO", "IS NOT NULL", "IS NULL", "LEFT JOIN", "NOT EXISTS", "NOT IN", "NOT LIKE",
    "NOT NULL", "ON CONFLICT", "ORDER BY", "PARTITION BY", "PRIMARY KEY", "FOREIGN KEY", "UNION ALL", "WITH RECURSIVE",
)  # fmt: skip
"""What is written together is offered together."""

STARTS = (
    "SELECT", "WITH", "INSERT INTO", "UPDATE", "DELETE FROM", "CREATE TABLE", "BEGIN", "COMMIT", "ROLLBACK",
    "VALUES", "ALTER TABLE", "DROP TABLE", "CREATE INDEX", "CREATE VIEW", "EXPLAIN QUERY PLAN", "PRAGMA",
    "REPLACE INTO", "SAVEPOINT", "RELEASE", "ANALYZE", "CREATE UNIQUE INDEX", "CREATE TRIGGER", "CREATE TEMP TABLE",
    "DROP VIEW", "DROP INDEX", "DROP TRIGGER", "INSERT OR REPLACE INTO", "EXPLAIN", "REINDEX", "VACUUM",
    "WITH RECURSIVE", "CREATE", "DROP", "ALTER", "INSERT", "DELETE", "REPLACE",
)  # fmt: skip
"""What a statement can begin with, the usual first."""

NEXT = {
    "SELECT": ("FROM", "AS", "OVER", "FILTER", "WHERE", "UNION ALL", "ORDER BY", "LIMIT"),
    "FROM": (
        "JOIN", "LEFT JOIN", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "ON", "USING", "AS", "INNER JOIN", "CROSS JOIN",
        "FULL JOIN", "UNION ALL",
    ),
    "ON": ("AND", "WHERE", "JOIN", "LEFT JOIN", "GROUP BY", "ORDER BY", "LIMIT", "OR"),
    "WHERE": (
        "AND", "OR", "IN", "LIKE", "BETWEEN", "IS NULL", "IS NOT NULL", "NOT IN", "GROUP BY", "ORDER BY", "LIMIT",
        "COLLATE", "RETURNING",
    ),
    "HAVING": ("AND", "OR", "ORDER BY", "LIMIT"),
    "GROUP": ("HAVING", "ORDER BY", "LIMIT", "WINDOW"),
    "ORDER": ("DESC", "ASC", "LIMIT", "NULLS LAST", "NULLS FIRST", "COLLATE"),
    "LIMIT": ("OFFSET",),
    "INTO": ("VALUES", "SELECT", "DEFAULT VALUES", "WITH"),
    "UPDATE": ("SET",),
    "SET": ("WHERE", "FROM", "RETURNING"),
    "VALUES": ("ON CONFLICT", "RETURNING"),
    "WITH": ("SELECT", "INSERT INTO", "UPDATE", "DELETE FROM", "AS"),
}  # fmt: skip
"""What usually comes after something whole in a clause; the other keywords follow."""

AFTER = {
    "ORDER": ("BY",), "GROUP": ("BY",), "PARTITION": ("BY",), "LEFT": ("JOIN", "OUTER JOIN"),
    "RIGHT": ("JOIN", "OUTER JOIN"), "FULL": ("JOIN", "OUTER JOIN"), "INNER": ("JOIN",), "CROSS": ("JOIN",),
    "OUTER": ("JOIN",), "NATURAL": ("JOIN", "LEFT JOIN"), "IS": ("NULL", "NOT NULL", "NOT", "DISTINCT FROM"),
    "INSERT": ("INTO", "OR REPLACE INTO", "OR IGNORE INTO"), "DELETE": ("FROM",), "REPLACE": ("INTO",),
    "UNION": ("ALL", "SELECT"), "INTERSECT": ("SELECT",), "EXCEPT": ("SELECT",), "NULLS": ("FIRST", "LAST"),
    "BEGIN": ("IMMEDIATE", "DEFERRED", "EXCLUSIVE", "TRANSACTION"), "ROLLBACK": ("TO", "TRANSACTION"),
    "COMMIT": ("TRANSACTION",), "ALTER": ("TABLE",), "DO": ("NOTHING", "UPDATE SET"),
    "CREATE": ("TABLE", "VIEW", "INDEX", "UNIQUE INDEX", "TRIGGER", "TEMP TABLE", "TEMP VIEW", "VIRTUAL TABLE"),
    "DROP": ("TABLE", "VIEW", "INDEX", "TRIGGER"), "PRIMARY": ("KEY",), "FOREIGN": ("KEY",),
}  # fmt: skip
"""What alone can come after a keyword."""

OF_COLUMN = (
    "INTEGER", "TEXT", "REAL", "BLOB", "NUMERIC", "BOOLEAN", "DATE", "DATETIME", "TIMESTAMP", "PRIMARY KEY",
    "NOT NULL", "UNIQUE", "DEFAULT", "REFERENCES", "CHECK", "FOREIGN KEY", "COLLATE", "GENERATED ALWAYS AS",
    "CONSTRAINT", "AUTOINCREMENT", "ON DELETE CASCADE", "ON UPDATE CASCADE",
)  # fmt: skip
"""What the definition of a column or table is made of."""

OF_ALTER = ("ADD COLUMN", "DROP COLUMN", "RENAME TO", "RENAME COLUMN")

PRAGMAS = (
    "table_list", "table_info(", "table_xinfo(", "foreign_keys", "foreign_key_list(", "foreign_key_check",
    "index_list(", "index_info(", "integrity_check", "quick_check", "schema_version", "user_version", "application_id",
    "encoding", "page_count", "page_size", "compile_options", "function_list", "collation_list", "recursive_triggers",
    "optimize", "case_sensitive_like", "automatic_index", "cache_size", "query_only",
)  # fmt: skip

EXPRESSION = (
    "CASE", "CAST", "NOT", "EXISTS", "NULL", "DISTINCT", "CURRENT_TIMESTAMP", "CURRENT_DATE", "CURRENT_TIME",
    "SELECT", "NOT EXISTS",
)  # fmt: skip
"""What an expression can begin with."""

BEFORE_EXPRESSION = frozenset(
    ["SELECT", "DISTINCT", "ALL", "WHERE", "AND", "OR", "NOT", "ON", "HAVING", "BY", "SET", "CASE", "WHEN", "THEN",
     "ELSE", "IN", "LIKE", "GLOB", "REGEXP", "MATCH", "BETWEEN", "ESCAPE", "LIMIT", "OFFSET", "RETURNING", "VALUES"]
)  # fmt: skip
"""After these no clause begins."""

BEFORE_OPERAND = BEFORE_EXPRESSION | frozenset(
    ["IS", ",", "(", "=", "==", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "/", "%", "||", "->", "->>"]
)
"""After these an operand begins; ``*`` may be all columns."""

# https://www.sqlite.org/lang_corefunc.html and its neighbours; what a server may lack (generate_series) is not here.
_FUNCTIONS = {
    "aggregate": """
        avg count group_concat max min string_agg sum total json_group_array json_group_object
    """,
    "window": """
        cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number
    """,
    "function": """
        abs changes char coalesce concat concat_ws format glob hex ifnull iif instr last_insert_rowid length like
        likelihood likely lower ltrim nullif octet_length printf quote random randomblob replace round rtrim sign
        soundex sqlite_source_id sqlite_version substr substring total_changes trim typeof unhex unicode unlikely
        upper zeroblob date datetime julianday strftime time timediff unixepoch
        acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow
        power radians sin sinh sqrt tan tanh trunc
        json json_array json_array_length json_error_position json_extract json_insert json_object json_patch
        json_pretty json_quote json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_extract
        jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set
    """,
    "table function": "json_each json_tree",
}

FUNCTIONS: dict[str, str] = {name: kind for kind, names in _FUNCTIONS.items() for name in names.split()}
"""The built-in functions and of which kind each is."""

_NO_ARGUMENTS = """
    changes last_insert_rowid pi random sqlite_source_id sqlite_version total_changes cume_dist dense_rank
    percent_rank rank row_number
"""
NO_ARGUMENTS = frozenset(_NO_ARGUMENTS.split())

_WORD = re.compile(rf"{FIRST_LETTER}{LETTER}*\Z")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
NAMES = frozenset(["KEY", "ACTION", "PLAN", "QUERY", "VIEW", "FIRST", "LAST"])
"""Keywords that are a name as they stand, on every server."""


def written(name: str) -> str:
    """Give a name as SQL has it: in quotes where it needs them."""
    if _WORD.match(name) and (name.upper() not in KEYWORDS or name.upper() in NAMES):
        return name
    return quoted(name, '"')


def quoted(name: str, quote: str) -> str:
    """Give a name in quotes that open with ``quote``."""
    if quote == "[":
        return f"[{name}]"
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


def can_be_shown(name: str) -> bool:
    """Whether a list can hold the name: none with control characters, or those that turn the text around."""
    return bool(name) and not _UNSEEN.search(name)


def printable(text: str) -> str:
    """Return the text in one line without control characters, each replaced by U+FFFD."""
    return _UNSEEN.sub("\ufffd", text)
