"""Statements of other databases and commands of their shells, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath

from pipemagic.explore.hints.dialects import Place
from pipemagic.explore.hints.words import Span, Words
from pipemagic.explore.sqlite_reference import quote_if_needed
from pipemagic.sql import unquote

# -- commands of shells: `.tables` of sqlite3, `\dt` of psql

_COMMAND = re.compile(r"\s*([.\\]\w+)\+?[ \t]*([^\n;]*)")
_COMMANDS = {
    ".tables \\dt \\dv \\d": "%pipedb tables lists the tables",
    ".databases .dbinfo \\l": "%pipedb databases lists the databases",
    ".schema .fullschema": "%pipedb schema shows the CREATE statements",
    ".mode .headers .header .width .nullvalue .separator .timer .echo .changes .bail \\x \\timing \\pset":
        "leave the line out: it is a setting of another shell",
    ".quit .exit \\q": "leave the line out: it ends another shell",
    ".open .connect \\c \\connect": "%pipedb connect opens a database",
    ".dump": "%pipedb schema shows the CREATE statements; pipemagic db export, in a shell, writes the whole database",
    ".read \\i \\ir": "%sql --file FILE runs the SQL in a file",
    ".import \\copy": "%pipedb load FILE --table TABLE writes a file into a table",
    ".output .once .excel \\o \\g": "%%sql --to-csv FILE writes a result to a file",
    ".indexes .indices \\di": "%pipedb schema TABLE shows the indexes of a table",
    ".help \\? \\h": "%pipedb help shows the commands",
}  # fmt: skip
_BY_COMMAND = {command: hint for commands, hint in _COMMANDS.items() for command in commands.split()}


def of_command(text: str, offset: int) -> str:
    """Return what to write instead of a command of sqlite3 or psql at an offset; '' for anything else."""
    line_start = text.rfind("\n", 0, offset) + 1
    match = _COMMAND.match(text, line_start)
    if match is None or text[line_start:offset].strip(" \t"):
        return ""
    command, rest = match[1], match[2].strip()
    words = rest.split()
    if command in ("\\d", "\\dt") and words:
        return f"%pipedb columns {words[0]}"
    if command == ".schema" and words:
        return f"%pipedb schema {words[0]}"
    if command in (".read", "\\i", "\\ir") and words:
        return f"%sql --file {rest}"
    if command == ".import" and len(words) >= 2 and not words[0].startswith("-"):
        return f"%pipedb load {words[-2]} --table {words[-1]}"
    if command == "\\copy":
        return _copy(Words(rest), 0) or _BY_COMMAND[command]
    return _BY_COMMAND.get(command, "")


# -- statements that SQLite does not have


def _copy(words: Words, start: int) -> str:
    """COPY flights FROM 'a.csv', COPY flights TO 'a.csv', COPY (SELECT ...) TO 'a.csv'."""
    source = words.operand_after(start)
    if source is None:
        return ""
    end = source.end
    if words.word(source.end) not in ("FROM", "TO") and words.word(source.end - 1) == ")" and words.is_name(start):
        return ""
    direction, file = words.word(end), words.token(end + 1)
    if direction not in ("FROM", "TO") or file is None or file.kind != "string":
        return ""
    path = _argument(unquote(file.text))
    if direction == "FROM":
        return f"%pipedb load {path} --table {words.text(source)} --append"
    query = words.text(source)
    query = query[1:-1] if query.startswith("(") else f"SELECT * FROM {query}"
    option = "--to-parquet" if path.lower().endswith(".parquet") else "--to-csv"
    return f"%sql {option} {path} {query}"


def _argument(path: str) -> str:
    return f"'{path}'" if " " in path else path


def _copy_statement(place: Place) -> str:
    return _copy(place.words, 1) or "%pipedb load FILE --table TABLE writes a file into a table"


def _load_data(place: Place) -> str:
    words = place.words
    file = next((token for token in words.tokens if token.kind == "string"), None)
    at = next((at for at in range(len(words)) if words.words(at, 2) == ["INTO", "TABLE"]), None)
    if file is None or at is None or words.word(1) != "DATA":
        return ""
    return f"%pipedb load {_argument(unquote(file.text))} --table {words.text(Span(at + 2, at + 3))} --append"


def _show(place: Place) -> str:
    words = place.words
    rest = words.words(1, 2)
    if rest == ["CREATE", "TABLE"]:
        return f"%pipedb schema {words.text(Span(3, 4))}".rstrip()
    if rest[0] == "FULL":
        rest = words.words(2, 2)
    at = next((at for at in range(len(words)) if words.word(at) in ("FROM", "IN")), None)
    table = "" if at is None else f" {words.text(Span(at + 1, at + 2))}"
    if rest[0] in ("COLUMNS", "FIELDS"):
        return f"%pipedb columns{table}" if table else "%pipedb columns TABLE"
    if rest[0] in ("INDEX", "INDEXES", "KEYS"):
        return f"%pipedb schema{table}"
    if rest[0] in ("DATABASES", "SCHEMAS"):
        return "%pipedb databases"
    return "%pipedb tables" if rest[0] in ("TABLES", "VIEWS", "") else ""


def _describe(place: Place) -> str:
    words = place.words
    at = 1 + (words.word(1) in ("TABLE", "EXTENDED", "FORMATTED"))
    if words.word(at) in ("SELECT", "WITH"):
        return f"%sql --dry-run {words.text(Span(at, len(words)))}"
    return f"%pipedb columns {words.text(Span(at, len(words)))}" if words.token(at) else "%pipedb columns TABLE"


def of_program(text: str) -> str:
    """Return what to write instead of a statement that sets a variable, or another end of statements."""
    words = Words(text)
    return _FIRST[words.word(0)](Place(words, 0, text, {}))


def _declare(place: Place) -> str:
    """DECLARE @low INT = 5; the name may be one of MySQL, without the sign."""
    words = place.words
    name = words.text(Span(1, 2)).lstrip("@")
    equal = next((at for at in range(len(words)) if words.word(at) in ("=", "DEFAULT")), None)
    value = "" if equal is None else words.text(Span(equal + 1, len(words)))
    if not name.isidentifier():
        return _program(place)
    return f"assign the variable in Python, {name} = {value or '...'}, and use :{name} in SQL"


def _set(place: Place) -> str:
    words = place.words
    token = words.token(1)
    if token is None:
        return ""
    name = words.name(1) if token.kind == "word" else token.text.lstrip("@:$") if token.kind == "param" else ""
    operator = words.word(2)
    if name.isidentifier() and operator in ("=", "TO", ":") and len(words) > 3 and token.kind == "param":
        value = words.text(Span(3 + (words.word(3) == "="), len(words)))
        return f"assign the variable in Python, {name} = {value}, and use :{name} in SQL"
    if name.lower() == "foreign_key_checks":
        return "PRAGMA foreign_keys = OFF or ON does this"
    if name.isidentifier() and operator == "=" and words.literal(Span(3, len(words))) is not None:
        return (
            f"SQLite has no SET: PRAGMA changes settings; as a variable, write {name} = "
            f"{words.text(Span(3, len(words)))} in a Python cell, and :{name} in SQL"
        )
    return "SQLite has no SET: leave the line out; PRAGMA changes settings"


def _use(place: Place) -> str:
    name = place.words.text(Span(1, len(place.words)))
    return f"%pipedb use {name} makes another connection the current one" if name else ""


def _truncate(place: Place) -> str:
    words = place.words
    start = 1 + (words.word(1) == "TABLE")
    name = words.operand_after(start)
    if name is None or name.end != len(words):
        return ""
    return f"write %sql --confirm DELETE FROM {words.text(name)}"


def _merge(place: Place) -> str:
    words = place.words
    start = 1 + (words.word(1) == "INTO")
    table = words.operand_after(start)
    if table is None:
        return ""
    return f"SQLite has no MERGE: INSERT INTO {words.text(table)} with ON CONFLICT DO UPDATE inserts or updates rows"


def _pivot(place: Place) -> str:
    words = place.words
    at = {words.word(at): at for at in range(len(words)) if words.word(at) in ("ON", "USING")}
    if words.word(0) == "UNPIVOT":
        return "SQLite has no UNPIVOT: select the rows, and use melt() of the DataFrame"
    if not {"ON", "USING"} <= at.keys() or words.arguments(at["USING"] + 1) is None:
        return "SQLite has no PIVOT: select the rows, and use pivot_table() of the DataFrame"
    arguments = words.arguments(at["USING"] + 1) or []
    values = words.text(arguments[0]) if len(arguments) == 1 else ""
    column, function = words.text(Span(at["ON"] + 1, at["ON"] + 2)), words.word(at["USING"] + 1).lower()
    if function not in ("sum", "min", "max", "count") or not values.isidentifier() or not column.isidentifier():
        return "SQLite has no PIVOT: select the rows, and use pivot_table() of the DataFrame"
    return (
        "SQLite has no PIVOT: select the rows, and use "
        f"pivot_table(columns='{column}', values='{values}', aggfunc='{function}') of the DataFrame"
    )


def _following(prefix: str) -> Callable[[Place], str]:
    """Return a rule whose hint is a text and the words behind the first one."""
    return lambda place: f"{prefix} {place.words.text(Span(1, len(place.words)))}" if len(place.words) > 1 else ""


def _rename(place: Place) -> str:
    words = place.words
    if words.word(1) != "TABLE" or words.word(3) != "TO" or len(words) != 5:
        return ""
    return f"write ALTER TABLE {words.text(Span(2, 5)).replace(' to ', ' TO ').replace(' TO ', ' RENAME TO ', 1)}"


def _lock(_: Place) -> str:
    return "SQLite has no table locks: BEGIN IMMEDIATE locks the database for writing"


def _access(_: Place) -> str:
    return "SQLite has no users or privileges: a token gives access, and %pipedb create-token creates one"


def _program(place: Place) -> str:
    return f"SQLite has no {place.words.word(0)}: write the steps in Python"


def _print(place: Place) -> str:
    return f"write SELECT {place.words.text(Span(1, len(place.words)))}" if len(place.words) > 1 else ""


_FIRST: dict[str, Callable[[Place], str]] = {
    "COPY": _copy_statement, "LOAD": _load_data, "SHOW": _show, "DESCRIBE": _describe, "DESC": _describe, "SET": _set,
    "USE": _use, "TRUNCATE": _truncate, "MERGE": _merge, "PIVOT": _pivot, "UNPIVOT": _pivot,
    "SUMMARIZE": _following("%pipedb profile"), "RENAME": _rename, "LOCK": _lock, "UNLOCK": _lock,
    "GRANT": _access, "REVOKE": _access, "DENY": _access, "DECLARE": _declare, "EXEC": _program, "EXECUTE": _program,
    "CALL": _program, "DO": _program, "WHILE": _program, "PRINT": _print,
    "OPTIMIZE": lambda _: "write VACUUM",
    "START": lambda place: "write BEGIN" if place.words.word(1) == "TRANSACTION" else "",
    "GO": lambda _: "leave GO out, and end each statement with a semicolon",
    "DELIMITER": lambda _: "leave DELIMITER out: a trigger ends with END;",
}  # fmt: skip


# -- forms of statements that SQLite has


def _create(place: Place) -> str:
    words, at = place.words, place.index
    if words.words(1, 2) == ["OR", "REPLACE"] or words.words(1, 2) == ["OR", "ALTER"]:
        kind_at = 3 + (words.word(3) in ("TEMP", "TEMPORARY", "UNIQUE"))
        kind, name = words.word(kind_at), words.operand_after(kind_at + 1)
        if kind in ("TABLE", "VIEW", "INDEX", "TRIGGER") and name is not None:
            name = name if words.word(name.end - 1) != ")" else Span(name.start, words.at(
                words.tokens[name.start].start) + 1)  # fmt: skip
            return f"write DROP {kind} IF EXISTS {words.text(name)}; in front, and CREATE without OR REPLACE"
        return _object(kind)
    if at == 1 or (at == 2 and place.before == "MATERIALIZED"):
        return _index_kind(words) or _object(words.word(1))
    return _create_table(place) or _create_index(place)


def _index_kind(words: Words) -> str:
    if words.word(1) in ("CLUSTERED", "NONCLUSTERED", "FULLTEXT") and words.word(2) == "INDEX":
        return f"leave {words.word(1)} out"
    return ""


def _object(kind: str) -> str:
    hints = {
        "FUNCTION": "SQLite has no CREATE FUNCTION: write the expression, or compute it in Python",
        "PROCEDURE": "SQLite has no procedures: write the steps in Python",
        "PROC": "SQLite has no procedures: write the steps in Python",
        "DATABASE": "%pipedb create-database NAME creates a database",
        "SCHEMA": "SQLite has no schemas: all tables of a database are in main",
        "SEQUENCE": "SQLite has no sequences: an INTEGER PRIMARY KEY numbers the rows",
        "TYPE": "SQLite has no CREATE TYPE: write TEXT with a CHECK",
        "DOMAIN": "SQLite has no CREATE DOMAIN: write TEXT with a CHECK",
        "EXTENSION": "leave the line out: SQLite has no CREATE EXTENSION",
        "MATERIALIZED": "SQLite has no materialized views: write CREATE VIEW, or CREATE TABLE ... AS",
        "USER": "SQLite has no users or privileges: a token gives access, and %pipedb create-token creates one",
        "ROLE": "SQLite has no users or privileges: a token gives access, and %pipedb create-token creates one",
        "LOGIN": "SQLite has no users or privileges: a token gives access, and %pipedb create-token creates one",
    }
    return hints.get(kind, "")


def _create_table(place: Place) -> str:
    words, at = place.words, place.index
    table_at = next((at for at in range(1, 4) if words.word(at) == "TABLE"), None)
    if table_at is None:
        return ""
    name = table_at + 1 + 3 * (words.words(table_at + 1, 3) == ["IF", "NOT", "EXISTS"])
    if words.word(at) == "LIKE" and at == name + 1 and words.is_name(at + 1):
        source = words.text(Span(at + 1, at + 2))
        return (
            f"write CREATE TABLE {words.text(Span(name, at))} AS SELECT * FROM {source} WHERE false, "
            "which copies no keys"
        )
    if words.around(at) is None:
        option = next((words.word(step) for step in (at, at - 1) if words.word(step) in _OPTIONS), "")
        first = at - (words.word(at) not in _OPTIONS)
        written = words.text(Span(first, len(words)))
        return (
            f"leave {written if len(written) <= _SHORT else words.text(Span(first, first + 2))} out" if option else ""
        )
    if {place.word, place.before} & {"AUTO_INCREMENT", "AUTOINCREMENT", "IDENTITY"}:
        return _numbered(words, at)
    if place.before == "ENUM" or (place.function is not None and words.word(place.function) == "ENUM"):
        return _enum(words, place)
    if words.words(at, 3) == ["FOREIGN", "KEY", "REFERENCES"]:
        return "leave FOREIGN KEY out"
    start, end = _definition(words, at)
    if words.word(start) in ("KEY", "INDEX") and words.word(start + 2) == "(":
        columns = words.text(Span(start + 2, end))
        index, table = words.text(Span(start + 1, start + 2)), words.text(Span(name, name + 1))
        return f"write CREATE INDEX {index} ON {table} {columns} after the CREATE TABLE"
    if place.word == "ON" and words.word(at + 1) == "UPDATE":
        return "leave ON UPDATE out; a trigger can set the column"
    if place.word == "(" and words.word(at - 2) == "DEFAULT":
        return "write DEFAULT CURRENT_TIMESTAMP" if place.before == "NOW" else "put the expression in parentheses"
    return ""


_SHORT = 40  # characters of the options of a table that a hint repeats
_OPTIONS = ("ENGINE", "CHARSET", "CHARACTER", "COLLATE", "DEFAULT", "COMMENT", "TABLESPACE",
            "PARTITION", "DISTKEY", "SORTKEY")  # fmt: skip


def _definition(words: Words, at: int) -> Span:
    """Return the definition of a column of CREATE TABLE around an index."""
    opening = next((index for index in range(at) if words.word(index) == "("), None)
    closing = None if opening is None else words.closing(opening)
    if opening is None or closing is None:
        return Span(at, at)
    return next((span for span in words.split(Span(opening + 1, closing)) if span.start <= at < span.end), Span(at, at))


def _numbered(words: Words, at: int) -> str:
    column = _definition(words, at)
    name = words.text(Span(column.start, column.start + 1))
    key = next(
        (step for step in range(column.end, len(words)) if words.words(step, 3) == ["PRIMARY", "KEY", "("]), None
    )
    closing = None if key is None else words.closing(key + 2)
    remark = "" if key is None or closing is None else f"; leave {words.text(Span(key, closing + 1))} out"
    return f"write {name} INTEGER PRIMARY KEY, which numbers the rows{remark}"


def _enum(words: Words, place: Place) -> str:
    opening = place.index - 1 if place.before == "(" else place.index
    closing = words.closing(opening) if words.word(opening) == "(" else None
    name = words.text(Span(opening - 2, opening - 1))
    if closing is None or not name:
        return ""
    return f"write {name} TEXT CHECK ({name} IN {words.text(Span(opening, closing + 1))})"


def _create_index(place: Place) -> str:
    words, at = place.words, place.index
    if "INDEX" not in words.words(1, 2):
        return ""
    if place.word == "INCLUDE" and place.before == ")":
        opening, more = words.opening(at - 1), words.arguments(at)
        if opening is not None and more is not None:
            return f"write {words.text(Span(opening, at - 1))}, {', '.join(map(words.text, more))})"
    if place.word == "USING":
        return f"leave USING {words.text(Span(at + 1, at + 2))} out"
    return ""


def _alter(place: Place) -> str:
    words = place.words
    table = words.operand_after(2)
    if words.word(1) != "TABLE" or table is None:
        return ""
    start, name = table.end, words.text(table)
    action = words.word(start)
    if action == "ADD" and words.word(start + 1) == "CONSTRAINT":
        return _constraint(words, start + 3, name)
    if action == "ADD" and words.word(start + 1) in ("PRIMARY", "FOREIGN", "UNIQUE"):
        return _constraint(words, start + 1, name)
    column = start + 1 + (words.word(start + 1) == "COLUMN")
    if action == "ADD" and words.words(column, 3) == ["IF", "NOT", "EXISTS"]:
        return f"write ALTER TABLE {name} ADD COLUMN {words.text(Span(column + 3, len(words)))}"
    if action == "CHANGE":
        return _renamed_column(words, column, name)
    if action == "DROP" and place.word == ",":
        return "write an ALTER TABLE for each column"
    if action == "DROP" and words.words(column, 2) == ["IF", "EXISTS"]:
        return "leave IF EXISTS out"
    return ""


def _constraint(words: Words, at: int, table: str) -> str:
    if words.word(at) == "UNIQUE" and words.word(at + 1) == "(" and (closing := words.closing(at + 1)) is not None:
        columns = words.split(Span(at + 2, closing))
        parts = [table, *(words.name(column.start) for column in columns)]
        named = words.word(at - 2) == "CONSTRAINT"
        name = words.text(Span(at - 1, at)) if named else quote_if_needed("_".join(parts))
        return f"write CREATE UNIQUE INDEX {name} ON {table} {words.text(Span(at + 1, closing + 1))}"
    return (
        f"SQLite cannot add keys to a table: create a table with them, copy the rows of {table}, drop it, and rename "
        "the new one"
    )


def _renamed_column(words: Words, column: int, table: str) -> str:
    old, new = words.text(Span(column, column + 1)), words.text(Span(column + 1, column + 2))
    return f"write ALTER TABLE {table} RENAME COLUMN {old} TO {new}" if new and old.lower() != new.lower() else ""


def _insert(place: Place) -> str:
    words, at = place.words, place.index
    if place.word == "DUPLICATE" and place.before == "ON":
        return _duplicate(place)
    if at != 1:
        return "leave the column with DEFAULT out of the INSERT" if place.word == "DEFAULT" else ""
    if place.word == "IGNORE":
        return f"write INSERT OR IGNORE {words.text(Span(2, len(words)))}" if len(words) < 40 else (
            "write INSERT OR IGNORE INTO")  # fmt: skip
    if place.word == "OVERWRITE":
        table = words.operand_after(2 + (words.word(2) in ("TABLE", "INTO")))
        return "" if table is None else f"write DELETE FROM {_name(words, table)} first, then INSERT INTO"
    return ""


def _name(words: Words, span: Span) -> str:
    """Return the name in an operand, without parentheses behind it."""
    return words.text(Span(span.start, span.start + 1)) if words.word(span.end - 1) == ")" else words.text(span)


def _duplicate(place: Place) -> str:
    words, at = place.words, place.index
    if words.words(at, 3) != ["DUPLICATE", "KEY", "UPDATE"]:
        return ""
    changes = re.sub(
        r"\bVALUES\s*\(\s*([^()]+?)\s*\)", r"excluded.\1", words.text(Span(at + 3, len(words))), flags=re.I
    )
    relation = place.tables.get(words.name(2).lower()) if words.word(1) == "INTO" else None
    keys = [] if relation is None else relation.unique_keys
    key = ", ".join(keys[0]) if len(keys) == 1 else "KEY"
    return f"write ON CONFLICT ({key}) DO UPDATE SET {changes}"


def _update(place: Place) -> str:
    words, at = place.words, place.index
    table = words.operand_after(1)
    if table is None:
        return ""
    joins = next((step for step in range(table.end, min(table.end + 4, len(words))) if words.word(step) in
                  ("JOIN", "INNER", "LEFT", ",")), None)  # fmt: skip
    set_at = next((step for step in words.outer(Span(0, len(words))) if words.word(step) == "SET"), None)
    if joins is not None and set_at is not None and joins < set_at and at <= set_at:
        return _update_join(words, table, joins, set_at)
    if at == table.end and words.is_name(at) and words.word(at + 1) == "SET":
        return f"write UPDATE {words.text(table)} AS {words.text(Span(at, at + 1))} SET"
    if place.word == "." and set_at is not None and set_at < at and words.word(at + 2) == "=":
        return f"write {words.text(Span(at + 1, at + 2))} = without {words.text(Span(at - 1, at))}. after SET"
    return ""


def _update_join(words: Words, table: Span, joins: int, set_at: int) -> str:
    """UPDATE flights JOIN airlines ON ... SET ... WHERE ...: UPDATE flights SET ... FROM airlines WHERE ..."""
    other = joins + {"INNER": 2, "JOIN": 1}.get(words.word(joins), 0)
    on = next((at for at in range(other, set_at) if words.word(at) == "ON"), None)
    where = next((at for at in words.outer(Span(set_at, len(words))) if words.word(at) == "WHERE"), len(words))
    target, has_alias = words.text(table), joins > table.end
    if other == joins or on is None or "JOIN" in words.words(on, set_at - on):
        return f"write the other tables of UPDATE {target} in a FROM after SET, and their conditions in WHERE"
    label = words.name(joins - 1 if has_alias else table.end - 1).lower()
    changes = []
    for item in words.split(Span(set_at + 1, where)):
        is_owned = words.word(item.start + 1) == "."
        if is_owned and words.name(item.start).lower() != label:
            return ""
        changes.append(words.text(Span(item.start + 2 * is_owned, item.end)))
    alias = f" AS {words.text(Span(joins - 1, joins))}" if has_alias else ""
    more = f" AND {words.text(Span(where + 1, len(words)))}" if where < len(words) else ""
    rows = f"{words.text(Span(other, on))} WHERE {words.text(Span(on + 1, set_at))}{more}"
    return f"write UPDATE {target}{alias} SET {', '.join(changes)} FROM {rows}"


def _delete(place: Place) -> str:
    words, at = place.words, place.index
    if at == 1 and words.is_name(1) and words.word(2) == "FROM":
        source, where = words.operand_after(3), next(
            (step for step in words.outer(Span(3, len(words))) if words.word(step) == "WHERE"), None)  # fmt: skip
        if source is None:
            return ""
        alias, table = words.text(Span(1, 2)), words.text(source)
        labels = [word.lower() for word in words.words(source.end, 2) if word]
        named = f" AS {alias}" if alias.lower() in labels else ""
        if not named and alias.lower() != table.lower():
            return f"DELETE removes whole rows: leave {alias} out"
        if where is None or where > source.end + 2:
            rows = f"SELECT {alias}.rowid {words.text(Span(2, len(words)))}"
            return f"write DELETE FROM {table} WHERE rowid IN ({rows})"
        return f"write DELETE FROM {table}{named} {words.text(Span(where, len(words)))}"
    if place.word == "USING" and words.word(1) == "FROM":
        where = next((step for step in words.outer(Span(at, len(words))) if words.word(step) == "WHERE"), None)
        if where is None:
            return ""
        target = words.text(Span(2, at))
        return (
            f"write DELETE FROM {target} WHERE EXISTS (SELECT 1 FROM {words.text(Span(at + 1, where))} "
            f"{words.text(Span(where, len(words)))})"
        )
    return ""


def _drop(place: Place) -> str:
    words = place.words
    if place.word in ("CASCADE", "RESTRICT") and place.index > 1:
        return f"leave {place.word} out"
    if words.word(1) == "INDEX" and place.word == "ON":
        return f"write {words.text(Span(0, place.index))}"
    if place.index == 1 and words.word(1) == "DATABASE":
        return "%pipedb delete-database NAME deletes a database"
    return _object(words.word(1)) if place.index == 1 else ""


def _transaction(place: Place) -> str:
    if place.word == "WORK":
        return f"write {place.before}"
    return "SQLite has no BEGIN TRY: catch the error in Python" if place.word == "TRY" else ""


def _explain(place: Place) -> str:
    words = place.words
    if words.word(1) not in ("ANALYZE", "ANALYSE", "FORMAT", "(") or words.word(0) != "EXPLAIN":
        return ""
    start = next((at for at in words.outer(Span(1, len(words))) if words.word(at) in
                  ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")), None)  # fmt: skip
    return "" if start is None else f"write EXPLAIN QUERY PLAN {words.text(Span(start, len(words)))}"


def _maintenance(place: Place) -> str:
    words = place.words
    if words.words(0, 2) == ["VACUUM", "ANALYZE"]:
        return "write VACUUM, and ANALYZE in another statement"
    if words.words(0, 2) == ["ANALYZE", "TABLE"]:
        return f"write ANALYZE {words.text(Span(2, len(words)))}"
    return ""


_FORMS: dict[str, Callable[[Place], str]] = {
    "CREATE": _create, "ALTER": _alter, "INSERT": _insert, "UPDATE": _update, "DELETE": _delete, "DROP": _drop,
    "BEGIN": _transaction, "COMMIT": _transaction, "ROLLBACK": _transaction, "EXPLAIN": _explain,
    "VACUUM": _maintenance, "ANALYZE": _maintenance,
}  # fmt: skip


def of_statement(place: Place) -> str:
    """Return what to write instead of a statement of another database; '' for any other one."""
    first = place.words.word(0)
    if place.index == 0:
        return _FIRST[first](place) if first in _FIRST else ""
    return _separators(place) or (_FORMS[first](place) if first in _FORMS else "")


def _separators(place: Place) -> str:
    """GO and / on a line of their own."""
    for index in (place.index, place.index - 1):
        token = place.words.token(index)
        if token is None or token.text.upper() not in ("GO", "/"):
            continue
        start = place.text.rfind("\n", 0, token.start) + 1
        line = place.text[start:].split("\n", 1)[0]
        if line.strip() == token.text:
            return f"leave {token.text} out, and end each statement with a semicolon"
    return ""


# -- files as tables

_READERS = ("read_csv", "read_csv_auto", "read_parquet", "read_json", "read_json_auto", "parquet_scan", "read_xlsx")
_FILE = re.compile(r"[^'\"\n]+\.(?:csv|tsv|txt|json|jsonl|ndjson|xlsx?|parquet)(?:\.gz)?", re.IGNORECASE)


def of_file(text: str, name: str) -> str:
    """Return how to load a file that a query names as a table; '' for any other table."""
    words = Words(text)
    path = name if _FILE.fullmatch(name) else ""
    for index in range(len(words)):
        if words.word(index).lower() in _READERS and name.lower() in _READERS:
            token = words.token(index + 2)
            path = unquote(token.text) if token is not None and token.kind == "string" else ""
    if not path:
        return ""
    table = re.sub(r"\W", "_", PurePath(path).name.split(".")[0])
    return f"load the file into a table first: %pipedb load {_argument(path)} --table {table}" if table else ""
