"""Read the content of a template as SQL, and replace the content of databases by it.

Some services can copy the template itself. SQL is used for the others, and for resets, after which tokens and addresses
must still be valid.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pipemagic import sql
from pipemagic.client.database import Database
from pipemagic.client.statement_errors import statement_error
from pipemagic.client.transfer import dumped
from pipemagic.errors import UnsupportedError
from pipemagic.hrana.messages import Close, ErrorEntry, Sequence
from pipemagic.teaching.classes.progress import ANSWERS_DDL, ANSWERS_TABLE, PROGRESS_DDL, PROGRESS_TABLE
from pipemagic.text import escape_controls, shorten

CHUNK = 512 * 1024
"""The size of a request in characters; each request is one transaction, which is limited to 5 s."""

_OBJECTS = """
SELECT type, name, sql FROM sqlite_master
WHERE type <> 'index' AND name NOT LIKE 'sqlite^_%' ESCAPE '^'
  AND name NOT IN (SELECT name FROM temp.pragma_table_list WHERE type = 'shadow')
ORDER BY type = 'table', type = 'view', sql NOT LIKE 'CREATE VIRTUAL%'
"""
"""Everything to drop, in that order: triggers, views, virtual tables, tables."""

_OWNER = re.compile(rf"CREATE TABLE {PROGRESS_TABLE}\(  -- class (\w+)\n")
_OF_CLASS = re.compile(
    rf"(?:CREATE TABLE(?: IF NOT EXISTS)?|INSERT INTO)\s+\W?(?:{PROGRESS_TABLE}|{ANSWERS_TABLE})\b", re.IGNORECASE
)
_ANSWERS_DDL = ANSWERS_DDL.replace("IF NOT EXISTS ", "")
_VIRTUAL = re.compile(r"CREATE\s+VIRTUAL\b", re.IGNORECASE)
_PRAGMA = re.compile(r"PRAGMA\s+(\w+)", re.IGNORECASE)
_TRANSACTION = re.compile(r"(?:BEGIN(?: TRANSACTION)?|COMMIT)\s*\Z", re.IGNORECASE)
_IF_NEW = re.compile(r"(CREATE TABLE) IF NOT EXISTS\b", re.IGNORECASE)  # of the dumps of sqld
_OF_SQLITE = re.compile(r"DELETE FROM sqlite_(?:sequence|stat1)|ANALYZE sqlite_schema", re.IGNORECASE)
_SETTING = re.compile(r"PRAGMA\s+\w+\s*=\s*[\w'-]+", re.IGNORECASE)
_ROWS = ["VALUES", "(", ")"]


@dataclass(frozen=True)
class Template:
    """The statements that create the content of a template."""

    statements: tuple[str, ...] = ()


def read_template(database: Database) -> Template:
    """Read the content of a database; raise UnsupportedError if it cannot be created with SQL."""
    with dumped(database) as chunks:
        statements = list(sql.statements_of(codecs.iterdecode(chunks, "utf-8"), optional=True))
    if any(_pragma(statement) == "writable_schema" or _VIRTUAL.match(statement) for statement in statements):
        raise UnsupportedError(
            "the template has virtual tables, such as full-text indexes, which cannot be copied as SQL",
            hint="use a template without them",
        )
    if unknown := next((statement for statement in statements if not _is_of_dump(statement)), ""):
        raise UnsupportedError(
            f"the dump of the template has a statement that creates no content: "
            f"{shorten(escape_controls(' '.join(unknown.split())), 60)}",
            hint="use a template from a service that you trust",
        )
    return Template(tuple(filter(_is_content, statements)))


def _is_of_dump(statement: str) -> bool:
    """Return True for a statement of a dump: its transaction and settings, a definition, or rows of a table."""
    if _TRANSACTION.match(statement) or _SETTING.fullmatch(statement) or _OF_SQLITE.fullmatch(statement):
        return True
    if sql.parse_definition(_IF_NEW.sub(r"\1", statement, count=1)) is not None:
        return True
    parsed = sql.parse(statement)
    words = [token.word or token.text for token in parsed.outer_tokens if token.text != ","]
    queries = {token.word for token in parsed.tokens} & {"SELECT", "WITH"}
    return words[:2] == ["INSERT", "INTO"] and words[3:] in (_ROWS, ["(", ")", *_ROWS]) and not queries


def _is_content(statement: str) -> bool:
    """Return False for the transaction and the settings of a dump, and for the tables of a class."""
    if (pragma := _pragma(statement)) is not None:
        return pragma in ("user_version", "application_id")
    return not _TRANSACTION.match(statement) and not _OF_CLASS.match(statement)


def _pragma(statement: str) -> str | None:
    """Return the name of a pragma in lower case; None for another statement."""
    match = _PRAGMA.match(statement)
    return match and match[1].lower()


@dataclass(frozen=True)
class Content:
    """The content of a database without its rows.

    ``objects`` maps the names of tables, views and triggers to their kinds, in the order in which they can be dropped.
    ``tables`` maps the names of the tables of a class (for progress and for wrong answers) to the kinds of the objects
    with these names. ``owner`` is the id of the class for which the progress table was created, '' if it was not, or
    was altered; ``records`` is True if the table for wrong answers is unaltered, too.
    """

    objects: dict[str, str]
    tables: dict[str, str] = field(default_factory=dict)
    owner: str = ""
    records: bool = False


def read_content(database: Database) -> Content:
    """Read the objects of a database."""
    objects, tables, owner, records = dict[str, str](), dict[str, str](), "", False
    for kind, name, text in database.execute(_OBJECTS.strip()).rows:
        if kind not in ("table", "view", "trigger"):
            raise UnsupportedError(f"the server lists an object of an unknown type: {kind!r}")
        (tables if name in (PROGRESS_TABLE, ANSWERS_TABLE) else objects)[str(name)] = str(kind)
        if name == PROGRESS_TABLE and (match := _OWNER.match(str(text))):
            owner = match[1] if str(text) == _stored(_progress_ddl(match[1])) else ""
        elif name == ANSWERS_TABLE:
            records = str(text) == _stored(_ANSWERS_DDL)
    return Content(objects, tables, owner, records)


def add_tables(database: Database, content: Content, owner: str, *, record: bool) -> None:
    """Create the tables for the progress of a student, in the place of others; one names the class.

    ``record`` is True for a table for wrong answers. Raise StatementError if another command has created one meanwhile.
    """
    database.batch(_class_tables(content, owner, record=record))


def restore(database: Database, template: Template, owner: str, *, record: bool) -> None:
    """Replace the content of a database with the content of a template; keep unaltered tables of the class.

    A template of up to `CHUNK` characters is applied in one transaction, a larger one in several.
    """
    content = read_content(database)
    drops = [f"DROP {kind} {sql.quote(name)}" for name, kind in content.objects.items()]
    for chunk in _chunks([*drops, *_class_tables(content, owner, record=record), *template.statements]):
        _run(database, chunk)


def _class_tables(content: Content, owner: str, *, record: bool) -> list[str]:
    """Return the statements that create the tables of a class that are missing, altered or of another class."""
    ddl = {PROGRESS_TABLE: _progress_ddl(owner)} if content.owner != owner else {}
    if not (content.owner == owner and content.records == record):
        ddl[ANSWERS_TABLE] = _ANSWERS_DDL if record else ""
    drops = [f"DROP {content.tables[name]} {name}" for name in ddl if name in content.tables]
    return [*drops, *filter(None, ddl.values())]


def _progress_ddl(owner: str) -> str:
    return PROGRESS_DDL.replace("IF NOT EXISTS ", "").replace("(", f"(  -- class {owner}", 1)


def _stored(ddl: str) -> str:
    """Return a statement as SQLite stores it, without a comment at its end."""
    return ddl[: ddl.rindex(")") + 1]


def _chunks(statements: Iterable[str]) -> Iterator[str]:
    pending, size = [], 0
    for statement in statements:
        pending.append(statement + ("\n;" if "--" in statement.rpartition("\n")[2] else ";"))  # it may be a comment
        size += len(statement)
        if size >= CHUNK:
            yield "\n".join(pending)
            pending, size = [], 0
    yield "\n".join(pending)


def _run(database: Database, script: str) -> None:
    """Run a script in one transaction, which an error undoes."""
    text = f"PRAGMA foreign_keys=OFF;\nBEGIN IMMEDIATE;\n{script}\nCOMMIT"
    with database.open_stream() as stream:
        entry = stream.send([Sequence(text), Close()])[0]
    if isinstance(entry, ErrorEntry):
        raise statement_error(entry.error)
