"""SQLite idioms for functions and syntax of other databases.

Each idiom is an expression or a statement over a table ``t`` with the columns ``x`` and ``y`` (text), ``n`` (a
number), ``d`` and ``e`` (dates). The tests run every one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pipemagic.explore.query import cursor_at
from pipemagic.sql import significant

_MEDIAN = (
    "SELECT avg(n) FROM (SELECT n FROM t WHERE n IS NOT NULL ORDER BY n "
    "LIMIT 2 - (SELECT count(n) FROM t) % 2 OFFSET (SELECT (count(n) - 1) / 2 FROM t))"
)
# The differences from the mean are squared: the difference of two sums of squares would lose its digits.
_SQUARES = "(n - (SELECT avg(n) FROM t)) * (n - (SELECT avg(n) FROM t))"
_VARIANCE = f"sum({_SQUARES}) / (count(n) - 1)"
_VARIANCE_OF_ALL = f"avg({_SQUARES})"
_SERIES = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 10) SELECT i FROM r"
_YEAR = "CAST(strftime('%Y', d) AS INTEGER)"

# Names of functions, and their idioms.
_IDIOMS: dict[str, tuple[str, ...]] = {
    "regexp regexp_like regexp_matches regexp_contains rlike similar_to": ("x GLOB '[A-Z]*'", "x LIKE 'a%'"),
    "regexp_replace": ("replace(x, 'a', 'b')",),
    "translate": ("replace(x, 'a', 'b')",),
    "regexp_substr regexp_extract split_part substring_index": ("substr(x, 1, instr(x, '-') - 1)",),
    "ilike": ("x LIKE 'a%'",),
    "now getdate sysdate systimestamp localtimestamp current_timestamp": ("datetime('now')",),
    "curdate current_date today": ("date('now')",),
    "curtime current_time": ("time('now')",),
    "date_trunc datetrunc trunc_date": ("date(d, 'start of month')", "strftime('%Y-%m-%d %H:00', d)"),
    "date_part datepart extract year": (_YEAR,),
    "month": ("CAST(strftime('%m', d) AS INTEGER)",),
    "day dayofmonth": ("CAST(strftime('%d', d) AS INTEGER)",),
    "hour": ("CAST(strftime('%H', d) AS INTEGER)",),
    "minute": ("CAST(strftime('%M', d) AS INTEGER)",),
    "second": ("CAST(strftime('%S', d) AS INTEGER)",),
    "dayofweek weekday dow": ("CAST(strftime('%w', d) AS INTEGER)",),
    "dayofyear doy": ("CAST(strftime('%j', d) AS INTEGER)",),
    "week weekofyear": ("CAST(strftime('%W', d) AS INTEGER)",),
    "quarter": ("(CAST(strftime('%m', d) AS INTEGER) + 2) / 3",),
    "datediff date_diff timestampdiff age": ("julianday(d) - julianday(e)",),
    "dateadd date_add adddate timestampadd interval": ("date(d, '+1 day')", "datetime(d, '-3 hours')"),
    "date_sub subdate": ("date(d, '-1 day')",),
    "add_months": ("date(d, '+1 month')",),
    "last_day eomonth": ("date(d, 'start of month', '+1 month', '-1 day')",),
    "to_date str_to_date": ("date(d)",),
    "to_timestamp from_unixtime": ("datetime(n, 'unixepoch')",),
    "unix_timestamp": ("CAST(strftime('%s', d) AS INTEGER)",),
    "to_char date_format format_date": ("strftime('%Y-%m-%d', d)", "printf('%.2f', n)"),
    "nvl isnull": ("ifnull(n, 0)",),
    "nvl2 if": ("CASE WHEN n > 0 THEN 'a' ELSE 'b' END",),
    "decode": ("CASE x WHEN 'a' THEN 1 ELSE 0 END",),
    "left": ("substr(x, 1, 2)",),
    "right": ("substr(x, -2)",),
    "mid": ("substr(x, 2, 3)",),
    "concat": ("x || y",),
    "concat_ws": ("x || ', ' || y",),
    "string_agg listagg": ("group_concat(x, ', ')",),
    "array_agg collect_list": ("json_group_array(x)",),
    "unnest string_split": ("SELECT value FROM json_each('[1, 2]')",),
    "generate_series": (_SERIES,),
    "len char_length character_length datalength": ("length(x)",),
    "charindex locate position strpos": ("instr(x, 'a')",),
    "ucase": ("upper(x)",),
    "lcase": ("lower(x)",),
    "greatest": ("max(n, 0)",),
    "least": ("min(n, 0)",),
    "lpad": ("printf('%05d', n)", "printf('%10s', x)"),
    "rpad": ("printf('%-10s', x)",),
    "repeat": ("replace(hex(zeroblob(3)), '00', 'ab')",),
    "reverse initcap": (),
    "stddev stddev_samp stdev": (f"sqrt({_VARIANCE})",),
    "stddev_pop stdevp": (f"sqrt({_VARIANCE_OF_ALL})",),
    "variance var_samp var": (_VARIANCE,),
    "var_pop varp": (_VARIANCE_OF_ALL,),
    "median percentile percentile_cont percentile_disc quantile approx_quantile": (_MEDIAN,),
    "countif count_if": ("count(*) FILTER (WHERE n > 0)",),
    "sumif sum_if": ("sum(n) FILTER (WHERE n > 0)",),
    "any_value first arbitrary": ("min(x)",),
    "bool_or": ("max(n > 0)",),
    "bool_and every": ("min(n > 0)",),
    "truncate trunc": ("CAST(n AS INTEGER)",),
    "rand": ("random()",),
    "newid uuid gen_random_uuid": ("lower(hex(randomblob(16)))",),
    "try_cast safe_cast to_number": ("CAST(x AS REAL)",),
    "json_value": ("json_extract('{\"a\": 1}', '$.a')",),
    "isnumeric": ("typeof(n) IN ('integer', 'real')",),
    "md5 sha1 sha2 sha256 crc32": (),
}

IDIOMS: dict[str, tuple[str, ...]] = {name: idioms for names, idioms in _IDIOMS.items() for name in names.split()}
"""The idioms by the name of the function in lower case; () if SQLite has none."""

_STATEMENTS = {"SHOW": "%pipedb tables", "DESCRIBE": "%pipedb columns TABLE", "DESC": "%pipedb columns TABLE"}
_LIMIT = "write LIMIT 5 at the end"
_WINDOW = "write SELECT * FROM (SELECT n, row_number() OVER (ORDER BY n) AS r FROM t) WHERE r = 1"


def of_function(name: str) -> str | None:
    """Return a hint on what to write instead of a function; '' if SQLite has no idiom, None if it is unknown."""
    idioms = IDIOMS.get(name.lower())
    if idioms is None:
        return None
    if name.lower() == "regexp_replace":
        return f"SQLite has no regexp_replace; {idioms[0]} replaces plain text"
    return write(idioms)


def of_table(name: str) -> str:
    """Return a hint on what to write instead of a table function; '' for any other unknown table."""
    return write(IDIOMS[name.lower()]) if name.lower() in ("generate_series", "unnest", "string_split") else ""


def write(idioms: Sequence[str]) -> str:
    """Return a hint with some idioms; '' for none."""
    return f"write {' or '.join(idioms)}" if idioms else ""


def of_syntax(text: str, offset: int) -> str:
    """Return a hint on what to write instead of syntax of another database; '' for any other error.

    ``offset`` (in characters) is the position of the error.
    """
    group, at = cursor_at(text, offset)
    word, before = group.word(at), group.word(at - 1)
    if group.parent is None and at == 0:
        return _of_truncate(text, offset) if word == "TRUNCATE" else _STATEMENTS.get(word, "")
    if before == "TOP" and word.isdecimal():
        return _LIMIT
    if word in ("FETCH", "FIRST", "NEXT") and "FETCH" in (word, before):
        return _LIMIT
    if "QUALIFY" in (word, before):
        return _WINDOW
    if word == "ISNULL" and group.group(at + 1) is not None:
        return write(IDIOMS["isnull"])
    for operator in ("ILIKE", "RLIKE"):
        if operator in (word, before):  # after an expression SQLite reads it as an alias
            return write(IDIOMS[operator.lower()])
    function = group.parent.word(group.index - 1) if group.parent is not None and word == "FROM" else ""
    return write({"EXTRACT": (_YEAR,), "SUBSTRING": IDIOMS["mid"]}.get(function, ()))


def _of_truncate(text: str, offset: int) -> str:
    """Return the line that deletes all rows of the table in a TRUNCATE."""
    found = [token for token in significant(text) if token.start > offset]
    name = "".join(token.text for token in (found[1:] if found[:1] and found[0].word == "TABLE" else found))
    is_name = all(token.kind in ("word", "quoted") or token.text == "." for token in found)
    return f"write %sql --confirm DELETE FROM {name}" if name and is_name else ""


def of_column(text: str, offset: int | None) -> str:
    """Return a hint on DATE '2024-01-01' and INTERVAL '1 day'; '' for any other unknown column."""
    words = significant(text)
    for one, following in pairwise(words):
        if one.start == offset and following.kind == "string":
            if one.text.upper() == "INTERVAL":
                return write(IDIOMS["interval"])
            if one.text.upper() in ("DATE", "TIME", "TIMESTAMP"):
                return f"dates are text: write {following.text}"
    return ""
