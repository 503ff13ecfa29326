"""Statements that SQLite has, in the forms of other databases, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable

from pipemagic.explore.hints.commands import of_missing_statement
from pipemagic.explore.hints.words import Place, Span, Words
from pipemagic.explore.sqlite_reference import quote_if_needed


def _create(place: Place) -> str:
    words, at = place.words, place.index
    if words.words(1, 2) == ["OR", "REPLACE"] or words.words(1, 2) == ["OR", "ALTER"]:
        kind_at = 3 + (words.word(3) in ("TEMP", "TEMPORARY", "UNIQUE"))
        kind, name = words.word(kind_at), words.operand_after(kind_at + 1)
        if kind in ("TABLE", "VIEW", "INDEX", "TRIGGER") and name is not None:
            name = name if words.word(name.end - 1) != ")" else Span(name.start, words.at(
                words.tokens[name.start].start) + 1)  # fmt: skip
            return f"write DROP {kind} IF EXISTS {words.text(name)}; first, then CREATE without OR REPLACE"
        return _object(kind)
    if at == 1 or (at == 2 and place.before == "MATERIALIZED"):
        return _index_kind(words) or _object(words.word(1))
    return _create_table(place) or _create_index(place)


def _index_kind(words: Words) -> str:
    if words.word(1) in ("CLUSTERED", "NONCLUSTERED", "FULLTEXT") and words.word(2) == "INDEX":
        return f"remove {words.word(1)}"
    return ""


def _object(kind: str) -> str:
    hints = {
        "FUNCTION": "SQLite has no CREATE FUNCTION: write the expression, or compute it in Python",
        "PROCEDURE": "SQLite has no procedures: write the steps in Python",
        "PROC": "SQLite has no procedures: write the steps in Python",
        "DATABASE": "%pipedb create-database NAME creates a database",
        "SCHEMA": "SQLite has no schemas: all tables of a database are in main",
        "SEQUENCE": "SQLite has no sequences: an INTEGER PRIMARY KEY numbers the rows",
        "TYPE": "SQLite has no CREATE TYPE: use TEXT with a CHECK constraint",
        "DOMAIN": "SQLite has no CREATE DOMAIN: use TEXT with a CHECK constraint",
        "EXTENSION": "remove the line: SQLite has no CREATE EXTENSION",
        "MATERIALIZED": "SQLite has no materialized views: use CREATE VIEW, or CREATE TABLE ... AS",
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
        return f"remove {written if len(written) <= _SHORT else words.text(Span(first, first + 2))}" if option else ""
    if {place.word, place.before} & {"AUTO_INCREMENT", "AUTOINCREMENT", "IDENTITY"}:
        return _numbered(words, at)
    if place.before == "ENUM" or (place.function is not None and words.word(place.function) == "ENUM"):
        return _enum(words, place)
    if words.words(at, 3) == ["FOREIGN", "KEY", "REFERENCES"]:
        return "remove FOREIGN KEY"
    start, end = _definition(words, at)
    if words.word(start) in ("KEY", "INDEX") and words.word(start + 2) == "(":
        columns = words.text(Span(start + 2, end))
        index, table = words.text(Span(start + 1, start + 2)), words.text(Span(name, name + 1))
        return f"write CREATE INDEX {index} ON {table} {columns} after the CREATE TABLE"
    if place.word == "ON" and words.word(at + 1) == "UPDATE":
        return "remove ON UPDATE; a trigger can set the column"
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
    remark = "" if key is None or closing is None else f"; remove {words.text(Span(key, closing + 1))}"
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
        return f"remove USING {words.text(Span(at + 1, at + 2))}"
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
        return "remove IF EXISTS"
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
        return "omit the column with DEFAULT from the INSERT" if place.word == "DEFAULT" else ""
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
            return f"DELETE removes whole rows: remove {alias}"
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
        return f"remove {place.word}"
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
        return "write VACUUM and ANALYZE as two statements"
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
        return of_missing_statement(place)
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
            return f"remove {token.text}, and end each statement with a semicolon"
    return ""
