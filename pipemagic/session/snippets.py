"""Saved SELECTs that later cells prepend to a statement as tables of a WITH.

The snippets that a snippet uses are in its own WITH, inside its parentheses: a cell sees only the
tables that it names. In SQLite each table of a WITH sees all the others, so a name that would hide a table from another
one is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pipemagic import sql
from pipemagic.errors import SessionError
from pipemagic.session.source_map import Edit, Segment, SourceMap, SourceText, place_of_with
from pipemagic.suggestions import did_you_mean


@dataclass(frozen=True)
class Snippet:
    """One saved SELECT: ``text`` as it was written, ``uses`` the snippets that it needs."""

    name: str
    text: str
    uses: tuple[str, ...] = ()

    @property
    def source(self) -> SourceText:
        """The text, for errors with a position in it."""
        return SourceText(self.text, f"the saved SELECT {self.name}")


@dataclass
class Snippets:
    """The snippets of a session, by case-insensitive name."""

    _saved: dict[str, Snippet] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Snippet]:
        return iter(self._saved.values())

    def get(self, name: str) -> Snippet:
        """Return a snippet; raise SessionError if there is none of that name."""
        if entry := self._saved.get(name.lower()):
            return entry
        hint = did_you_mean(name, [snippet.name for snippet in self]) or "%%sql --save NAME saves the SELECT of a cell"
        raise SessionError(f"saved SELECT {name!r} does not exist", hint=hint)

    def check(self, snippet: Snippet) -> None:
        """Raise SessionError if the snippet cannot be saved: no plain name, not one SELECT, or it reads from itself."""
        name = snippet.name
        if not name.isidentifier():
            raise SessionError(f"{name!r} is not a valid name for a table", hint="use letters, digits and _")
        statements = sql.split(snippet.text)
        if len(statements) != 1 or not statements[0].is_query:
            raise SessionError(f"--save {name}: the cell must consist of one SELECT")
        if name.lower() in statements[0].tables and name.lower() not in map(str.lower, snippet.uses):
            raise SessionError(
                f"--save {name}: the SELECT reads a table of that name, and would refer to itself",
                hint="choose another name",
            )
        if path := self._path(name.lower(), snippet.uses):
            raise SessionError(f"--save {name}: it would use itself ({' on '.join([name, *path])})")

    def save(self, snippet: Snippet) -> None:
        """Save a snippet, replacing one of the same name."""
        self.check(snippet)
        self._saved[snippet.name.lower()] = snippet

    def delete(self, name: str) -> Snippet:
        """Delete a snippet; raise SessionError if there is none, or others need it."""
        entry = self.get(name)
        if users := [snippet.name for snippet in self if entry.name.lower() in map(str.lower, snippet.uses)]:
            raise SessionError(f"{entry.name} is used by {', '.join(users)}", hint=f"delete {users[0]} first")
        return self._saved.pop(name.lower())

    def put_in_front(self, statements: Sequence[SourceMap], names: Sequence[str]) -> list[SourceMap]:
        """Prepend each of the named snippets to the statements that read from it.

        Raise SessionError for a snippet that none of them reads from.
        """
        results, inserted_names = [], set[str]()
        for statement in statements:
            changed, in_front = self._in_front(statement, names)
            results.append(changed)
            inserted_names |= in_front
        for name in names:
            if self.get(name).name not in inserted_names:
                raise SessionError(f"--with {name}: no statement of the cell reads from {name}")
        return results

    def _in_front(self, statement: SourceMap, names: Sequence[str]) -> tuple[SourceMap, set[str]]:
        text = statement.text
        snippets = self._used(text, names)
        place = place_of_with(text) if snippets else None
        if place is None:
            return statement, set()
        self._refuse_hidden(snippets, sql.parse(text[place.start :]).common_tables)
        tables = tuple(self._tables(snippets, place.before, place.after))
        return statement.edited([Edit(place.offset, place.offset, tables)]), {snippet.name for snippet in snippets}

    def _used(self, text: str, names: Sequence[str]) -> list[Snippet]:
        words = {sql.normalize(token.text) for token in sql.parse(text).tokens if token.kind in ("word", "quoted")}
        return [snippet for snippet in dict.fromkeys(map(self.get, names)) if snippet.name.lower() in words]

    def _tables(self, snippets: Sequence[Snippet], before: str, after: str) -> Iterator[Segment]:
        for snippet in snippets:
            start = before if snippet is snippets[0] else ", "
            yield Segment(f"{start}{sql.quote(snippet.name)} AS (", snippet.source, 0, copied=False)
            yield from self._in_front(SourceMap((Segment(snippet.text, snippet.source, 0),)), snippet.uses)[0].segments
            yield Segment(
                f"){after}" if snippet is snippets[-1] else ")", snippet.source, len(snippet.text), copied=False
            )

    def _refuse_hidden(self, snippets: Sequence[Snippet], own: frozenset[str]) -> None:
        """Raise SessionError if a name in the WITH would hide a table that a snippet reads."""
        names = {snippet.name.lower() for snippet in snippets}
        if both := names & own:
            name = min(both)
            raise SessionError(f"the WITH of the statement defines {name}, which is also the name of a saved SELECT")
        for snippet in snippets:
            if hidden := self._reads(snippet) & (names | own) - {snippet.name.lower()}:
                name = min(hidden)
                raise SessionError(
                    f"the saved SELECT {snippet.name} reads a table {name}, which the WITH would replace",
                    hint=f"rename one of the two, or save {snippet.name} --with {name} to use the other one",
                )

    def _reads(self, snippet: Snippet) -> frozenset[str]:
        """Return the tables that a snippet reads, directly or by the snippets inside it."""
        inside = [self.get(name) for name in snippet.uses]
        own = sql.parse(snippet.text).tables - {inner.name.lower() for inner in inside}
        return own.union(*map(self._reads, inside))

    def _path(self, name: str, uses: Iterable[str]) -> list[str]:
        """Return the path from these snippets to one of that name; empty if there is none."""
        for snippet in map(self.get, uses):
            if snippet.name.lower() == name:
                return [snippet.name]
            if path := self._path(name, snippet.uses):
                return [snippet.name, *path]
        return []
