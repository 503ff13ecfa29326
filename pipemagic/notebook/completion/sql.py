"""What SQL can go on with at the cursor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from pipemagic.explore import words
from pipemagic.explore.scope import Scope, Source, scope_at
from pipemagic.explore.shapes import Shape, TypedColumns, declared
from pipemagic.explore.token_tree import Group
from pipemagic.notebook.completion import joins
from pipemagic.notebook.completion.cursor import Place, find
from pipemagic.notebook.completion.offers import MOST, Offer, fitting
from pipemagic.notebook.completion.position import Position, index_in
from pipemagic.sql import Token

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
    completion = _Completion(place, with_earlier(tables, place.before))
    found = fitting(completion.offers(), place.typed)
    return Answer([completion.finished(offer) for offer in found if place.can_hold(offer.name)], place.fragment)


def with_earlier(tables: Iterable[Shape], before: Sequence[str]) -> list[Shape]:
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
        self.here = Position(place)
        self.group, self.at = self.here.group, self.here.at
        self.tables = tables
        self.scope: Scope = scope_at(place.inside, tables)

    def finished(self, offer: Offer) -> Offer:
        """Write the entry as the place wants it: with the quotes that are typed already, small, without ``(``."""
        place = self.place
        if place.quote:
            text = words.quoted(offer.name, '"' if place.quote == "[" and "]" in offer.name else place.quote)
            return replace(offer, text=text[:-1] if place.closed else text)
        if offer.kind == "keyword" and place.lower:
            return replace(offer, text=offer.text.lower())
        if place.calls and offer.text.endswith("("):
            return replace(offer, text=offer.text[:-1])
        return offer

    def offers(self) -> Iterator[Offer]:
        """Give everything that can stand here, the likely first."""
        if self.here.previous == ".":
            yield from self._after_dot()
        elif self.place.quote:
            yield from self._names()
        elif (listed := self._list_of_columns()) is not None:
            yield from _columns(listed)
        elif (fixed := self._fixed()) is not None:
            yield from fixed
        elif self.here.at_start:
            yield from _keywords(
                [one for one in words.STARTS if self.group.parent is None or one in ("SELECT", "WITH", "VALUES")]
            )
            if self.group.parent is not None:
                yield from self._expression("")
        elif self.here.wants_table:
            yield from self._table_names()
        else:
            yield from self._in_clause()

    # -- places

    def _fixed(self) -> Iterable[Offer] | None:
        """Give what a few places want, and nothing else; None for all others."""
        first, previous = self.group.word(0), self.here.previous
        if self.group.parent is None and first == "PRAGMA":
            names = [*words.PRAGMAS] if self.at == 1 else []
            return [Offer(name, "pragma") for name in names]
        if previous == "WITH":
            return _keywords(["RECURSIVE"])
        if self.here.before_group != "" and self.here.defines_table:
            if previous == "REFERENCES":
                return None
            return [] if self.at == 0 or previous == "," else _keywords(words.OF_COLUMN)
        if first == "ALTER" and self.at == 3 and self.group.is_name(2):
            return _keywords(words.OF_ALTER)
        if first == "ALTER" and previous in ("COLUMN", "DROP", "RENAME") and self.group.is_name(2):
            shape = self.scope.tables.get(self.group.name(2).lower())
            return _columns(shape.typed if shape else ())
        if previous == "AS" and self.here.before_group == "CAST":
            return _keywords(words.OF_COLUMN[:5])
        if self.here.before_group == "OVER" and self.at == 0:
            return _keywords(["PARTITION BY", "ORDER BY", "ROWS BETWEEN", "RANGE BETWEEN"])
        if previous in words.AFTER and self.group.word(self.at - 2) != "." and not self.here.after_call:
            return _keywords(words.AFTER[previous])
        return None

    def _list_of_columns(self) -> TypedColumns | None:
        """Give the columns for parentheses after a table's name: INSERT INTO t (, USING (, REFERENCES t (."""
        parent = self.group.parent
        if parent is None:
            return None
        index = index_in(parent, self.group)
        given = {self.group.name(at).lower() for at in range(len(self.group.items)) if self.group.is_name(at)}
        if parent.word(index - 1) == "USING":
            return tuple(column for column in joins.shared(self.scope.sources) if column[0].lower() not in given)
        if parent.word(index - 1) in ("KEY", "UNIQUE") and parent.parent is not None:
            return None
        if not parent.is_name(index - 1) or parent.word(index - 2) not in ("INTO", "REFERENCES", "ON", "."):
            return None
        if parent.word(index - 2) == "ON" and parent.word(0) != "CREATE" and parent.word(index - 1) != "CONFLICT":
            return None
        name = parent.name(index - 1).lower()
        if parent.word(index - 1) == "CONFLICT":
            columns = self.scope.sources[0].typed if self.scope.sources else ()
        else:
            columns = self.scope.tables[name].typed if name in self.scope.tables else ()
        return tuple(column for column in columns if column[0].lower() not in given)

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
            for condition in self._conditions():
                if source.label in condition:
                    rest = condition[source.label].removeprefix(f"{words.written(source.label)}.")
                    yield Offer(rest, "join")
            yield from _columns(source.typed)
        elif owner.lower() in ("new", "old") and self.place.trigger.lower() in self.scope.tables:
            yield from _columns(self.scope.tables[self.place.trigger.lower()].typed)
        elif owner.lower() in self.scope.tables:  # not in FROM yet
            yield from _columns(self.scope.tables[owner.lower()].typed)

    def _names(self) -> Iterator[Offer]:
        """Names of whatever is visible, for a quote that is open."""
        if self.here.wants_table:
            yield from self._table_names()
            return
        listed = self._list_of_columns()
        yield from _columns(listed if listed is not None else self._visible_columns())
        yield from self._labels()
        yield from self._table_names()

    def _table_names(self) -> Iterator[Offer]:
        if self.here.previous in ("FROM", "JOIN", ","):
            yield from map(_table, self.scope.common)
        tables = self.tables
        if self.group.word(0) in ("DROP", "CREATE") and self.here.previous == "VIEW":
            tables = [one for one in tables if one.kind == "view"]
        yield from map(_table, sorted(tables, key=self._rank))
        if self.here.previous in ("FROM", "JOIN", ",") and not self.place.quote:
            yield from (Offer(f"{name}(", kind) for name, kind in words.FUNCTIONS.items() if kind == "table function")
        if self.group.word(0) in ("CREATE", "DROP") and self.here.previous in ("TABLE", "VIEW"):
            yield from _keywords(["IF EXISTS"] if self.group.word(0) == "DROP" else ["IF NOT EXISTS"])

    def _rank(self, shape: Shape) -> tuple[bool, str]:
        """Tables that a foreign key ties to those in FROM come first after JOIN."""
        related = self.here.previous == "JOIN" and any(
            source.shape is not None and joins.tied(source.shape, shape) for source in self.scope.sources
        )
        return (not related, shape.name.lower())

    def _in_clause(self) -> Iterator[Offer]:
        clause = self.here.clause
        if self.here.after_operand:
            yield from _keywords(words.NEXT.get("FROM" if clause == "JOIN" else clause, ()))
            yield from _rest_of_keywords()
            return
        if clause in ("ON",) and self.group.word(0) != "CREATE":
            yield from (Offer(self._as_typed(condition), "join") for condition in self._conditions())
        if clause == "SET" and self.here.previous in ("SET", ","):
            yield from _columns(self.scope.sources[0].typed if self.scope.sources else ())
        yield from self._expression(clause)

    def _expression(self, clause: str) -> Iterator[Offer]:
        if self.group.word(0) in ("CREATE", "DROP", "ALTER", "PRAGMA") and not clause:
            yield from _rest_of_keywords()
            return
        yield from _columns(self._visible_columns())
        yield from self._labels()
        if self.here.previous == "SELECT":
            yield from _keywords(["DISTINCT"])
        yield from (_function(name, kind) for name, kind in words.FUNCTIONS.items() if kind != "table function")
        yield from _keywords(words.EXPRESSION)
        before = self.here.previous
        if before and before[0].isalpha() and before not in words.BEFORE_EXPRESSION:
            yield from _rest_of_keywords()
        if self.place.typed and not self.scope.sources:
            yield from map(_table, self.tables)

    def _labels(self) -> Iterator[Offer]:
        for source in [*self.scope.sources, *self.scope.outer]:
            yield Offer(words.written(source.label), "table", source.label)

    def _visible_columns(self) -> Iterator[tuple[str, str]]:
        """Yield the columns that can be named here; while there is no FROM yet, those of all tables."""
        sources = [*self.scope.sources, *self.scope.outer]
        own = [*_output_names(self.group)] if self.here.clause in ("ORDER", "GROUP", "HAVING") else []
        yield from ((name, "") for name in own)
        if sources:
            for source in sources:
                yield from source.typed
        elif self.place.typed or len(self.tables) <= _FEW:
            yield from self._columns_of_all_tables()

    def _columns_of_all_tables(self) -> Iterator[tuple[str, str]]:
        """Give those that fit what is typed, no more than are shown: there may be very many."""
        wanted = self.place.typed.lower()
        shapes = [*self.scope.common, *self.tables]
        fitting: dict[str, str] = {}
        for shape in shapes:
            if wanted in "\0".join(shape.columns).lower():
                for name, type_ in shape.typed:
                    if wanted in name.lower():
                        fitting.setdefault(name, type_)
        begin = [(name, type_) for name, type_ in fitting.items() if name.lower().startswith(wanted)]
        yield from begin[:MOST]
        if len(begin) < MOST:
            yield from islice(fitting.items(), 2 * MOST)

    def _conditions(self) -> list[joins.Condition]:
        """Return what the last table can be joined on, if the cursor stands in its ON."""
        if self.here.clause == "ON" and self.here.previous in ("ON", "AND", "."):
            return joins.conditions(self._joined_so_far())
        return []

    def _as_typed(self, condition: joins.Condition) -> str:
        """Return the condition with the side first that is typed already."""
        typed = self.place.typed.lower()
        first, *_ = sides = list(condition.values())
        return next((side for side in sides if typed and side.lower().startswith(typed)), first)

    def _joined_so_far(self) -> list[Source]:
        """Give the sources up to the join of the cursor: those of later joins cannot be named in its ON."""
        cut = Group(self.group.items[: self.at])
        return list(scope_at(cut, [*self.tables, *self.scope.common]).sources)


def _output_names(group: Group) -> Iterator[str]:
    """Give the names that come with AS in the SELECT of this level: ORDER BY and GROUP BY can use them."""
    for index, item in enumerate(group.items):
        if group.word(index) == "FROM":
            return
        if group.word(index) == "AS" and group.is_name(index + 1) and isinstance(item, Token):
            yield group.name(index + 1)


def _columns(columns: Iterable[tuple[str, str]]) -> Iterator[Offer]:
    seen = set()
    for name, type_ in columns:
        if name not in seen and words.can_be_shown(name):
            seen.add(name)
            yield Offer(words.written(name), "column", name, type_)


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
