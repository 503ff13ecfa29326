"""Hints on names in errors: tables, columns, aliases and functions that do not exist, and SQL of other databases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pipemagic.explore.hints import misuse
from pipemagic.explore.hints.characters import of_lookalikes_in_name
from pipemagic.explore.hints.commands import of_command, of_file
from pipemagic.explore.hints.expressions import of_column_of_dialect, of_expression, of_position, of_unrecognized
from pipemagic.explore.hints.functions import of_function, of_table
from pipemagic.explore.hints.keywords import distance, misspelt_join
from pipemagic.explore.hints.select_clauses import of_clause, of_cube, of_percent
from pipemagic.explore.hints.statements import of_statement
from pipemagic.explore.hints.syntax_errors import begins_with_digit, ends_early, is_unreadable, unquoted_name
from pipemagic.explore.hints.words import Place, Words
from pipemagic.explore.lint.expressions import written
from pipemagic.explore.query import Query, TableReference, all_queries, query_at
from pipemagic.explore.schema import Relation
from pipemagic.explore.sqlite_reference import FUNCTIONS, quote_if_needed
from pipemagic.explore.token_tree import cursor_at, nest
from pipemagic.session.schema_cache import SchemaCache
from pipemagic.sql import Token, normalize, parse, quote, significant, tokens
from pipemagic.suggestions import close_names, closest, unseen_difference
from pipemagic.text import mask_passwords

if TYPE_CHECKING:
    from pipemagic.session.messages import HintNames

_NO_TABLE = re.compile(r"no such (?:table|view): (.+)")
_NO_COLUMN = re.compile(r"no such column: (.+?)(?: - should this be .*)?$|has no column named (.+)")
_NO_FUNCTION = re.compile(r"no such function: (.+)")
_LONGEST = 50_000  # characters of a statement that is read
_SYNTAX_OF_SQLITE = re.compile(r'\Anear ".+": syntax error', re.DOTALL)
_BEFORE_VALUE = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "LIKE", "GLOB", "IS")
_NO_VALUE = ("none", "nan", "na", "nil")
"""Names of other languages for NULL."""

_CATALOGS = ("information_schema", "pg_catalog", "sys")


def name_hint(message: str, text: str, place: int | None, names: HintNames) -> str:
    """Return a hint on a name or on SQL of another database; '' if none is certain or the error is another one.

    ``place`` is the position of the error in the ``text`` of the statement, if known.
    """
    if len(text) > _LONGEST:  # rows of an INSERT: reading them would take longer than the statement
        text, place = "", None
    return mask_passwords(_hint(message, text, place, names))


def _hint(message: str, text: str, place: int | None, names: HintNames) -> str:
    if match := _NO_TABLE.search(message):
        return _of_table(match[1], text, place, names)
    if match := _NO_COLUMN.search(message):
        return _of_column(match[1] or match[2], text, place, names)
    if match := _NO_FUNCTION.search(message):
        return _of_function(match[1], text, place, names)
    if hint := misuse.of_misuse(message, text, place, names.tables) if _is_misuse(message) else "":
        return hint
    if message.startswith("row value misused"):
        return misuse.of_row(text)
    if hint := misuse.of_parameters(message, text, names.values):
        return hint
    return (
        _of_syntax(message, text, place, names)
        if is_unreadable(message) or "expected = sign" in message
        else _of_others(message, text)
    )


def _is_misuse(message: str) -> bool:
    return re.search(r"misuse|same number|values|arguments|argument", message) is not None


def _of_syntax(message: str, text: str, place: int | None, names: HintNames) -> str:
    hint = ""
    if ends_early(message):
        words = Words(text)
        hint = of_percent(text) or of_statement(Place(words, len(words), text, names.tables))
    elif place is not None:
        hint = of_command(text, place) or of_unrecognized(text, place)
        words = Words(text)
        of_sqlite = _SYNTAX_OF_SQLITE.match(message) is not None
        at = Place(words, words.at(place), text, names.tables, of_sqlite=of_sqlite)
        hint = hint or misuse.of_default(text, place, names.values)
        hint = hint or of_clause(at) or of_expression(at) or of_statement(at)
    return hint or _quotes(text, place, names.schema) or begins_with_digit(text, place)


def _of_others(message: str, text: str) -> str:
    """Return the hint on a form of another database that a server reads, and refuses for another reason."""
    if re.search(r"unknown table option|unknown database|unsupported statement", message):
        words = Words(text)
        indexes = [index for index in range(1, len(words)) if message.lower().endswith(words.word(index).lower())]
        return of_statement(Place(words, indexes[-1], text, {})) if indexes else ""
    return ""


# -- tables


def _of_table(written: str, text: str, place: int | None, names: HintNames) -> str:
    owner, _, name = written.strip('"').rpartition(".")
    name = name.strip('"')
    if hint := _of_unknown_name(text, written):
        return hint
    if user := _user_of(written, text, names.tables):
        return user
    if owner.lower() in _CATALOGS:
        return "%pipedb tables lists the tables, %pipedb columns TABLE the columns of a table"
    if name.lower() == "dual":
        return "remove FROM dual"
    if saved := next((saved for saved in names.saved if saved.lower() == name.lower()), None):
        return f"{saved} is a saved SELECT: %%sql --with {saved} reads it"
    if file := of_file(text, written.removeprefix("main.").strip('"')):
        return file
    if string := _of_string_after_in(text, place):
        return string
    instead = of_table(text, place, name, names.tables) or of_position(text, name)
    return instead or _quotes(text, place, names.schema) or _near_table(name, names)


def _of_string_after_in(text: str, place: int | None) -> str:
    """Return the hint on ``IN 'Dream'``, where SQLite reads the text as the name of a table."""
    words = Words(text)
    at = len(words) if place is None else words.at(place)
    token = words.token(at)
    if token is None or token.kind != "string" or words.word(at - 1) != "IN":
        return ""
    return f"write IN ({token.text})"


def _near_table(name: str, names: HintNames) -> str:
    relations = names.schema.tables_soon()
    if hint := _near(name, (relation.name for relation in relations)):
        return hint
    for other, schema in names.others.items():
        if name.lower() in (relation.name.lower() for relation in schema.tables):
            return f"{quote_if_needed(name)} is a table of the connection {other}: --on {other}"
    return "%pipedb tables lists the tables" if relations else ""


# -- columns


def _of_column(written: str, text: str, place: int | None, names: HintNames) -> str:
    owner, _, name = written.rpartition(".")
    owner, name = owner.rpartition(".")[2].strip('"'), name.strip('"')
    if hint := _of_unknown_name(text, written):
        return hint
    if user := _user_of(written, text, names.tables):
        return user
    return (
        of_column_of_dialect(text, place, names.tables)
        or _quotes(text, place, names.schema)
        or (_of_alias(owner, name, text, place, names) if owner else "")
        or ("" if owner else _of_result_column(name, text, place, names.tables))
        or _of_call_without_parentheses(text, place)
        or _near_column(name, text, names.schema, may_be_string=not owner and _is_value(text, place))
    )


def _of_result_column(name: str, text: str, place: int | None, tables: Mapping[str, Relation]) -> str:
    """Return the hint on ``SELECT 1.0 * a / b AS ratio, ratio + 1``, where a column uses the name of another one."""
    if place is None:
        return ""
    for query in query_at(cursor_at(text, place), tables).enclosing():
        for item, alias in query.select_list:
            expression = written(item)
            if alias.lower() == name.lower() and not _names(expression, name.lower()):
                return f"{quote_if_needed(alias)} is a column of the result: write {expression} instead"
    return ""


def _of_call_without_parentheses(text: str, place: int | None) -> str:
    """Return the hint on ``avg mass`` and ``avg = 1``, where the name of an aggregate is read as a column."""
    words = Words(text)
    at = len(words) if place is None else words.at(place)
    function = FUNCTIONS.get(words.word(at).lower())
    if function is None or function.kind != "aggregate":
        return ""
    name = words.name(at)
    argument = words.name(at + 1) if words.is_name(at + 1) else ""
    if argument:
        return f"write {name}({argument})"
    return "" if name.lower() == "total" else f"a function needs parentheses: write {name}(...)"  # more often a column


def _is_value(text: str, place: int | None) -> bool:
    """Return True if a value is compared, listed or inserted at a place."""
    words = Words(text)
    at = len(words) if place is None else words.at(place)
    opening = words.around(at)
    is_listed = opening is not None and words.word(opening - 1) in ("IN", "VALUES")
    return words.word(at - 1) in _BEFORE_VALUE or (is_listed and words.word(at - 1) in ("(", ","))


def _of_alias(owner: str, name: str, text: str, place: int | None, names: HintNames) -> str:
    """Return the hint on ``z.name`` where z is no table or alias, or has no such column."""
    tables = names.tables
    sources = [
        source
        for source in _sources(text, place, tables)
        if not names.generated or source.label.lower() == source.name.lower() in tables
    ]
    if not sources:
        return ""
    source = next((source for source in sources if source.label.lower() == owner.lower()), None)
    if source is not None:
        if place is not None and name.lower() in map(str.lower, source.names):
            is_inside = source not in query_at(cursor_at(text, place), tables).sources
            return f"a subquery after FROM cannot use {_described(source)}, which is outside of it" if is_inside else ""
        return _of_owned_column(source, name, sources)
    renamed = [source for source in sources if source.name.lower() == owner.lower()]
    column = quote_if_needed(name)
    if len(renamed) == 1:
        label = quote_if_needed(renamed[0].label)
        if (keyword := misspelt_join(label)) and re.search(rf"\b{label}\s+JOIN\b", text, re.IGNORECASE):
            return f"did you mean {keyword} JOIN? {label} is an alias of {quote_if_needed(renamed[0].name)}"
        return f"{quote_if_needed(renamed[0].name)} has the alias {label}: write {label}.{column}"
    source_names = ", ".join(dict.fromkeys(map(_described, sources)))
    hint = f"{quote_if_needed(owner)} is not a table or alias of this statement, which has {source_names}"
    if owner.lower() in tables:
        return f"{hint}; JOIN {quote_if_needed(tables[owner.lower()].name)} to use its columns"
    having = [source for source in sources if name.lower() in map(str.lower, source.names)]
    if len(having) == 1 and having[0].label:
        return f"{hint}: write {quote_if_needed(having[0].label)}.{column}"
    return hint


def _described(source: TableReference) -> str:
    label = quote_if_needed(source.label)
    is_alias = source.name and source.name.lower() != source.label.lower()
    return f"{label} ({quote_if_needed(source.name)})" if is_alias else label


def _of_owned_column(source: TableReference, name: str, sources: Sequence[TableReference]) -> str:
    """Return the hint on a column that the table before the point does not have."""
    if not source.columns:
        return ""
    if hint := _near(name, source.names):
        return hint
    label = quote_if_needed(source.label)
    other = next((other for other in sources if name.lower() in map(str.lower, other.names) and other.label), None)
    if other is not None:
        return f"{quote_if_needed(name)} is a column of {_described(other)}: write {quote_if_needed(other.label)}." + (
            quote_if_needed(name))  # fmt: skip
    if len(source.names) <= 12:
        return f"{_described(source)} has {', '.join(map(quote_if_needed, source.names))}"
    return f"%pipedb columns {quote_if_needed(source.name)} lists the columns of {label}" if source.name else ""


def _sources(text: str, place: int | None, tables: Mapping[str, Relation]) -> Iterator[TableReference]:
    """Yield the tables that are visible at a place, of the whole statement if it is not known."""
    queries: Iterable[Query]
    if place is None:
        queries = all_queries(nest([token for token in significant(text) if token.kind != "semi"]).top, tables)
    else:
        queries = query_at(cursor_at(text, place), tables).enclosing()
    for query in queries:
        yield from query.sources


def _near_column(name: str, text: str, schema: SchemaCache, *, may_be_string: bool) -> str:
    relations = schema.tables_soon()
    words = {normalize(token.text) for token in tokens(text) if token.kind in ("word", "quoted")}
    inside = [relation for relation in relations if relation.name.lower() in words]
    if hint := _near(name, (column for relation in inside for column in relation.column_names)):
        return hint
    for relation in relations:
        if name.lower() in (column.lower() for column in relation.column_names) and relation not in inside:
            return f"{quote_if_needed(name)} is a column of {quote_if_needed(relation.name)}"
    if may_be_string:
        return f"if {name} is a string, write {quote(name, chr(39))}"
    if len(inside) == 1 and 0 < len(inside[0].column_names) <= 12:
        return f"{quote_if_needed(inside[0].name)} has {', '.join(map(quote_if_needed, inside[0].column_names))}"
    return ""


# -- functions


def _of_function(name: str, text: str, place: int | None, names: HintNames) -> str:
    tables = names.tables
    if hint := _of_unknown_name(text, name):
        return hint
    if user := _user_of(name, text, tables):
        return user
    if hint := of_cube(name, text, place):
        return hint
    instead = of_function(text, place, name, tables)
    return _question(name, closest(name, FUNCTIONS)) if instead is None else instead


# -- triggers and views


def _user_of(name: str, text: str, tables: Mapping[str, Relation]) -> str:
    """Return the trigger or view that uses a name, which the statement itself does not name; '' if none is certain."""
    bare_name = name.rsplit(".", 1)[-1].strip('"').lower()
    if _names(text, bare_name):
        return ""
    parsed = parse(text)
    changed = normalize(parsed.changed_table.rsplit(".", 1)[-1]) if parsed.changed_table else ""
    uses = [
        f"the trigger {quote_if_needed(trigger.name)} of {quote_if_needed(relation.name)} uses {_last(name)}: change "
        f"it, or remove it with DROP TRIGGER {quote_if_needed(trigger.name)}"
        for relation in _changed(changed, tables)
        for trigger in relation.triggers
        if _names(trigger.sql, bare_name)
    ] + [
        f"the view {quote_if_needed(view.name)} uses {_last(name)}: change it, or remove it with "
        f"DROP VIEW {quote_if_needed(view.name)}"
        for view in _views(text, tables)
        if view.sql and _names(view.sql, bare_name)
    ]
    return uses[0] if len(uses) == 1 else ""


def _last(name: str) -> str:
    return name.removeprefix("main.")


def _names(text: str, name: str) -> bool:
    return any(normalize(token.text) == name for token in significant(text) if token.kind in ("word", "quoted"))


def _changed(table: str, tables: Mapping[str, Relation]) -> list[Relation]:
    """Return a table, and the tables that its triggers change."""
    relations, names = list[Relation](), [table]
    for name in names:
        relation = tables.get(name)
        if relation is None or relation in relations:
            continue
        relations.append(relation)
        for trigger in relation.triggers:
            names += [normalize(token.text) for token in significant(trigger.sql) if normalize(token.text) in tables]
    return relations


def _views(text: str, tables: Mapping[str, Relation]) -> list[Relation]:
    """Return the views that a statement names, and the views inside these."""
    views, texts = list[Relation](), [text]
    for part in texts:
        for token in significant(part):
            view = tables.get(normalize(token.text)) if token.kind in ("word", "quoted") else None
            if view is not None and view.kind == "view" and view not in views:
                views.append(view)
                texts.append(view.sql or "")
    return views


# -- quotes and similar names


def _quotes(text: str, place: int | None, schema: SchemaCache) -> str:
    """Return a hint to quote the table or column name at the position of the error; '' for any other error.

    The name contains blanks, signs or a digit at its beginning, so SQLite reads it as several words.
    """
    relations = schema.tables_soon()
    words = {normalize(token.text) for token in tokens(text) if token.kind in ("word", "quoted")}
    inside = [relation for relation in relations if relation.name.lower() in words]
    columns = [column for relation in inside or relations for column in relation.column_names]
    for kind, names in (("column", columns), ("table", [relation.name for relation in relations])):
        if identifier := unquoted_name(text, place, names):
            return f"write the name of the {kind} in quotes: {quote(identifier)}"
    return ""


def _near(name: str, names: Iterable[str]) -> str:
    return _question(name, close_names(name, (other for other in names if other.lower() != name.lower())))


def _question(name: str, candidates: Sequence[str]) -> str:
    if not candidates:
        return ""
    difference = unseen_difference(name, candidates[0])
    # A mark that is not seen may be a letter for SQLite.
    suggestions = map(quote if difference else quote_if_needed, candidates)
    return f"did you mean {' or '.join(suggestions)}?{difference}"


# -- names that are no names: None of Python, a misspelt DISTINCT, characters that look like others

_IS_NULL = {"=": "IS NULL", "==": "IS NULL", "!=": "IS NOT NULL", "<>": "IS NOT NULL"}
_AFTER_COLUMN = ("AS", "FROM")
_SIMILAR = 2  # the highest distance from DISTINCT


def _of_unknown_name(text: str, name: str) -> str:
    """Return a hint for a table, column or function that the server does not know; '' if its name says nothing.

    ``name`` is that of the message, perhaps with an owner.
    """
    for part in name.split("."):
        if hint := of_lookalikes_in_name(text, part):
            return hint
    words = significant(text)
    place = next((at for at, token in enumerate(words) if token.kind == "word" and token.text == name), None)
    if place is None:
        return ""
    return _null(words, place) if name.lower() in _NO_VALUE else _distinct(words, place)


def _null(words: list[Token], at: int) -> str:
    before = words[at - 1].text
    if before in _IS_NULL:
        return f"write {_IS_NULL[before]} instead of {before} {words[at].text}"
    return f"write NULL instead of {words[at].text}"


def _distinct(words: list[Token], at: int) -> str:
    """Return the hint for a misspelt DISTINCT: SQLite reads its column as an alias."""
    following = words[at + 1] if at + 1 < len(words) else None
    if following is None or following.kind not in ("word", "quoted") or following.word in _AFTER_COLUMN:
        return ""
    is_similar = distance(words[at].word, "DISTINCT") <= _SIMILAR
    return "did you mean DISTINCT?" if is_similar and words[at - 1].word == "SELECT" else ""
