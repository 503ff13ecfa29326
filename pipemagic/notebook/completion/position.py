"""Where in a statement the cursor is: what stands before it, in which clause, and what is wanted there."""

from __future__ import annotations

from pipemagic.explore import words
from pipemagic.explore.token_tree import Group
from pipemagic.notebook.completion.cursor import Place

_CLAUSES = frozenset(
    ["SELECT", "FROM", "JOIN", "ON", "USING", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "SET", "VALUES", "INTO",
     "UPDATE", "RETURNING", "WITH", "WINDOW", "OFFSET"]
)  # fmt: skip
_TABLE_NEXT = frozenset(["FROM", "JOIN", "INTO", "TABLE", "VIEW", "REFERENCES", "ANALYZE"])
_OPERANDS = ("number", "string", "blob", "param", "quoted")
_NOT_OPERANDS = words.KEYWORDS - {
    "NULL", "END", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "ISNULL", "NOTNULL",
}  # fmt: skip


class Position:
    """The cursor among the words of its group; ``at`` is the number of the item that it stands before."""

    def __init__(self, place: Place) -> None:
        self.top = place.top
        self.group = place.inside
        self.at = place.inside.cursor or 0

    @property
    def previous(self) -> str:
        """The word or sign before the cursor."""
        return self.group.word(self.at - 1)

    @property
    def before_group(self) -> str:
        """The word before the parentheses that the cursor is in; '' outside of any."""
        parent = self.group.parent
        return "" if parent is None else parent.word(index_in(parent, self.group) - 1)

    @property
    def clause(self) -> str:
        """The keyword that the clause of the cursor begins with; '' if there is none at this level."""
        for index in range(self.at - 1, -1, -1):
            word = self.group.word(index)
            if word in _CLAUSES and self.group.word(index - 1) != ".":
                return word
            if word in ("UNION", "ALL", "INTERSECT", "EXCEPT", "QUERY"):
                return ""
        return ""

    @property
    def at_start(self) -> bool:
        """Whether a statement, or a query in parentheses, begins here."""
        if self.at == 0:
            return self.group.parent is None or self.before_group in ("", "AS", "IN", "EXISTS", "FROM", "JOIN", ",")
        return self.group.parent is None and [self.group.word(index) for index in range(self.at)] in (
            ["EXPLAIN"], ["EXPLAIN", "QUERY", "PLAN"],
        )  # fmt: skip

    @property
    def after_call(self) -> bool:
        """Whether the word before is that of a function: REPLACE and a few more begin a statement as well."""
        found = self.previous in ("REPLACE", "BEGIN", "COMMIT", "ROLLBACK", "ALTER", "CREATE", "DROP")
        return found and self.at != 1

    @property
    def defines_table(self) -> bool:
        """Whether the parentheses are those of a CREATE TABLE, or inside them."""
        if self.top.word(0) != "CREATE" or "TABLE" not in [self.top.word(index) for index in range(1, 3)]:
            return False
        return self.group.parent is self.top and self.top.word(index_in(self.top, self.group) - 1) not in ("AS", "")

    @property
    def wants_table(self) -> bool:
        """Whether the name of a table is to come."""
        previous, words_ = self.previous, [self.group.word(index) for index in range(self.at)]
        if self.before_group and self.group.parent is not None and self.group.parent.word(0) == "PRAGMA":
            return True
        if previous in _TABLE_NEXT:
            return words_[:1] != ["CREATE"] or previous not in ("TABLE", "VIEW")
        if previous == "UPDATE" or (words_[-2:-1] == ["OR"] and words_[:1] == ["UPDATE"]):
            return words_[-2:-1] not in (["DO"], ["ON"])
        if previous == "ON" and words_[:1] == ["CREATE"]:
            return True
        if (previous == "EXISTS" and words_[:1] == ["DROP"]) or words_ in (["REINDEX"],):
            return True
        return previous == "," and self.clause in ("FROM", "JOIN")

    @property
    def after_operand(self) -> bool:
        """Whether something whole stands before the cursor, so that an operator or a clause comes next."""
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


def index_in(parent: Group, group: Group) -> int:
    """Give the number of a group among the items of the one around it."""
    return next(index for index, item in enumerate(parent.items) if item is group)
