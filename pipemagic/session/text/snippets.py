"""Saved SELECTs that a later cell puts in front of its statement as tables of a WITH, where it names them.

What a snippet was itself saved with stands in a WITH of its own, inside its parentheses: only the tables that a cell
names are visible in that cell. SQLite lets each table of a WITH see all the others, so a name that would hide a table
from another one is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pipemagic import sql
from pipemagic.client.heads import CHANGING, READING, head
from pipemagic.errors import SessionError
from pipemagic.session.text import reading
from pipemagic.session.text.woven import Piece, Source, Woven, whole


@dataclass(frozen=True)
class Snippet:
    """One saved SELECT: ``text`` as it was written, ``uses`` the snippets that it needs itself."""

    name: str
    text: str
    uses: tuple[str, ...] = ()

    @property
    def source(self) -> Source:
        """The text for errors that point into it."""
        return Source(self.text, f"the saved {self.name}")


@dataclass
class Snippets:
    """The snippets of a session, by name; as in SQL, capitals do not count."""

    _saved: dict[str, Snippet] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Snippet]:
        return iter(self._saved.values())

    def get(self, name: str) -> Snippet:
        """Give a snippet; SessionError if there is none of that name."""
        if found := self._saved.get(name.lower()):
            return found
        near = difflib.get_close_matches(name, [one.name for one in self], n=1)
        hint = f"did you mean {near[0]}?" if near else "%%sql --save NAME saves the SELECT of a cell"
        raise SessionError(f"there is no saved {name!r}", hint=hint)

    def check(self, snippet: Snippet) -> None:
        """SessionError if the snippet cannot be saved: no plain name, no SELECT, or it would stand on itself."""
        name = snippet.name
        if not name.isidentifier():
            raise SessionError(f"{name!r} is no name for a table", hint="letters, digits and _ make one")
        statements = sql.split(snippet.text)
        if len(statements) != 1 or head(snippet.text).verb not in READING:
            raise SessionError(f"--save {name}: a cell with one SELECT is saved, and nothing else")
        if name.lower() in reading.tables(snippet.text) and name.lower() not in map(str.lower, snippet.uses):
            raise SessionError(
                f"--save {name}: it reads a table of that name, and would read itself", hint="choose another name"
            )
        if path := self._way(name.lower(), snippet.uses):
            raise SessionError(f"--save {name}: it would stand on itself ({' on '.join([name, *path])})")

    def save(self, snippet: Snippet) -> None:
        """Keep a snippet; one of the same name goes."""
        self.check(snippet)
        self._saved[snippet.name.lower()] = snippet

    def delete(self, name: str) -> Snippet:
        """Forget a snippet; SessionError if there is none, or others need it."""
        found = self.get(name)
        if users := [one.name for one in self if found.name.lower() in map(str.lower, one.uses)]:
            raise SessionError(f"{found.name} is used by {', '.join(users)}", hint=f"delete {users[0]} first")
        return self._saved.pop(name.lower())

    def in_front(self, woven: Woven, names: Sequence[str]) -> tuple[Woven, set[str]]:
        """Put those of the snippets that a statement uses in front of it; gives also which ones these are."""
        used = self._used(woven.text, names)
        spot = _spot(woven.text) if used else None
        if spot is None:
            return woven, set()
        self._refuse_hidden(used, reading.own_tables(woven.text[spot.start :]))
        pieces = list(self._tables(used))
        first, last = pieces[0].source, pieces[-1].source
        start, end = ("", ", ") if spot.has_with else ("WITH ", " ")
        around = [Piece(start, first, 0, copied=False), *pieces, Piece(end, last, 0, copied=False)]
        return woven.inserted(spot.offset, [piece for piece in around if piece.text]), {one.name for one in used}

    def _used(self, text: str, names: Sequence[str]) -> list[Snippet]:
        words = {reading.bare(token.text) for token in sql.tokens(text) if token.kind in ("word", "quoted")}
        return [one for one in map(self.get, dict.fromkeys(names)) if one.name.lower() in words]

    def _tables(self, used: Iterable[Snippet]) -> Iterator[Piece]:
        for number, one in enumerate(used):
            yield Piece(f"{', ' if number else ''}{sql.quote(one.name)} AS (", one.source, 0, copied=False)
            yield from self.in_front(whole(one.source, 0, one.text), one.uses)[0].pieces
            yield Piece(")", one.source, len(one.text), copied=False)

    def _refuse_hidden(self, used: Sequence[Snippet], own: set[str]) -> None:
        """SessionError if a name in the WITH would take the place of a table that a snippet reads."""
        names = {one.name.lower() for one in used}
        if taken := names & own:
            name = min(taken)
            raise SessionError(f"the WITH of the statement has a {name} of its own, beside the saved {name}")
        for one in used:
            if hidden := self._reads(one) & (names | own) - {one.name.lower()}:
                name = min(hidden)
                raise SessionError(
                    f"the saved {one.name} reads a table {name}, and would read what the WITH calls so",
                    hint=f"save or name it as something else, or save {one.name} --with {name} if that is meant",
                )

    def _reads(self, snippet: Snippet) -> set[str]:
        """Give the tables that a snippet reads, with those of the snippets inside it."""
        inside = [self.get(name) for name in snippet.uses]
        own = reading.tables(snippet.text) - {one.name.lower() for one in inside}
        return own.union(*map(self._reads, inside))

    def _way(self, name: str, uses: Iterable[str]) -> list[str]:
        """Give how one comes from these snippets to one of that name; nothing if one does not."""
        for one in map(self.get, uses):
            if one.name.lower() == name:
                return [one.name]
            if path := self._way(name, one.uses):
                return [one.name, *path]
        return []


@dataclass(frozen=True)
class _Spot:
    """Where in a statement its WITH begins, or would, and where tables are added to it."""

    start: int
    offset: int
    has_with: bool


def _spot(text: str) -> _Spot | None:
    """Find where the tables of a WITH go; None if the statement cannot have one."""
    words = [token for token in sql.tokens(text) if token.kind not in ("space", "comment")]
    plain = [token.text.upper() if token.kind == "word" else "" for token in words]
    number = 0
    if plain[:1] == ["EXPLAIN"]:
        number = 3 if plain[1:3] == ["QUERY", "PLAN"] else 1
    elif plain[:1] == ["CREATE"] and {"TABLE", "VIEW"} & set(plain[1:3]) and "AS" in plain:
        number = plain.index("AS") + 1
    verb = plain[number] if number < len(plain) else ""
    if verb == "WITH":
        last = number + 1 if plain[number + 1 : number + 2] == ["RECURSIVE"] else number
        offset = words[last + 1].start if last + 1 < len(words) else len(text)
        return _Spot(words[number].start, offset, has_with=True)
    if verb not in (*READING, *CHANGING):
        return None
    return _Spot(words[number].start, words[number].start, has_with=False)
