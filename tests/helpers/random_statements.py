"""Random SELECTs over the frames of `oracle_frames`: a small typed grammar that means the same in SQLite and DuckDB.

With ``mixed`` it also compares and combines values of different types, which only SQLite allows.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from oracle_frames import TABLES

KINDS = {"category": "text"}
NAMES = ("sales", "city", "staff", "ids", "shops", "empty")
OTHERS = ("kinds", "extremes", "odd")
"""Tables with values that overflow, or with types that the grammar combines only if ``mixed``."""

LITERALS = {
    "int": ["0", "1", "2", "3", "7", "40"],
    "float": [f"CAST({number} AS DOUBLE)" for number in ("0.5", "7.25", "12.5", "350.25", "0.0")],
    "text": ["'Rome'", "'Oslo'", "''", "'東京'", "'b'", "'IT'", "'a_b'", "'it''s'"],
    "date": ["'2024-01-01'", "'2024-02-29'", "'1999-12-31'"],
    "moment": ["'2024-01-01 08:30:00'", "'2024-02-01 00:00:00'"],
    "bool": ["true", "false"],
}
ANY_LITERAL = [
    "3", "'3'", "3.0", "'3.0'", "' 3'", "'abc'", "x'61'", "'a'", "NULL", "-1", "1e6", "'1e6'", "0", "''",
    "9007199254740993",
]  # fmt: skip
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


class Source(NamedTuple):
    """A table in FROM: its alias, and its columns with their kinds, which may have no `LITERALS`."""

    alias: str
    table: str
    columns: dict[str, str]


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name not in ("select", "group") else '"{}"'.format(name.replace('"', '""'))


class Grammar:
    """Writes statements; the same ``random`` writes the same ones."""

    def __init__(self, random: Random, *, mixed: bool = False) -> None:
        self.random, self.mixed = random, mixed
        self.tables = {
            name: {_quoted(column): KINDS.get(kind, kind) for column, kind, _ in TABLES[name]}
            for name in (*NAMES, *(OTHERS if mixed else ()))
        }
        self.aliases = 0

    def statement(self) -> str:
        """Return a statement; its rows are in the order of all its columns, or in none."""
        shape = self.random.choice(
            [self.rows, self.rows, self.groups, self.union, self.nested, self.common, self.windows]
        )
        text, kinds = shape()
        if self.chance(0.5):
            text += f" ORDER BY {self.positions(len(kinds))}"
            if self.chance(0.5):
                text += f" LIMIT {self.random.randrange(8)}"
                if self.chance(0.5):
                    text += f" OFFSET {self.random.randrange(4)}"
        return text

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def positions(self, count: int) -> str:
        order = (" DESC", " NULLS LAST", "", "")
        return ", ".join(f"{number}{self.random.choice(order)}" for number in range(1, count + 1))

    # -- statements: the text, and the kinds of the columns

    def rows(self, kinds: list[str] | None = None) -> tuple[str, list[str]]:
        sources, text = self.from_clause()
        wanted = kinds or [self.kind_in(sources) for _ in range(self.random.randint(1, 4))]
        items = ", ".join(f"{self.value(kind, sources, 2)} AS c{at}" for at, kind in enumerate(wanted))
        distinct = "DISTINCT " if self.chance(0.2) else ""
        return f"SELECT {distinct}{items} {text}{self.where(sources)}", wanted

    def groups(self) -> tuple[str, list[str]]:
        sources, text = self.from_clause()
        keys = [self.kind_in(sources) for _ in range(self.random.randint(0, 2))]
        terms = [self.value(kind, sources, 1) for kind in keys]
        aggregates = [self.aggregate(sources) for _ in range(self.random.randint(1, 3))]
        items = ", ".join(f"{term} AS c{at}" for at, term in enumerate([*terms, *(sql for sql, _ in aggregates)]))
        statement = f"SELECT {items} {text}{self.where(sources)}"
        if keys:
            statement += f" GROUP BY {', '.join(map(str, range(1, len(keys) + 1)))}"
            if self.chance(0.4):
                statement += f" HAVING count(*) > {self.random.randrange(3)}"
        return statement, [*keys, *(kind for _, kind in aggregates)]

    def union(self) -> tuple[str, list[str]]:
        first, kinds = self.rows()
        second, _ = self.rows(kinds)
        return f"{first} {self.random.choice(['UNION', 'UNION ALL', 'INTERSECT', 'EXCEPT'])} {second}", kinds

    def nested(self) -> tuple[str, list[str]]:
        inner, kinds = self.random.choice([self.rows, self.groups, self.union])()
        source = Source("x", "", {f"c{at}": kind for at, kind in enumerate(kinds)})
        return self.around(f"({inner}) AS x", source)

    def common(self) -> tuple[str, list[str]]:
        inner, kinds = self.random.choice([self.rows, self.groups])()
        source = Source("x", "", {f"c{at}": kind for at, kind in enumerate(kinds)})
        # A name that hides a frame. In SQLite, a common table expression that reads its own name is an error.
        hides = "city" if "city" not in inner and self.chance(0.3) else "x"
        text, kinds = self.around(f"{hides} AS x", source)
        return f"WITH {hides} AS ({inner}) {text}", kinds

    def around(self, table: str, source: Source) -> tuple[str, list[str]]:
        kinds = [self.random.choice(list(source.columns.values())) for _ in range(self.random.randint(1, 3))]
        items = ", ".join(f"{self.value(kind, [source], 1)} AS d{at}" for at, kind in enumerate(kinds))
        return f"SELECT {items} FROM {table}{self.where([source], subqueries=False)}", kinds

    def windows(self) -> tuple[str, list[str]]:
        table = self.random.choice(["sales", "staff"])
        source = Source("a", table, self.tables[table])
        part = f"PARTITION BY {self.value(self.kind_in([source]), [source], 0)} " if self.chance(0.6) else ""
        frame = self.random.choice([
            "", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            " RANGE BETWEEN 2 PRECEDING AND CURRENT ROW", " GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES",
        ])  # fmt: skip
        number, kind = self.value("float", [source], 1), self.kind_in([source])
        calls = [
            ("row_number()", "int", ""), ("rank()", "int", ""), (f"sum({number})", "float", frame),
            ("count(*)", "int", frame),
            (f"lag({self.value(kind, [source], 0)})", kind, ""), (f"max({self.value(kind, [source], 0)})", kind, frame),
            ("ntile(3)", "int", ""),
        ]  # fmt: skip
        call, kind, frame = self.random.choice(calls)
        order = "a.id" if "RANGE" in frame or self.chance(0.5) else "a.id DESC"
        text = f"SELECT a.id AS c0, {call} OVER ({part}ORDER BY {order}{frame}) AS c1 FROM {table} AS a"
        return f"{text}{self.where([source])}", ["int", kind]

    # -- clauses

    def source(self) -> Source:
        self.aliases += 1
        table = self.random.choice(list(self.tables))
        return Source(f"t{self.aliases}", table, self.tables[table])

    def from_clause(self) -> tuple[list[Source], str]:
        sources = [self.source()]
        text = f"FROM {sources[0].table} AS {sources[0].alias}"
        while len(sources) < 3 and self.chance(0.4):
            other = self.source()
            pair = self.equality(sources, other)
            if pair is None:
                continue
            join = self.random.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            text += f" {join} {other.table} AS {other.alias} ON {pair}"
            sources.append(other)
        return sources, text

    def equality(self, sources: list[Source], other: Source) -> str | None:
        pairs = [
            f"{source.alias}.{left} = {other.alias}.{right}"
            for source in sources
            for left, kind in source.columns.items()
            for right, wanted in other.columns.items()
            if kind == wanted != "bool" and kind in LITERALS
        ]
        return self.random.choice(pairs) if pairs else None

    def where(self, sources: list[Source], *, subqueries: bool = True) -> str:
        return f" WHERE {self.condition(sources, 2, subqueries=subqueries)}" if self.chance(0.6) else ""

    def kind_in(self, sources: list[Source]) -> str:
        return self.random.choice([kind for source in sources for kind in source.columns.values() if kind in LITERALS])

    # -- expressions

    def column(self, kind: str, sources: list[Source]) -> str | None:
        columns = [
            f"{source.alias}.{name}" for source in sources for name, own in source.columns.items() if own == kind
        ]
        return self.random.choice(columns) if columns else None

    def any_column(self, sources: list[Source]) -> str:
        """Return a column of any kind but days and moments: as a table, they compare a text like '3' as a number."""
        columns = [
            f"{source.alias}.{name}"
            for source in sources
            for name, kind in source.columns.items()
            if kind not in ("date", "moment", "zoned")
        ]
        return self.random.choice(columns) if columns else "NULL"

    def value(self, kind: str, sources: list[Source], depth: int) -> str:
        column = self.column(kind, sources)
        if depth <= 0 or self.chance(0.4):
            return column or self.literal(kind)
        if self.mixed and self.chance(0.4):
            return self.mixed_value(sources)
        inner = [self.value(kind, sources, depth - 1) for _ in range(2)]
        forms = [
            f"coalesce({inner[0]}, {inner[1]})",
            f"nullif({inner[0]}, {inner[1]})",
            f"CASE WHEN {self.condition(sources, depth - 1, subqueries=False)} THEN {inner[0]} ELSE {inner[1]} END",
        ]
        match kind:
            case "int":
                number = self.random.randint(2, 5)
                text = self.value("text", sources, 0)
                forms += [f"({inner[0]} {sign} {inner[1]})" for sign in "+-"]
                forms += [f"{inner[0]} % {number}", f"abs({inner[0]})", f"length({text})", f"{inner[0]} * {number}"]
            case "float":
                forms += [f"({inner[0]} {sign} {inner[1]})" for sign in "+-"]
                forms += [f"{inner[0]} * 2", f"{inner[0]} / 4", f"abs({inner[0]})"]
            case "text":
                start, size = self.random.randint(1, 3), self.random.randint(1, 3)
                forms += [f"({inner[0]} || {inner[1]})", f"substr({inner[0]}, {start}, {size})", f"trim({inner[0]})"]
                forms += [f"CAST({self.value('int', sources, 0)} AS TEXT)"]
            case "bool":
                return f"({self.condition(sources, depth - 1, subqueries=False)})"
            case "date" | "moment":
                if column is None:  # a text without a type in DuckDB
                    return self.literal(kind)
                forms = [f"nullif({column}, {self.literal(kind)})", f"coalesce({column}, {column})"]
                forms += [f"CASE WHEN {self.condition(sources, depth - 1, subqueries=False)} THEN {column} END"]
        return self.random.choice(forms)

    def literal(self, kind: str) -> str:
        text = self.random.choice(LITERALS[kind])
        if kind in ("date", "moment") and not self.mixed:
            return f"nullif({text}, '')"  # a text in both
        return text

    def condition(self, sources: list[Source], depth: int, *, subqueries: bool = True) -> str:
        if depth > 0 and self.chance(0.4):
            parts = [self.condition(sources, depth - 1, subqueries=subqueries) for _ in range(2)]
            word = self.random.choice(["AND", "OR"])
            return f"({parts[0]} {word} {parts[1]})" if self.chance(0.8) else f"NOT ({parts[0]})"
        if self.mixed and self.chance(0.4):
            return self.mixed_condition(sources)
        if subqueries and self.chance(0.25):
            return self.subquery(sources)
        kind = self.kind_in(sources)
        column = self.column(kind, sources) or "NULL"
        values = [self.random.choice(LITERALS[kind]) for _ in range(2)]
        forms = [
            f"{column} IS NULL", f"{column} IS NOT NULL", f"{column} {self.random.choice(COMPARISONS)} {values[0]}",
            f"{column} IN ({', '.join(values)})", f"{column} BETWEEN {values[0]} AND {values[1]}",
            f"{column} IS NOT DISTINCT FROM {self.column(kind, sources)}",
        ]  # fmt: skip
        if kind == "bool":
            forms = [column, f"NOT {column}", f"{column} IS NULL", f"{column} = {values[0]}"]
        if kind == "text":
            forms += [f"{column} GLOB '*o*'", f"{column} LIKE '%\\_%' ESCAPE '\\'"]
        return self.random.choice(forms)

    def subquery(self, sources: list[Source]) -> str:
        other = self.source()
        pair = self.equality(sources, other)
        if pair is None:
            return f"EXISTS (SELECT 1 FROM {other.table})"
        outer, inner = pair.split(" = ")
        table = f"{other.table} AS {other.alias}"
        return self.random.choice([
            f"{outer} IN (SELECT {inner} FROM {table})", f"{outer} NOT IN (SELECT {inner} FROM {table})",
            f"EXISTS (SELECT 1 FROM {table} WHERE {pair})", f"NOT EXISTS (SELECT 1 FROM {table} WHERE {pair})",
            f"{outer} >= (SELECT min({inner}) FROM {table})", f"(SELECT count(*) FROM {table} WHERE {pair}) > 1",
            f"{outer} = (SELECT max({inner}) FROM {table} WHERE {pair})",
        ])  # fmt: skip

    def aggregate(self, sources: list[Source]) -> tuple[str, str]:
        kind = self.kind_in(sources)
        column = self.value(kind, sources, 1)
        forms = [("count(*)", "int"), (f"count({column})", "int"), (f"count(DISTINCT {column})", "int")]
        forms += [(f"min({column})", kind), (f"max({column})", kind)]
        if kind in ("int", "float"):
            forms += [(f"sum({column})", kind), (f"avg({column})", "float"), (f"sum({column})", kind)]
        text, result = self.random.choice(forms)
        if self.chance(0.2):
            text += f" FILTER (WHERE {self.condition(sources, 0, subqueries=False)})"
        return text, result

    # -- only for SQLite

    def mixed_value(self, sources: list[Source]) -> str:
        column, other = self.any_column(sources), self.any_column(sources)
        return self.random.choice([
            f"typeof({column})", f"{column} || {other}", f"CAST({column} AS INTEGER)", f"CAST({column} AS TEXT)",
            f"CAST({column} AS REAL)", f"quote({column})", f"{column} / 2", f"min({column}, {other})", f"+{column}",
            f"{column} + {other}", f"max({column}, 3, 'x')", f"hex({column})", f"-{column}", f"round({column}, 1)",
            f"{column} = {other}", f"coalesce({column}, {self.random.choice(ANY_LITERAL)})", f"ifnull({column}, 0)",
            f"iif({column}, {other}, 1)", f"(SELECT {column} || 'x')", f"lower({column})",
        ])  # fmt: skip

    def mixed_condition(self, sources: list[Source]) -> str:
        column, other = self.any_column(sources), self.any_column(sources)
        literals = ", ".join(self.random.choice(ANY_LITERAL) for _ in range(3))
        literal, sign = self.random.choice(ANY_LITERAL), self.random.choice(COMPARISONS)
        table = self.random.choice(["ids", "shops"])
        return self.random.choice([
            f"{column} {sign} {literal}", f"{literal} {sign} {column}", f"{column} {sign} {other}",
            f"{column} IN ({literals})",
            f"{column} LIKE {literal}", f"{column}", f"{column} IS {literal}", f"{column} IN {table}",
            f"{column} {sign} {literal} COLLATE NOCASE", f"({column}, {other}) = ({literal}, {literal})",
            f"{column} {sign} (SELECT {literal})", f"{column} || '' {sign} {literal}",
            f"CAST({column} AS TEXT) {sign} {literal}",
            f"{literal} BETWEEN {column} AND {other}", f"typeof({column}) = 'text'",
        ])  # fmt: skip
