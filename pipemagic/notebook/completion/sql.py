"""What SQL can go on with at the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pipemagic.explore import words
from pipemagic.explore.shapes import Shape, declared
from pipemagic.notebook.completion.cursor import Group, Place, find
from pipemagic.notebook.completion.offers import MOST, Offer, fitting
from pipemagic.notebook.completion.scope import Scope, Source, scope_at
from pipemagic.sql import Token

_CLAUSES = frozenset(
    ["SELECT", "FROM", "JOIN", "ON", "USING", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "SET", "VALUES", "INTO",
     "UPDATE", "RETURNING", "WITH", "WINDOW", "OFFSET"]
)  # fmt: skip
_TABLE_NEXT = frozenset(["FROM", "JOIN", "INTO", "TABLE", "VIEW", "REFERENCES", "ANALYZE"])
_OPERANDS = ("number", "string", "blob", "param", "quoted")
_NOT_OPERANDS = words.KEYWORDS - {
    "NULL",
    "END",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "ISNULL",
    "NOTNULL",
}
_FEW = 60  # tables: if there are more, columns of no table in particular are offered once a letter is typed


@dataclass(frozen=True)
class Answer:
    """What to show, and the text before the cursor that each entry replaces."""

    offers: list[Offer]
    fragment: str = ""


def complete(text: str, at: int, tables: Iterable[Shape], parameters: Sequence[str] = ()) -> Answer:
    """Complete SQL at an offset; ``tables`` is what the database has, ``parameters`` the names that have values."""
    place = find(text, at)
    if place is None:
        return Answer([])
    if place.fragment[:1] in (":", "@", "$"):
        sign = place.fragment[0]
        return Answer(
            fitting((Offer(f"{sign}{name}", "parameter") for name in parameters), place.fragment), place.fragment
        )
    if place.fragment[:1].isdigit() or place.fragment[:1] == "?":
        return Answer([], place.fragment)
    completion = _Completion(place, _with_earlier(tables, place.before))
    found = fitting(completion.offers(), place.typed)
    return Answer([completion.finished(offer) for offer in found if place.can_hold(offer.name)], place.fragment)


def _with_earlier(tables: Iterable[Shape], before: Sequence[str]) -> list[Shape]:
    """Add what earlier statements of the cell create, and leave out what they drop."""
    known = {shape.name.lower(): shape for shape in tables}
    for statement in before:
        change = declared(statement)
        if change is not None and change.shape is not None:
            known[change.name.lower()] = change.shape
        elif change is not None:
            known.pop(change.name.lower(), None)
    return list(known.values())


class _Completion:
    """One question of the user: where the cursor is, and what is visible there."""

    def __init__(self, place: Place, tables: list[Shape]) -> None:
        self.place = place
        self.group = place.inside
        self.at = place.inside.cursor or 0
        self.tables = tables
        self.scope: Scope = scope_at(place.inside, tables)

    @property
    def previous(self) -> str:
        """The word or sign before the cursor."""
        return self.group.word(self.at - 1)

    def finished(self, offer: Offer) -> Offer:
        """Write the entry as the place wants it: with the quotes that are typed already, small, without ``(``."""
        place = self.place
        if place.quote:
            text = words.quoted(offer.name, '"' if place.quote == "[" and "]" in offer.name else place.quote)
            return Offer(text[:-1] if place.closed else text, offer.kind, offer.name)
        if offer.kind == "keyword" and place.lower:
            return Offer(offer.text.lower(), offer.kind)
        if place.calls and offer.text.endswith("("):
            return Offer(offer.text[:-1], offer.kind)
        return offer

    def offers(self) -> Iterator[Offer]:
        """Give everything that can stand here, the likely first."""
        if self.previous == ".":
            yield from self._after_dot()
        elif self.place.quote:
            yield from self._names()
        elif (listed := self._list_of_columns()) is not None:
            yield from _columns(listed)
        elif (fixed := self._fixed()) is not None:
            yield from fixed
        elif self._at_start():
            yield from _keywords(
                [one for one in words.STARTS if self.group.parent is None or one in ("SELECT", "WITH", "VALUES")]
            )
            if self.group.parent is not None:
                yield from self._expression("")
        elif self._wants_table():
            yield from self._table_names()
        else:
            yield from self._in_clause()

    # -- places

    def _at_start(self) -> bool:
        if self.at == 0:
            before = self._word_before_group()
            return self.group.parent is None or before in ("", "AS", "IN", "EXISTS", "FROM", "JOIN", ",")
        return self.group.parent is None and [self.group.word(index) for index in range(self.at)] in (
            ["EXPLAIN"], ["EXPLAIN", "QUERY", "PLAN"],
        )  # fmt: skip

    def _fixed(self) -> Iterable[Offer] | None:
        """Give what a few places want, and nothing else; None for all others."""
        first, previous = self.group.word(0), self.previous
        if self.group.parent is None and first == "PRAGMA":
            names = [*words.PRAGMAS] if self.at == 1 else []
            return [Offer(name, "pragma") for name in names]
        if previous == "WITH":
            return _keywords(["RECURSIVE"])
        if self._word_before_group() != "" and self._defines_table():
            if previous == "REFERENCES":
                return None
            return [] if self.at == 0 or previous == "," else _keywords(words.OF_COLUMN)
        if first == "ALTER" and self.at == 3 and self.group.is_name(2):
            return _keywords(words.OF_ALTER)
        if first == "ALTER" and previous in ("COLUMN", "DROP", "RENAME") and self.group.is_name(2):
            shape = self.scope.tables.get(self.group.name(2).lower())
            return _columns(shape.columns if shape else ())
        if previous == "AS" and self._word_before_group() == "CAST":
            return _keywords(words.OF_COLUMN[:5])
        if self._word_before_group() == "OVER" and self.at == 0:
            return _keywords(["PARTITION BY", "ORDER BY", "ROWS BETWEEN", "RANGE BETWEEN"])
        if previous in words.AFTER and self.group.word(self.at - 2) != "." and not self._is_call(previous):
            return _keywords(words.AFTER[previous])
        return None

    def _is_call(self, word: str) -> bool:
        """REPLACE and a few more begin a statement or are names of functions."""
        return word in ("REPLACE", "BEGIN", "COMMIT", "ROLLBACK", "ALTER", "CREATE", "DROP") and self.at != 1

    def _defines_table(self) -> bool:
        """Whether the parentheses are those of a CREATE TABLE, or inside them."""
        top = self.place.top
        if top.word(0) != "CREATE" or "TABLE" not in [top.word(index) for index in range(1, 3)]:
            return False
        return self.group.parent is top and top.word(_index(top, self.group) - 1) not in ("AS", "")

    def _word_before_group(self) -> str:
        parent = self.group.parent
        return "" if parent is None else parent.word(_index(parent, self.group) - 1)

    def _clause(self) -> str:
        """Give the keyword that the clause of the cursor begins with; '' if there is none at this level."""
        for index in range(self.at - 1, -1, -1):
            word = self.group.word(index)
            if word in _CLAUSES and self.group.word(index - 1) != ".":
                return word
            if word in ("UNION", "ALL", "INTERSECT", "EXCEPT", "QUERY"):
                return ""
        return ""

    def _wants_table(self) -> bool:
        previous, words_ = self.previous, [self.group.word(index) for index in range(self.at)]
        if self._word_before_group() and self.group.parent is not None and self.group.parent.word(0) == "PRAGMA":
            return True
        if previous in _TABLE_NEXT:
            return words_[:1] != ["CREATE"] or previous not in ("TABLE", "VIEW")
        if previous == "UPDATE" or (words_[-2:-1] == ["OR"] and words_[:1] == ["UPDATE"]):
            return words_[-2:-1] not in (["DO"], ["ON"])
        if previous == "ON" and words_[:1] == ["CREATE"]:
            return True
        if (previous == "EXISTS" and words_[:1] == ["DROP"]) or words_ in (["REINDEX"],):
            return True
        return previous == "," and self._clause() in ("FROM", "JOIN")

    def _list_of_columns(self) -> tuple[str, ...] | None:
        """Give the columns for parentheses after a table's name: INSERT INTO t (, USING (, REFERENCES t (."""
        parent = self.group.parent
        if parent is None:
            return None
        index = _index(parent, self.group)
        given = {self.group.name(at).lower() for at in range(len(self.group.items)) if self.group.is_name(at)}
        if parent.word(index - 1) == "USING":
            sources = self.scope.sources
            shared = [name for name in (sources[-1].columns if sources else ()) if _in_others(name, sources[:-1])]
            return tuple(name for name in shared if name.lower() not in given)
        if parent.word(index - 1) in ("KEY", "UNIQUE") and parent.parent is not None:
            return None
        if not parent.is_name(index - 1) or parent.word(index - 2) not in ("INTO", "REFERENCES", "ON", "."):
            return None
        if parent.word(index - 2) == "ON" and parent.word(0) != "CREATE" and parent.word(index - 1) != "CONFLICT":
            return None
        name = parent.name(index - 1).lower()
        if parent.word(index - 1) == "CONFLICT":
            columns = self.scope.sources[0].columns if self.scope.sources else ()
        else:
            columns = self.scope.tables[name].columns if name in self.scope.tables else ()
        return tuple(column for column in columns if column.lower() not in given)

    # -- what stands there

    def _after_dot(self) -> Iterator[Offer]:
        if not self.group.is_name(self.at - 2):
            return
        owner = self.group.name(self.at - 2)
        source = self.scope.labelled(owner)
        if source is None and owner.lower() == "excluded" and self.scope.sources:
            source = self.scope.sources[0]
        if owner.lower() in ("main", "temp") and (source is None or source.shape is None):
            yield from map(_table, sorted(self.scope.tables.values(), key=lambda one: one.name.lower()))
        elif source is not None:
            for left, text in self._conditions():
                if left.lower() == owner.lower():
                    yield Offer(text.split(".", 1)[1], "join")
            yield from _columns(source.columns)
        elif owner.lower() in ("new", "old") and self.place.trigger.lower() in self.scope.tables:
            yield from _columns(self.scope.tables[self.place.trigger.lower()].columns)
        elif owner.lower() in self.scope.tables:  # not in FROM yet
            yield from _columns(self.scope.tables[owner.lower()].columns)

    def _names(self) -> Iterator[Offer]:
        """Names of whatever is visible, for a quote that is open."""
        if self._wants_table():
            yield from self._table_names()
            return
        listed = self._list_of_columns()
        yield from _columns(listed if listed is not None else self._visible_columns())
        yield from self._labels()
        yield from self._table_names()

    def _table_names(self) -> Iterator[Offer]:
        if self.previous in ("FROM", "JOIN", ","):
            yield from map(_table, self.scope.common)
        tables = self.tables
        if self.group.word(0) in ("DROP", "CREATE") and self.previous == "VIEW":
            tables = [one for one in tables if one.kind == "view"]
        yield from map(_table, sorted(tables, key=self._rank))
        if self.previous in ("FROM", "JOIN", ",") and not self.place.quote:
            yield from (Offer(f"{name}(", kind) for name, kind in words.FUNCTIONS.items() if kind == "table function")
        if self.group.word(0) in ("CREATE", "DROP") and self.previous in ("TABLE", "VIEW"):
            yield from _keywords(["IF EXISTS"] if self.group.word(0) == "DROP" else ["IF NOT EXISTS"])

    def _rank(self, shape: Shape) -> tuple[bool, str]:
        """Tables that a foreign key ties to those in FROM come first after JOIN."""
        related = self.previous == "JOIN" and any(
            source.shape is not None and (_refers(source.shape, shape) or _refers(shape, source.shape))
            for source in self.scope.sources
        )
        return (not related, shape.name.lower())

    def _in_clause(self) -> Iterator[Offer]:
        clause = self._clause()
        if self._after_operand():
            yield from _keywords(words.NEXT.get("FROM" if clause == "JOIN" else clause, ()))
            yield from _rest_of_keywords()
            return
        if clause in ("ON",) and self.group.word(0) != "CREATE":
            yield from (Offer(text, "join") for _, text in self._conditions())
        if clause == "SET" and self.previous in ("SET", ","):
            yield from _columns(self.scope.sources[0].columns if self.scope.sources else ())
        yield from self._expression(clause)

    def _after_operand(self) -> bool:
        item = self.group.items[self.at - 1] if self.at else None
        if isinstance(item, Group):
            return True
        if item is None:
            return False
        if item.kind == "word":
            return self.group.word(self.at - 2) == "." or item.text.upper() not in _NOT_OPERANDS
        return item.kind in _OPERANDS or (
            item.text == "*" and self.group.word(self.at - 2) in ("SELECT", ",", ".", "DISTINCT")
        )

    def _expression(self, clause: str) -> Iterator[Offer]:
        if self.group.word(0) in ("CREATE", "DROP", "ALTER", "PRAGMA") and not clause:
            yield from _rest_of_keywords()
            return
        yield from _columns(self._visible_columns())
        yield from self._labels()
        if self.previous == "SELECT":
            yield from _keywords(["DISTINCT"])
        yield from (_function(name, kind) for name, kind in words.FUNCTIONS.items() if kind != "table function")
        yield from _keywords(words.EXPRESSION)
        before = self.previous
        if before and before[0].isalpha() and before not in words.BEFORE_EXPRESSION:
            yield from _rest_of_keywords()
        if self.place.typed and not self.scope.sources:
            yield from map(_table, self.tables)

    def _labels(self) -> Iterator[Offer]:
        for source in [*self.scope.sources, *self.scope.outer]:
            yield Offer(words.written(source.label), "table", source.label)

    def _visible_columns(self) -> Iterator[str]:
        """Give the columns that can be named here; while there is no FROM yet, those of all tables."""
        sources = [*self.scope.sources, *self.scope.outer]
        own = [*_output_names(self.group)] if self._clause() in ("ORDER", "GROUP", "HAVING") else []
        yield from own
        if sources:
            for source in sources:
                yield from source.columns
        elif self.place.typed or len(self.tables) <= _FEW:
            yield from self._columns_of_all_tables()

    def _columns_of_all_tables(self) -> Iterator[str]:
        """Give those that fit what is typed, no more than are shown: there may be very many."""
        wanted = self.place.typed.lower()
        shapes = [*self.scope.common, *self.tables]
        fitting = dict.fromkeys(name for shape in shapes for name in shape.columns if wanted in name.lower())
        begin = [name for name in fitting if name.lower().startswith(wanted)]
        yield from begin[:MOST]
        if len(begin) < MOST:
            yield from islice(fitting, 2 * MOST)

    def _conditions(self) -> Iterator[tuple[str, str]]:
        """Give what the last table can be joined on: foreign keys first, then columns of the same name.

        Each comes with the label that it begins with.
        """
        if self._clause() != "ON" or self.previous not in ("ON", "AND", "."):
            return
        sources = self._joined_so_far()
        if len(sources) < 2:
            return
        last, found = sources[-1], []
        for other in reversed(sources[:-1]):
            found += [*_by_keys(last, other), *((b, a) for a, b in _by_keys(other, last))]
        for other in [] if found else reversed(sources[:-1]):
            same = {column.lower() for column in other.columns}
            found += [([(last, one)], [(other, one)]) for one in last.columns if one.lower() in same]
        for left, right in found:
            for one, two in ((left, right), (right, left)):
                yield one[0][0].label, " AND ".join(f"{_of(a)} = {_of(b)}" for a, b in zip(one, two, strict=True))

    def _joined_so_far(self) -> list[Source]:
        """Give the sources up to the join of the cursor: those of later joins cannot be named in its ON."""
        cut = Group(self.group.items[: self.at])
        return list(scope_at(cut, [*self.tables, *self.scope.common]).sources)


Side = list[tuple[Source, str]]


def _by_keys(holder: Source, target: Source) -> Iterator[tuple[Side, Side]]:
    if holder.shape is None or target.shape is None:
        return
    for reference in holder.shape.references:
        if reference.table.lower() == target.shape.name.lower():
            yield [(holder, one) for one in reference.columns], [(target, one) for one in reference.to]


def _of(side: tuple[Source, str]) -> str:
    return f"{words.written(side[0].label)}.{words.written(side[1])}"


def _refers(holder: Shape, target: Shape) -> bool:
    return any(reference.table.lower() == target.name.lower() for reference in holder.references)


def _in_others(name: str, sources: Iterable[Source]) -> bool:
    return any(name.lower() == column.lower() for source in sources for column in source.columns)


def _index(parent: Group, group: Group) -> int:
    return next(index for index, item in enumerate(parent.items) if item is group)


def _output_names(group: Group) -> Iterator[str]:
    """Give the names that come with AS in the SELECT of this level: ORDER BY and GROUP BY can use them."""
    for index, item in enumerate(group.items):
        if group.word(index) == "FROM":
            return
        if group.word(index) == "AS" and group.is_name(index + 1) and isinstance(item, Token):
            yield group.name(index + 1)


def _columns(names: Iterable[str]) -> Iterator[Offer]:
    seen = set()
    for name in names:
        if name not in seen and words.can_be_shown(name):
            seen.add(name)
            yield Offer(words.written(name), "column", name)


def _table(shape: Shape) -> Offer:
    if not words.can_be_shown(shape.name):
        return Offer("", "table", "\0")
    return Offer(words.written(shape.name), "view" if shape.kind == "view" else "table", shape.name)


def _function(name: str, kind: str) -> Offer:
    return Offer(f"{name}()" if name in words.NO_ARGUMENTS else f"{name}(", kind)


def _keywords(found: Iterable[str]) -> Iterator[Offer]:
    return (Offer(word, "keyword") for word in found)


def _rest_of_keywords() -> Iterator[Offer]:
    return _keywords(sorted({*words.KEYWORDS, *words.PHRASES}))
