"""The statement that summarises one column.

Its values are grouped once (SQLite sorts them), and all figures come from the groups: the sum of their sizes gives
the place of each value in the order, so that quartiles are exact without a percentile function, which only some
servers have. One statement is one moment of the database, and touches one column, so that a table may be as wide as
SQLite allows.
"""

from __future__ import annotations

from pipemagic.explore import sending
from pipemagic.sql import quote

BINS = 12

LONGEST = 200
"""Bytes of a text that are sent."""

_BYTES = 20  # that are sent of a blob


def column_sql(table: str, column: str, *, top: int, where: str = "") -> str:
    """Give the statement, of all rows or those for which ``where`` holds.

    Each row that it gives begins with what it is: counts, ends, rank, bin, top.
    """
    rows, value = f"main.{quote(table)}", f"t.{quote(column)}"
    if where:  # the column by a name of ours: a subquery has none that is named true or false
        rows = f"(SELECT {quote(table)}.{quote(column)} AS v_ FROM {rows} WHERE {where}\n)"
        value = "t.v_"
    return _SQL.format(column=value, rows=rows, bins=BINS, last=BINS - 1, top=int(top))


def _shown(value: str) -> str:
    return sending.sent(value, text=LONGEST, blob=_BYTES)


def _is_whole(value: str) -> str:
    return f"{sending.size(value)} <= {LONGEST}"


# The _ in g_ and the others: a condition may look up a table that has the name g.
# In a group of equal values only 1 and 1.0 can differ in type: `i` counts the integers among them.
# `kind` decides what is put in order: the numbers, or text if all of it is dates. `number` is a value as a number.
# Bins: halves, since the difference of two large doubles would be infinite.
_SQL = f"""
WITH g_(v, n, i, k) AS MATERIALIZED (
    SELECT {{column}}, count(*), sum(typeof({{column}}) = 'integer'), typeof({{column}})
    FROM {{rows}} AS t GROUP BY {{column}}
), s_ AS MATERIALIZED (
    SELECT ifnull(sum(n), 0) AS total, ifnull(sum(iif(k = 'null', n, 0)), 0) AS nulls,
        ifnull(sum(k <> 'null'), 0) AS different, ifnull(sum(i), 0) AS integers,
        ifnull(sum(iif(k IN ('integer', 'real'), n, 0)), 0) AS numbers,
        ifnull(sum(iif(k = 'text', n, 0)), 0) AS texts, ifnull(sum(iif(k = 'blob', n, 0)), 0) AS blobs,
        ifnull(sum(iif(k = 'text' AND v GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'
            AND julianday(v) IS NOT NULL, n, 0)), 0) AS dates,
        total(iif(k IN ('integer', 'real'), 1.0 * v * n, NULL)) AS amount, min(v) AS least, max(v) AS most,
        min(iif(k IN ('integer', 'real') AND abs(1.0 * v) < 9e999, 1.0 * v, NULL)) AS low,
        max(iif(k IN ('integer', 'real') AND abs(1.0 * v) < 9e999, 1.0 * v, NULL)) AS high,
        min(iif(k = 'text', v, NULL)) AS first, max(iif(k = 'text', v, NULL)) AS final
    FROM g_
), m_ AS MATERIALIZED (
    SELECT CASE WHEN numbers > 0 THEN 1 WHEN texts > 0 AND texts = dates THEN 2 ELSE 0 END AS kind,
        iif(numbers > 0, numbers, texts) - 1 AS last,
        0.5 * iif(numbers > 0, low, julianday(first)) AS low, 0.5 * iif(numbers > 0, high, julianday(final)) AS high,
        iif(numbers > 0, amount / numbers, NULL) AS mean
    FROM s_
), o_ AS (
    SELECT v, n, sum(n) OVER (ORDER BY v ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto FROM g_, m_
    WHERE (m_.kind = 1 AND k IN ('integer', 'real')) OR (m_.kind = 2 AND k = 'text')
)
SELECT 'counts', total, nulls, different, integers, numbers, texts, blobs, dates FROM s_
UNION ALL SELECT 'ends', typeof(least), {_shown("least")}, typeof(most), {_shown("most")},
    typeof(mean), {_shown("mean")}, {sending.LETTER}, NULL FROM s_, m_
UNION ALL SELECT 'rank', upto - n, upto, typeof(v), {_shown("v")}, NULL, NULL, NULL, NULL FROM o_, m_
    WHERE (upto - n <= last / 4 AND upto > last / 4)
    OR (upto - n <= (last + 3) / 4 AND upto > (last + 3) / 4)
    OR (upto - n <= last / 2 AND upto > last / 2)
    OR (upto - n <= (last + 1) / 2 AND upto > (last + 1) / 2)
    OR (upto - n <= last * 3 / 4 AND upto > last * 3 / 4)
    OR (upto - n <= (last * 3 + 3) / 4 AND upto > (last * 3 + 3) / 4)
UNION ALL SELECT 'bin', b, c, NULL, NULL, NULL, NULL, NULL, NULL FROM (
    SELECT sum(n) AS c,
        CAST(min({{last}}, (0.5 * iif(m_.kind = 2, julianday(v), v) - low) / (high - low) * {{bins}}) AS INTEGER) AS b
    FROM g_, m_
    WHERE (m_.kind = 1 AND k IN ('integer', 'real') AND abs(1.0 * v) < 9e999) OR (m_.kind = 2 AND k = 'text') GROUP BY b
)
UNION ALL SELECT 'top', n, k, {_shown("v")}, whole, NULL, NULL, NULL, NULL FROM (
    SELECT v, n, k,
        CASE k WHEN 'text' THEN {_is_whole("v")} WHEN 'blob' THEN length(v) <= {_BYTES} ELSE 1 END AS whole
    FROM g_ WHERE v IS NOT NULL
    ORDER BY n DESC, v LIMIT {{top}}
)
"""
