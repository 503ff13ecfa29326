"""Commands of the shells of other databases, statements that SQLite does not have, and files as tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath

from pipemagic.explore.hints.words import Place, Span, Words, by_name
from pipemagic.sql import unquote

# -- commands of shells: `.tables` of sqlite3, `\dt` of psql

_COMMAND = re.compile(r"\s*([.\\]\w+)\+?[ \t]*([^\n;]*)")
_COMMANDS = {
    ".tables \\dt \\dv \\d": "%pipedb tables lists the tables",
    ".databases .dbinfo \\l": "%pipedb databases lists the databases",
    ".schema .fullschema": "%pipedb schema shows the CREATE statements",
    ".mode .headers .header .width .nullvalue .separator .timer .echo .changes .bail \\x \\timing \\pset":
        "remove the line: it is a setting of another shell",
    ".quit .exit \\q": "remove the line: it ends another shell",
    ".open .connect \\c \\connect": "%pipedb connect opens a database",
    ".dump": "%pipedb schema shows the CREATE statements; pipemagic db export, in a shell, writes the whole database",
    ".read \\i \\ir": "%sql --file FILE runs the SQL in a file",
    ".import \\copy": "%pipedb load FILE --table TABLE writes a file into a table",
    ".output .once .excel \\o \\g": "%%sql --to-csv FILE writes a result to a file",
    ".indexes .indices \\di": "%pipedb schema TABLE shows the indexes of a table",
    ".help \\? \\h": "%pipedb help shows the commands",
}  # fmt: skip
_BY_COMMAND = by_name(_COMMANDS)


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
    return f"assign {name} = {value or '...'} in Python and use :{name} in SQL"


def _set(place: Place) -> str:
    words = place.words
    token = words.token(1)
    if token is None:
        return ""
    name = words.name(1) if token.kind == "word" else token.text.lstrip("@:$") if token.kind == "param" else ""
    operator = words.word(2)
    if name.isidentifier() and operator in ("=", "TO", ":") and len(words) > 3 and token.kind == "param":
        value = words.text(Span(3 + (words.word(3) == "="), len(words)))
        return f"assign {name} = {value} in Python and use :{name} in SQL"
    if name.lower() == "foreign_key_checks":
        return "PRAGMA foreign_keys = OFF or ON does this"
    if name.isidentifier() and operator == "=" and words.literal(Span(3, len(words))) is not None:
        return (
            f"SQLite has no SET: use PRAGMA for settings; for a variable, write {name} = "
            f"{words.text(Span(3, len(words)))} in a Python cell and :{name} in SQL"
        )
    return "SQLite has no SET: remove the line, or use PRAGMA for settings"


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
        return "SQLite has no UNPIVOT: select the rows and call melt() on the DataFrame"
    if not {"ON", "USING"} <= at.keys() or words.arguments(at["USING"] + 1) is None:
        return "SQLite has no PIVOT: select the rows and call pivot_table() on the DataFrame"
    arguments = words.arguments(at["USING"] + 1) or []
    values = words.text(arguments[0]) if len(arguments) == 1 else ""
    column, function = words.text(Span(at["ON"] + 1, at["ON"] + 2)), words.word(at["USING"] + 1).lower()
    if function not in ("sum", "min", "max", "count") or not values.isidentifier() or not column.isidentifier():
        return "SQLite has no PIVOT: select the rows and call pivot_table() on the DataFrame"
    return (
        "SQLite has no PIVOT: select the rows and call "
        f"pivot_table(columns='{column}', values='{values}', aggfunc='{function}') on the DataFrame"
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
    "GO": lambda _: "remove GO, and end each statement with a semicolon",
    "DELIMITER": lambda _: "remove DELIMITER: a trigger ends with END;",
}  # fmt: skip


def of_missing_statement(place: Place) -> str:
    """Return what to write instead of a statement that SQLite does not have; '' for any other one."""
    first = place.words.word(0)
    return _FIRST[first](place) if first in _FIRST else ""


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
