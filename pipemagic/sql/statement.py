"""Split scripts into statements, and determine from their text what they do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import zip_longest

from pipemagic.sql.identifiers import normalize
from pipemagic.sql.tokenizer import BLANK, Token, significant, tokens, tokens_of_chunks

QUERIES = frozenset({"SELECT", "VALUES"})
ROW_CHANGES = frozenset({"INSERT", "REPLACE", "UPDATE", "DELETE"})

HIGHEST_PARAMETER = 32766
"""The highest number of a parameter, SQLITE_MAX_VARIABLE_NUMBER."""

_TRANSACTION = frozenset({"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"})
_SCHEMA_CHANGES = frozenset({"CREATE", "DROP", "ALTER"})
READ_PRAGMAS = frozenset({
    "analysis_limit", "collation_list", "compile_options", "data_version", "encoding", "foreign_key_check",
    "foreign_key_list", "freelist_count", "function_list", "index_info", "index_list", "index_xinfo", "integrity_check",
    "locking_mode", "mmap_size", "module_list", "page_count", "page_size", "pragma_list", "quick_check",
    "schema_version", "stats", "table_info", "table_list", "table_xinfo", "threads", "wal_autocheckpoint",
})  # fmt: skip
"""Pragmas that only read, some of them only without a value: those allowed with a read-only token."""

_IN_WITH = frozenset({"(", ")", ",", "AS", "NOT", "MATERIALIZED"})
_TABLES_FOLLOW = frozenset({"FROM", "JOIN", "INTO", "UPDATE"})
_TABLES_END = frozenset({
    "WHERE", "GROUP", "ORDER", "HAVING", "LIMIT", "WINDOW", "UNION", "EXCEPT", "INTERSECT", "SELECT", "SET", "VALUES",
    "RETURNING",
})  # fmt: skip
_CONNECTION_SETTINGS = frozenset({
    "automatic_index", "cache_size", "case_sensitive_like", "cell_size_check", "checkpoint_fullfsync", "foreign_keys",
    "full_column_names", "fullfsync", "hard_heap_limit", "ignore_check_constraints", "legacy_alter_table", "query_only",
    "read_uncommitted", "recursive_triggers", "reverse_unordered_selects", "short_column_names", "soft_heap_limit",
    "trusted_schema",
})  # fmt: skip
"""Settings that are set again on a reopened connection. Servers ignore or refuse others, such as busy_timeout."""

_REGISTERS = tuple(f"#{digit}" for digit in range(10))
_NUMBER = re.compile(r"0x[0-9a-f]+|[0-9]+")
_HEAD = 8  # tokens: INSERT OR REPLACE INTO main . t, EXPLAIN QUERY PLAN CREATE TEMP TRIGGER
_SHORT = 4096  # the most characters of a script whose statements are cached, and of a statement whose tokens are kept


@dataclass(frozen=True)
class ParsedStatement:
    """One statement of a script. Its properties are computed from its tokens on first use.

    ``text`` has no leading blanks, comments or trailing ``;``. ``start`` is the offset of its first character in
    the script; ``line`` counts from 1. ``head`` are its first tokens without blanks and comments, with their offsets in
    the script. ``parameters`` are those that SQLite numbers from 1: the name with its prefix, or None for ``?``.
    """

    text: str
    start: int = 0
    line: int = 1
    head: tuple[Token, ...] = ()
    parameters: tuple[str | None, ...] = ()

    @property
    def tokens(self) -> Sequence[Token]:
        """Its tokens without blanks and comments. They are not cached for a long statement, to save memory."""
        return self._kept_tokens if len(self.text) <= _SHORT else significant(self.text)

    @cached_property
    def _kept_tokens(self) -> Sequence[Token]:
        return significant(self.text)

    @cached_property
    def keyword(self) -> str:
        """Its first word in capitals (``WITH``, ``BEGIN``, ...), '' if it begins with another token."""
        return self.head[0].word if self.head else ""

    # -- queries and changes

    @cached_property
    def verb(self) -> str:
        """The keyword, or the one after the tables of a WITH."""
        return _word(self.outer_tokens, 0) if self.keyword == "WITH" else self.keyword

    @property
    def outer_tokens(self) -> Sequence[Token]:
        """The tokens from the verb on that are outside of parentheses, and the outermost parentheses."""
        return self._names_and_rest[1]

    @property
    def body(self) -> Sequence[Token]:
        """Its tokens from the verb on."""
        start = next((token.start for token in self.outer_tokens), len(self.text))
        return [token for token in self.tokens if token.start >= start]

    @cached_property
    def common_tables(self) -> frozenset[str]:
        """The names defined by its WITH, normalized."""
        return frozenset(map(normalize, self._names_and_rest[0]))

    @property
    def _names_and_rest(self) -> tuple[Sequence[str], Sequence[Token]]:
        """The names in WITH name [(columns)] AS [[NOT] MATERIALIZED] (...), ..., and the outer tokens after it."""
        outer = list(_outside(self.tokens))
        if self.keyword != "WITH":
            return [], outer
        names = []
        at, is_name = (2 if _word(outer, 1) == "RECURSIVE" else 1), True
        while at < len(outer) and (is_name or outer[at].text.upper() in _IN_WITH):
            if is_name:
                names.append(outer[at].text)
            is_name = outer[at].text == ","
            at += 1
        return names, outer[at:]

    @cached_property
    def outer_words(self) -> frozenset[str]:
        """The words outside of parentheses and quotes, in capitals."""
        return frozenset(token.word for token in self.outer_tokens)

    @cached_property
    def is_query(self) -> bool:
        """Whether it is a SELECT or VALUES, with or without WITH."""
        return self.verb in QUERIES

    @cached_property
    def only_reads(self) -> bool:
        """Whether it certainly changes nothing, which is False for a PRAGMA."""
        return self.is_query or self.keyword == "EXPLAIN"

    @cached_property
    def changes_rows(self) -> bool:
        """Whether it is an INSERT, REPLACE, UPDATE or DELETE."""
        return self.verb in ROW_CHANGES

    @cached_property
    def changed_table(self) -> str:
        """The table that it changes, as written and with its schema; '' if it changes none."""
        if not self.changes_rows:
            return ""
        words = self.outer_tokens if self.keyword == "WITH" else self.head
        at = 3 if _word(words, 1) == "OR" else 1  # UPDATE OR IGNORE
        if _word(words, at) in ("INTO", "FROM"):
            at += 1
        texts = [token.text for token in words[at : at + 3]]
        return "".join(texts if texts[1:2] == ["."] and len(texts) == 3 else texts[:1])

    @cached_property
    def changes_every_row(self) -> bool:
        """Whether it is an UPDATE or DELETE without WHERE."""
        return self.verb in ("UPDATE", "DELETE") and "WHERE" not in self.outer_words

    @cached_property
    def returns_rows(self) -> bool | None:
        """Whether it returns columns, even without rows; None if the text does not decide it."""
        if self.only_reads:
            return True
        if self.changes_rows:
            return "RETURNING" in self.outer_words
        return None if self.verb in ("PRAGMA", "") else False

    @cached_property
    def tables(self) -> frozenset[str]:
        """The names after FROM, JOIN, INTO and UPDATE without a schema, normalized."""
        names = set()
        lists = [False]  # for each open parenthesis: whether it contains a list of tables
        expected = False
        words = self.tokens
        for token, after in zip_longest(words, words[1:]):
            if token.text == "(":
                lists.append(expected)  # FROM (a JOIN b)
            elif token.text == ")":
                expected = False
                del lists[max(1, len(lists) - 1) :]
            elif token.word in _TABLES_FOLLOW:
                lists[-1] = expected = True
            elif token.word in _TABLES_END:
                lists[-1] = expected = False
            elif token.text == ",":
                expected = lists[-1]
            elif token.kind in ("word", "quoted"):
                if expected and (after is None or after.text != "."):
                    names.add(normalize(token.text))
                expected = False
        return frozenset(names)

    # -- transactions

    @cached_property
    def controls_transaction(self) -> bool:
        """Whether it only begins or ends transactions or savepoints."""
        return self.keyword in _TRANSACTION

    @cached_property
    def opens_transaction(self) -> bool:
        """Whether it opens a transaction if none is open."""
        return self.keyword in ("BEGIN", "SAVEPOINT")

    @cached_property
    def begin_mode(self) -> str:
        """The mode of a BEGIN: DEFERRED, IMMEDIATE or EXCLUSIVE; '' for other statements."""
        if self.keyword != "BEGIN":
            return ""
        mode = _word(self.head, 1)
        return "DEFERRED" if mode in ("", "TRANSACTION") else mode

    @cached_property
    def commits(self) -> bool:
        """Whether it is a COMMIT of the whole transaction."""
        return self.keyword in ("COMMIT", "END")

    @cached_property
    def rolls_back(self) -> bool:
        """Whether it is a ROLLBACK of the whole transaction."""
        return self.keyword == "ROLLBACK" and self.rollback_to is None

    @cached_property
    def rollback_to(self) -> str | None:
        """The savepoint of a ROLLBACK TO, normalized; None for other statements."""
        words = [token.word for token in self.head[:4]]  # ROLLBACK TRANSACTION name TO
        if self.keyword != "ROLLBACK" or "TO" not in words:
            return None
        return _savepoint(self.head[words.index("TO") + 1 :])

    @cached_property
    def savepoint(self) -> str | None:
        """The savepoint that it sets, normalized; None for other statements."""
        return _savepoint(self.head[1:]) if self.keyword == "SAVEPOINT" else None

    @cached_property
    def release(self) -> str | None:
        """The savepoint that it releases, normalized; None for other statements."""
        return _savepoint(self.head[1:]) if self.keyword == "RELEASE" else None

    # -- schema and settings

    @cached_property
    def changes_schema(self) -> bool:
        """Whether it is a CREATE, DROP or ALTER."""
        return self.keyword in _SCHEMA_CHANGES

    @cached_property
    def creates_temporary(self) -> bool:
        """Whether it creates a temporary table, view or trigger."""
        return self.keyword == "CREATE" and _word(self.head, 1) in ("TEMP", "TEMPORARY")

    @cached_property
    def pragma(self) -> tuple[str, str]:
        """The name of a PRAGMA, also after EXPLAIN, normalized and without its schema, and the token after it."""
        words = self.head[_behind_explain(self.head) :]
        if _word(words, 0) != "PRAGMA":
            return "", ""
        texts = [token.text for token in words]
        name, sign, *_ = *texts[3 if texts[2:3] == ["."] else 1 :], "", ""
        return normalize(name), sign

    @cached_property
    def connection_setting(self) -> str:
        """The connection setting that it changes; '' if it only reads one, or changes the database file.

        Repeating ``user_version = 3`` on another connection could undo a change of another client.
        """
        name, sign = self.pragma if self.keyword == "PRAGMA" else ("", "")
        return name if sign in ("=", "(") and name in _CONNECTION_SETTINGS else ""

    @cached_property
    def switches_on(self) -> bool:
        """Whether the value of its PRAGMA is true, by SQLite's rules: a number but 0, on, yes or true.

        Any other value is false, even one that is misspelt.
        """
        values = [token.text for token in self.tokens[:_HEAD]]
        signs = [index for index, text in enumerate(values) if text in ("=", "(")]
        value = [text for text in values[signs[0] + 1 :] if text != "+"] if signs else []
        return bool(value) and _is_true(normalize(value[0].replace("'", '"')))

    @cached_property
    def is_ignored_in_transaction(self) -> bool:
        """Whether SQLite ignores it in a transaction, without an error."""
        return self.connection_setting == "foreign_keys"


def _is_true(value: str) -> bool:
    if not value[:1].isdigit():
        return value in ("on", "yes", "true")
    digits = _NUMBER.match(value)
    return digits is not None and int(digits[0], 16 if "x" in digits[0] else 10) % 256 != 0  # SQLite keeps one byte


def _word(words: Sequence[Token], at: int) -> str:
    return words[at].word if at < len(words) else ""


def _savepoint(words: Sequence[Token]) -> str:
    at = 1 if _word(words, 0) == "SAVEPOINT" and len(words) > 1 else 0
    return normalize(words[at].text) if at < len(words) else ""


def _behind_explain(words: Sequence[Token]) -> int:
    """Return the index of the first token after EXPLAIN and EXPLAIN QUERY PLAN, otherwise 0."""
    if _word(words, 0) != "EXPLAIN":
        return 0
    return 3 if _word(words, 1) == "QUERY" and _word(words, 2) == "PLAN" else 1


def _outside(words: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens outside of parentheses, and the outermost parentheses."""
    depth = 0
    for token in words:
        depth -= depth > 0 and token.text == ")"
        if depth == 0:
            yield token
        depth += token.text == "("


# -- splitting scripts


def parse(text: str) -> ParsedStatement:
    """Return the first statement of a text, or an empty one."""
    return next(iter(split(text)), _NOTHING)


def each(script: str) -> Iterator[ParsedStatement]:
    """Yield the statements of a script as `split` returns them, without all of them in memory."""
    return iter(_split_short(script)) if len(script) <= _SHORT else _split(script)


def split(script: str) -> tuple[ParsedStatement, ...]:
    """Split a script into its statements, without comments and empty statements between them."""
    return _split_short(script) if len(script) <= _SHORT else tuple(_split(script))


@lru_cache(maxsize=128)
def _split_short(script: str) -> tuple[ParsedStatement, ...]:
    return tuple(_split(script))


def is_complete(script: str) -> bool:
    """Return True if the text is empty or ends at the end of a statement."""
    draft, last = None, None
    for last, draft in _drafts(tokens(script)):  # noqa: B007 - the last ones are looked at
        pass
    return draft is None and (last is None or last.is_finished)


SHELL_SETTINGS = frozenset({
    "bail", "changes", "dbconfig", "echo", "eqp", "explain", "headers", "mode", "nullvalue", "print", "progress",
    "prompt", "scanstats", "separator", "stats", "timeout", "timer", "trace", "width",
})  # fmt: skip
"""Commands of SQLite's shell, without the dot, that change nothing in the database; `.recover` writes one."""

OPTIONAL = "--! "
"""The beginning of a comment with a statement of a dump that libSQL servers refuse."""


def statements_of(chunks: Iterable[str], *, optional: bool = False) -> Iterator[str]:
    """Yield the text of each statement of a script in chunks, which is never in memory as a whole.

    With ``optional``, comments between statements that begin with `OPTIONAL` are statements, too.
    """
    pieces: list[str] = []
    for token, draft in _drafts(tokens_of_chunks(chunks)):
        if draft is not None:
            pieces.append(token.text)
        elif pieces:
            yield "".join(pieces).rstrip()
            pieces = []
        if optional and draft is None and token.text.startswith(OPTIONAL):
            yield token.text.removeprefix(OPTIONAL).rstrip("; \r\n")
    if pieces:
        yield "".join(pieces).rstrip()


def _split(script: str) -> Iterator[ParsedStatement]:
    line, counted = 1, 0
    for draft in _finished(script):
        start = draft.head[0].start
        line += script.count("\n", counted, start)
        counted = start
        yield ParsedStatement(script[start : draft.last.end], start, line, tuple(draft.head), tuple(draft.parameters))


def _finished(script: str) -> Iterator[_Draft]:
    last: _Draft | None = None
    for _, draft in _drafts(tokens(script)):
        if last is not None and draft is None:
            yield last
        last = draft
    if last is not None:
        yield last


def _drafts(parts: Iterable[Token]) -> Iterator[tuple[Token, _Draft | None]]:
    """Yield every token with its unfinished statement, None between two statements.

    A trigger ends by the rule of ``sqlite3_complete``.
    """
    draft: _Draft | None = None
    for token in parts:
        if token.kind not in BLANK:
            if draft is None:
                draft = _Draft(token) if token.kind != "semi" else None
            elif token.kind != "semi" or (draft.is_trigger and not draft.ends_trigger):
                draft.add(token)
            else:
                draft = None
        yield token, draft


class _Draft:
    """The state of a statement while it is read, without all its tokens, which need more memory than its text."""

    def __init__(self, first: Token) -> None:
        self.head: list[Token] = []
        self.before_last = self.last = first
        self.parameters: list[str | None] = []
        self._known: set[str] = set()
        self.add(first)

    def add(self, token: Token) -> None:
        """Add the next token that is neither blank nor comment."""
        if len(self.head) < _HEAD:
            self.head.append(token)
        self.before_last, self.last = self.last, token
        # `#1` is a register of SQLite's own SQL, elsewhere a syntax error.
        if token.kind == "param" and token.text not in self._known and not token.text.startswith(_REGISTERS):
            self._number(token.text)

    @property
    def is_trigger(self) -> bool:
        """Whether it creates a trigger, which a ``;`` does not end."""
        words = [token.text.upper() for token in self.head[_behind_explain(self.head) :][:3]]
        if words[1:2] in (["TEMP"], ["TEMPORARY"]):
            del words[1]
        return words[:2] == ["CREATE", "TRIGGER"]

    @property
    def ends_trigger(self) -> bool:
        """Whether a trigger is complete: its last word is an END right after a ``;``."""
        return self.last.text.upper() == "END" and self.before_last.kind == "semi"

    def _number(self, text: str) -> None:
        """Add a parameter under SQLite's number: ``?`` gets the next one, ``?N`` its own, each name one."""
        names = self.parameters
        if text == "?":
            names.append(None)
        elif text[0] == "?":
            digits = text[1:].lstrip("0")
            number = int(digits) if 0 < len(digits) <= 5 else 0
            if 0 < number <= HIGHEST_PARAMETER:  # SQLite refuses others with a better message
                names.extend([None] * (number - len(names)))
                names[number - 1] = names[number - 1] or text
        elif "(" not in text or text.endswith(")"):
            names.append(text)
            self._known.add(text)


_NOTHING = ParsedStatement("")
